"""JSON from anybody: what is read, and what is refused."""

import pytest

from vicheck.errors import UnreadableError
from vicheck.files.json_reader import parse_json


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": [1, 2.5, true, null]}', {"a": [1, 2.5, True, None]}),
        ('{"a": {}}', {"a": {}}),
        ("\ufeff[]".encode(), []),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (str(2**1023 - 1).encode(), 2**1023 - 1),
        (b"[" * 49 + b"1" + b"]" * 49, None),
    ],
)
def test_values(content, value):
    parsed = parse_json(content)
    if value is None:
        for _ in range(49):
            (parsed,) = parsed
        value = 1
    assert parsed == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not readable JSON"),
        (b"{'a': 1}", "is not readable JSON: Expecting property name"),
        (b"\xff", "is not readable JSON: 'utf-8' codec"),
        (b'{"a": 1, "b": 2, "a": 3}', "has 2 entries called 'a'"),
        (b'[{"x": {"a": 1, "a": 1, "a": 1}}]', "has 3 entries called 'a'"),
        (b"[" * 60 + b"]" * 60, "is nested more than 50 levels deep"),
        (b"[" * 100_000, "is not readable JSON"),
        (b"[1, -" + str(2**1023).encode() + b"]", "has a number that is too large"),
        (b'{"a": "\\ud800"}', "has text with half a character"),
        (b'{"\\udc00": 1}', "has text with half a character"),
    ],
)
def test_refusals(content, message):
    with pytest.raises(UnreadableError, match=f"^{message}"):
        parse_json(content)
