"""Errors as a newcomer meets them: a sentence, a hint and a status."""

import json
import os

import numpy as np
import pytest

from tests.calibration.made import calibration
from tests.cli.command_line import call
from tests.cli.test_check import MODEL, STAN_FILES

DATA = {
    "ok": {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]},
    "x": {"x": [1.0, 2.0, 3.0]},
    "y": {"y": 1.0},
    "nan": {"x": [1.0, 2.0], "y": [1.0, float("nan")]},
    "short": {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0]},
    "extra": {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [1.0]},
    "taken": {"x": [1.0, 2.0], "y": [1.0, 2.0], "observed": 1},
    "text": {"x": "a"},
    "list": [1.0, 2.0],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with one file of each kind."""
    directory = tmp_path_factory.mktemp("errors")
    (directory / "m.py").write_text(f"N = 3\n{MODEL}")
    (directory / "broken.py").write_text("import nothing_of_this_name\n")
    (directory / "syntax.py").write_text("def f(:\n")
    (directory / "broken.json").write_text('{"x": [1,')
    (directory / "note.txt").write_text("hello\n")
    (directory / "table.csv").write_text("x,y\n1,2\n")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }\n"
    (directory / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
    (directory / "deep.json").write_text("[" * 100_000)
    (directory / "full").mkdir()
    (directory / "full" / "file").touch()
    for name, content in DATA.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    np.save(directory / "r.npy", np.random.default_rng(1).normal(size=100))
    np.savez(directory / "pq.npz", log_p=np.ones(30), log_q=np.ones(30))
    calibration(seed=1).save(directory / "vsbc.npz")
    calibration(seed=2).save(directory / "vsbc2.npz")
    content = (directory / "vsbc.npz").read_bytes()
    at = content.index(b"probability.npy") + 200
    flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    (directory / "flipped.npz").write_bytes(flipped)
    (directory / "cut.npz").write_bytes(content[:-500])
    np.savez(directory / "old.npz", description=np.array("{}"), probability=np.ones(3))
    return directory


ALL = "--help lists what there is, with examples"
USE_SAVE = "--save of vicheck check, rescue and vsbc writes such files"
NO_FILE = "is it in another directory, or spelt differently?"

TABLE = [
    # what is typed, status, sentence, hint
    ("chekc", 64, "no such command 'chekc'", f"did you mean check? vicheck {ALL}"),
    ("frobnicate", 64, "no such command 'frobnicate'", f"vicheck {ALL}"),
    ("paper lst", 64, "no such command 'lst'", f"did you mean list? vicheck paper {ALL}"),
    ("psis", 64, "missing argument 'FILE'", f"vicheck psis {ALL}"),
    ("psis r.npy more", 64, "unexpected argument more", f"vicheck psis {ALL}"),
    ("psis r.npy --jsn", 64, "no such option: --jsn", "did you mean --json? vicheck psis "),
    ("psis r.npy --tail-length 2", 64, "--tail-length must be greater than or equal to 5", ALL),
    ("psis r.npy --tail-length two", 64, "--tail-length must be a valid integer", ALL),
    ("psis r.npy --tail-length 100", 64, "--tail-length must be below the 100 draws, got 100",
     "leave it out for the usual length"),
    ("psis r.npy --log-p a", 64, "--log-p and --log-q go together", "add --log-q COLUMN"),
    ("psis r.npy --log-p a --log-q b", 65, "r.npy holds one array without a name", "leave them"),
    ("psis pq.npz --log-p a --log-q b", 65, "pq.npz has no column 'a'", "it has 'log_p', 'log_q'"),
    ("psis huge.npy", 65, "huge.npy is not a readable NumPy file: it claims to hold 80000", ""),
    ("psis no.npy", 66, "cannot read no.npy: No such file or directory", NO_FILE),
    ("psis full", 66, "cannot read full: Is a directory", "give the name of a file in it"),
    ("psis table.csv", 65, "table.csv has columns 'x', 'y'", "name the two log densities by"),
    ("check", 64, "missing argument 'WHAT'", f"vicheck check {ALL}"),
    ("check no.py:line", 65, "no.py does not exist", "expected a Python file, as in file.py:model"),
    ("check m.py:lin", 65, "m.py has no 'lin'", "did you mean line? it has line, coin"),
    ("check m.py", 65, "m.py has no 'model'", "it has line, coin"),
    ("check m.py:N", 65, "'N' in m.py must be a function with NumPyro statements", "it has line"),
    ("check no_such_module:f", 65, "there is no module 'no_such_module'", "expected path/to/file"),
    ("check broken.py", 65, "importing broken.py failed at line 1: ModuleNotFoundError", ""),
    ("check syntax.py", 65, "importing syntax.py failed at line 1: SyntaxError", ""),
    ("check r.npy", 64, "r.npy is not a model", "for log ratios use vicheck psis"),
    ("check ok.json", 64, "ok.json is not a model", "data go with --data FILE, after the model"),
    ("check note.txt", 64, "note.txt is not a model", "a model is file.py:name"),
    ("check full", 64, "full is not a model", "a model is file.py:name"),
    ("check no.stan", 66, "cannot read no.stan: No such file or directory", NO_FILE),
    ("check no.csv", 66, "cannot read no.csv: No such file or directory", NO_FILE),
    ("check no.nc", 66, "cannot read no.nc: No such file or directory", NO_FILE),
    ("check table.csv", 65, "table.csv has no column log_p",
     "say which column it is by log_p= (on the command line --log-p)"),
    ("check table.csv --data ok.json", 64, "--data goes with a model, but table.csv is a fit",
     "leave it out, or name a model to fit"),
    ("check table.csv --family full_rank", 64, "--family goes with a model", "leave it out"),
    (f"check {STAN_FILES}/cmdstan_eight_schools_cp_nuts.csv", 65, "holds draws by MCMC", "look"),
    ("check m.py:line --data no.json", 66, "cannot read no.json: No such file", NO_FILE),
    ("check m.py:line --data note.txt", 65, "note.txt must end in one of .json, .npz, .csv", ""),
    ("check m.py:line --data broken.json", 65, "broken.json is not readable JSON", ""),
    ("check m.py:line --data list.json", 65, "list.json must hold an object of names", ""),
    ("check m.py:line --data text.json", 65, "text.json: 'x' must be a number or a list", ""),
    ("check m.py:line", 65, "the arguments do not fit the model: missing a required argument: 'x'",
     "the model takes x, y, and there is no --data"),
    ("check m.py:line --data extra.json", 65, "the arguments do not fit the model",
     "the model takes x, y, and extra.json has x, y, z"),
    ("check m.py:line --data taken.json", 65, "taken.json has an entry 'observed'", "give the arg"),
    ("check m.py:line --data x.json", 65, "the model has no data for y", "add y to the file that "),
    ("check m.py:line --data nan.json", 65, "y must be finite, got 1 of 2 values", ""),
    ("check m.py:line --data short.json", 65, "data for site 'y' must have shape (3,)", ""),
    ("check m.py:coin --data y.json", 65, "site 'heads' is a discrete latent", "marginalise"),
    ("check m.py:line --family student", 64, "--family: 'student' is not one of 'mean_field'", ALL),
    ("check m.py:line --draws 0", 64, "--draws must be a positive integer, got 0", ""),
    ("check m.py:line --report no/x.html", 74, "cannot write no/x.html: there is no directory no",
     "create it first, or give another"),
    ("check m.py:line --save full", 74, "cannot write full: it is a directory", "give the name"),
    ("vsbc m.py:line --data x.json --quantities slop", 64,
     "--quantities has 'slop', but the model has: slope", ""),
    ("vsbc m.py:line --data x.json --posterior", 65, "the model has no data for y", "add y to the"),
    ("vsbc m.py:line --data x.json --store note.txt", 74, "note.txt is not a directory",
     "use another path"),
    ("vsbc m.py:line --data x.json --store full", 74, "full is not empty and has no manifest.json",
     "use another directory"),
    ("vsbc m.py:line --data x.json --time-limit 0", 64, "--time-limit must be a positive", ""),
    ("vsbc m.py:line --num-datasets 0", 64, "--num-datasets must be greater than", ALL),
    ("vsbc m.py:line --save no/vsbc.npz", 74, "cannot write no/vsbc.npz: there is no directory no",
     "create it first"),
    ("report no.npz", 66, "cannot read no.npz: No such file or directory", NO_FILE),
    ("report note.txt", 65, "note.txt is not a .npz file", USE_SAVE),
    ("report flipped.npz", 65, "flipped.npz is not a calibration that vicheck has saved",
     "it has a wrong checksum"),
    ("report cut.npz", 65, "cut.npz is not a .npz file", USE_SAVE),
    ("report old.npz", 65, "old.npz was saved by an earlier version", "save the result again"),
    ("report full", 66, "cannot read full: Is a directory", "give the name of a file in it"),
    ("check m.py:line --data deep.json", 65, "deep.json is not readable JSON", ""),
    ("report pq.npz", 65, "pq.npz holds no check, rescue or calibration", USE_SAVE),
    ("report vsbc.npz vsbc2.npz", 64, "vsbc.npz and vsbc2.npz both hold a calibration",
     "give one check and one calibration"),
    ("report vsbc.npz --out full", 74, "cannot write full: it is a directory", "give the name"),
    ("report vsbc.npz --out no/x.html", 74, "cannot write no/x.html: there is no directory no",
     "create it first"),
    ("paper run fgi5", 64, "there is no experiment fgi5", "did you mean fig5? there are inv"),
    ("paper run fig1 --as-scripted", 64, "there is no variant of fig1 as scripted",
     "leave out --as-scripted"),
    ("paper run fig7 --quick --data x.npz", 64, "--data has no effect with --quick",
     "leave one of them out"),
    ("paper run fig7 --out note.txt", 64, "--out must be a directory, but note.txt is a file",
     "give another name"),
    ("demo --out note.txt", 74, "cannot write note.txt: File exists", "a file is in the way"),
    ("doctor now", 64, "unexpected argument now", f"vicheck doctor {ALL}"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "code", "sentence", "hint"), TABLE, ids=[row[0] for row in TABLE]
)
def test_an_error_is_a_sentence_a_hint_and_a_status(
    place, monkeypatch, typed, code, sentence, hint
):
    monkeypatch.chdir(place)
    before = sorted(os.listdir(place))
    done = call(*typed.split())
    first, *rest = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert first.startswith("vicheck: ")
    assert sentence in first
    assert len(rest) == bool(hint), done.stderr
    assert all(line.startswith("hint: ") and hint in line for line in rest)
    assert done.stdout == ""
    assert sorted(os.listdir(place)) == before
