"""Ways to spoil a file: blindly, or knowing its format and mending its checksum afterwards."""

import io
import json
import re
import zipfile
from copy import deepcopy
from hashlib import sha256

NUMBERS = (
    b"-1", b"0", b"1", b"2", b"1.5", b"-0.0", b"1e400", b"-1e400", b"5e-324", b"nan", b"NaN",
    b"Infinity", b"-inf", b"null", b"true", b'""', b"", b"x", b"1_0", b"0x10", b"2147483648",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"1000000000000",
    b"9" * 30, b"9" * 400, b"9" * 5000, "\u0663".encode(), "\u00b2".encode(),
)  # fmt: skip
PIECES = (
    b"\0", b"\0" * 100, b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80",
    b"\n", b"\r", b"\r\n", b",", b",,", b'"', b"'", b"#", b"\\", b"\\u0000", b'"\\ud800"', b"[",
    b"]", b"{", b"}", b"(", b")", b":", b"[" * 60, b"[" * 3000, b'{"a":' * 3000, b"(" * 3000,
    b" " * 5000, b"a" * 200_000, b"PK\x05\x06", b"PK\x01\x02", b"\x1b[2J", "\u2028".encode(),
    "\u202e".encode(),
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**30), 1.5, float("nan"),
    float("inf"), 1e-320, "", "x", "nan", "1", "x" * 5000, "\ud800", "\x00", "\x1b[31m", [],
    {}, [[]], [[1], [1, 2]], [1, "a", None], [None], {"": 0}, {"a": {"b": []}},
    [[0.5, 0.5], [0.5, 0.5]],
    {"value": 1.0, "mcse": 1.0, "reason": ""}, [10**30], [True], ["a", "b"],
)  # fmt: skip
DTYPES = (
    "|O", "<O8", "|V8", "<M8[ns]", "<m8", "<f2", "<f4", "<f8", ">f8", "<f16", "<c16", "<i8", ">i4",
    "|i1", "<u8", "|b1", "|S8", "<U0", "<U1", ">U2", "<U4", "<U999999999", "<f3", "f8", "<x8", "",
    "<f8,<f8", "|S0", "<U99999999999999999999",
)  # fmt: skip
SHAPES = (
    "()", "(0,)", "(1,)", "(-1,)", "(2, -3)", "(1000000000000000,)", "(9223372036854775807, 2)",
    "(4294967296, 4294967296)", "(0, 9223372036854775807)", "(99999999999999999999999,)", "(1.5,)",
    "(True,)", "(3L,)", "3", "((1,),)", "(" + "1, " * 70 + ")", "(" + "9" * 300 + ",)", "('a',)",
)  # fmt: skip


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def spoil(content, rng, others):
    """Change a few bytes, anywhere or where formats keep their structure."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        content = rng.choice(BLIND)(content, rng, others)
    return bytes(content)


def _place(content, rng):
    """Return a position: often near the ends, where headers and directories are."""
    size = max(len(content), 1)
    near = min(size, 200)
    return rng.choice((rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))


def _flip(content, rng, _):
    if content:
        content[_place(content, rng)] ^= 1 << rng.randrange(8)
    return content


def _overwrite(content, rng, _):
    at, piece = (
        _place(content, rng),
        rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8)),
    )
    content[at : at + len(piece)] = piece
    return content


def _truncate(content, rng, _):
    return content[: _place(content, rng)]


def _remove(content, rng, _):
    at = _place(content, rng)
    del content[at : at + rng.choice((1, 2, 8, 100))]
    return content


def _repeat(content, rng, _):
    at = _place(content, rng)
    part = content[at : at + rng.choice((1, 8, 100, 5000))]
    return content[:at] + part * rng.choice((2, 2, 50)) + content[at:]


def _insert(content, rng, _):
    at, piece = _place(content, rng), rng.choice(PIECES)
    return content[:at] + piece + content[at:]


def _splice(content, rng, others):
    other = rng.choice(others)
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def _renumber(content, rng, _):
    places = [match.span() for match in re.finditer(rb"-?\d[\d.e+-]*", content[:20_000])]
    if not places:
        return content
    start, end = rng.choice(places)
    return content[:start] + rng.choice(NUMBERS) + content[end:]


BLIND = (
    _flip,
    _flip,
    _overwrite,
    _truncate,
    _remove,
    _repeat,
    _insert,
    _splice,
    _renumber,
    _renumber,
)


def spoil_tree(value, rng):
    """Change something in what JSON has held."""
    path = []
    while isinstance(value, dict | list) and value and (not path or rng.random() < 0.7):
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        path.append((value, key))
        value = value[key]
    if not path:
        return deepcopy(rng.choice(VALUES))
    root, (owner, key) = path[0][0], path[-1]
    what = rng.randrange(10)
    if what == 0:
        del owner[key]
    elif what == 1 and isinstance(owner, dict):
        owner[rng.choice(("", "x", key + "x", "0", "-1", "nan"))] = owner.pop(key)
    elif what == 2 and isinstance(owner, list):
        owner.append(owner[key])
    elif what == 3:
        owner[key] = nested(rng.choice((2, 45, 60, 70, 300)))
    else:
        like = [each for each in VALUES if type(each) is type(owner[key])]
        owner[key] = deepcopy(rng.choice(like if like and rng.random() < 0.5 else VALUES))
    return root


def spoil_json(content, rng, others):
    """Change the tree, sometimes in more than one place."""
    tree = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        tree = spoil_tree(tree, rng)
    return json.dumps(tree).encode()


def spoil_npy(content, rng, others):
    """Change type, shape, order or length that the header of an array tells."""
    size = int.from_bytes(content[8:10], "little")
    header, rest = content[10 : 10 + size].decode("latin-1"), content[10 + size :]
    what = rng.randrange(6)
    if what == 0:
        header = re.sub(r"'descr': '[^']*'", f"'descr': '{rng.choice(DTYPES)}'", header)
    elif what == 1:
        header = re.sub(r"'shape': \([^)]*\)", f"'shape': {rng.choice(SHAPES)}", header)
    elif what == 2:
        header = header.replace("False", "True").rstrip() + "\n"
    elif what == 3:
        header = spoil(header.encode("latin-1"), rng, others).decode("latin-1")
    elif what == 4:
        rest = bytearray(rest)
        for _ in range(rng.choice((1, 10, 100))):
            rest = (_flip, _overwrite)[rng.randrange(2)](rest, rng, others)
        rest = bytes(rest[: len(content) - 10 - size])
    else:
        rest = rest[: rng.randrange(len(rest) + 1)]
    encoded = header.encode("latin-1")[:65535]
    told = len(encoded) if rng.random() < 0.95 else rng.randrange(65536)
    version = rng.choice((b"\x01\0", b"\x01\0", b"\x01\0", b"\x02\0", b"\x03\0", b"\xff\0"))
    length = told.to_bytes(2 if version[0] == 1 else 4, "little")
    return content[:6] + version + length + encoded + rest


def spoil_zip(content, rng, others):
    """Take an archive apart and put it together with a member changed, lost, doubled or renamed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        comment = archive.comment
    at = rng.randrange(len(members))
    name, inner = members[at]
    what = rng.randrange(16)
    if what == 0:
        del members[at]
    elif what == 1:
        members.append((name, inner))
    elif what == 2:
        members[at] = (
            rng.choice(("", "x.npy", "../x.npy", "description.json", "a" * 300, name + "x")),
            inner,
        )
    elif what == 3:
        members[at] = (name, rng.choice(others))
    elif inner.startswith(b"\x93NUMPY"):
        members[at] = (name, spoil_npy(inner, rng, others))
    elif inner.startswith(b"{"):
        members[at] = (name, spoil_json(inner, rng, others))
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, inner in members:
            archive.writestr(zipfile.ZipInfo(name), inner, kind)
        archive.comment = comment
    return made.getvalue()


