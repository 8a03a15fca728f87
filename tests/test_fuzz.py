"""The first of the files that ``make fuzz`` reads: each is read, or refused with a sentence."""

from collections import Counter

import pytest

from tests.fuzzing.readers import READERS, mutant, outcome

FILES = 200
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name == "ArviZ, .nc" else name for name in READERS
]


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_files_are_read_or_refused(name, tmp_path):
    reader = READERS[name]
    contents = reader.seeds(tmp_path)
    path = tmp_path / f"file{reader.suffix}"
    counts = Counter()
    for number in range(int(FILES * reader.share**2)):
        path.write_bytes(mutant(reader, contents, name, number))
        counts[outcome(reader, path)] += 1
    assert counts["valid"] > 0
    assert counts["refused"] > 0
    assert set(counts) == {"valid", "refused"}


@pytest.mark.parametrize("name", READERS)
def test_what_is_spoiled_is_valid_before(name, tmp_path):
    reader = READERS[name]
    path = tmp_path / f"file{reader.suffix}"
    path.write_bytes(reader.seeds(tmp_path)[0])
    assert outcome(reader, path) == "valid"