def forge(content, change, **options):
    """Return a file of vicheck's own with other members, and the checksum that belongs to it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", **options) as archive:
        for name, inner in change(members).items():
            archive.writestr(name, inner)
        archive.comment = comment
    return mend_arrays(made.getvalue())


def with_header(name, old, new):
    """Return a change of the header of one array; its length is told as it is."""

    def change(members):
        inner = members[f"{name}.npy"]
        assert inner.count(old) == 1
        size = int.from_bytes(inner[8:10], "little") + len(new) - len(old)
        inner = inner[:8] + size.to_bytes(2, "little") + inner[10:].replace(old, new)
        return members | {f"{name}.npy": inner}

    return change


def mend_arrays(content):
    """Give a file of vicheck's own the checksum that it should have, wherever it ends."""
    at = content.rfind(b"vicheck sha256 ")
    body = content[: at + 15] if at >= 0 else content
    return body + sha256(body).hexdigest().encode()


def mend_manifest(content):
    """Give a manifest the checksum that it should have, if it still is one."""
    try:
        parts = json.loads(content)
        signed = [parts["vicheck_store"], parts["manifest"], parts["begun_on"]]
        told = json.dumps(signed, sort_keys=True)
        parts["sha256"] = sha256(told.encode()).hexdigest()
        return json.dumps(parts).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return content
