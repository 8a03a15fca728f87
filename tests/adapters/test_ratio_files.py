import io

import numpy as np
import pytest

from vicheck import errors
from vicheck.adapters.ratio_files import read_log_ratios
from vicheck.errors import InputFileError, MissingExtraError

RATIOS = np.random.default_rng(4).normal(size=50)
LOG_P = RATIOS - 7.0
LOG_Q = np.full(50, -7.0)


def write_npy(path):
    np.save(path, RATIOS)


def write_npz(path):
    np.savez(path, log_p=LOG_P, log_q=LOG_Q, other=np.ones((3, 3)))


def write_npz_ratios(path):
    np.savez_compressed(path, log_ratios=RATIOS, theta=np.ones(50))


def write_csv(path):
    rows = "\n".join(f"{p!r},x,{q!r}" for p, q in zip(LOG_P.tolist(), LOG_Q.tolist(), strict=True))
    path.write_text("# made by hand\nlog_p,note,log_q\n" + rows + "\n")


def write_csv_of_r(path):
    lines = ['"","log_p","log_q"']
    pairs = zip(LOG_P.tolist(), LOG_Q.tolist(), strict=True)
    lines += [f'"{row}",{p!r},"{q!r}"' for row, (p, q) in enumerate(pairs, start=1)]
    path.write_bytes("\r\n".join(lines).encode("utf-8-sig"))


def write_npz_with_objects(path):
    np.savez(path, log_p=LOG_P, log_q=LOG_Q, other=np.array([{}]))


def write_csv_bare(path):
    path.write_text("\n".join(repr(value) for value in RATIOS.tolist()))


def write_parquet(path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"log_p": LOG_P, "log_q": LOG_Q, "name": ["a"] * 50})
    pyarrow.parquet.write_table(table, path)


def save_pair(path, log_p, log_q):
    with path.open("wb") as file:
        np.savez(file, log_p=log_p, log_q=log_q)


WRITERS = {
    "a.npy": write_npy,
    "b.npz": write_npz,
    "c.npz": write_npz_ratios,
    "d.csv": write_csv,
    "e.csv": write_csv_bare,
    "g.csv": write_csv_of_r,
    "h.npz": write_npz_with_objects,
    "f.parquet": write_parquet,
}


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](path)
    return path


def test_reads_every_format(written):
    np.testing.assert_allclose(read_log_ratios(str(written)), RATIOS, atol=1e-14)


def test_reads_every_format_from_standard_input(written, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(written.read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    np.testing.assert_allclose(read_log_ratios("-"), RATIOS, atol=1e-14)


def test_named_columns(tmp_path):
    path = tmp_path / "draws.csv"
    path.write_text('"lp","lq"\n1.5,0.5\n-inf,2\n')
    np.testing.assert_array_equal(
        read_log_ratios(str(path), log_p="lp", log_q="lq"), [1.0, -np.inf]
    )


def test_infinite_minus_infinite_is_nan_for_psis_to_report(tmp_path):
    path = tmp_path / "draws.csv"
    path.write_text("log_p,log_q\n-inf,-inf\n1,2\n")
    np.testing.assert_array_equal(read_log_ratios(str(path)), [np.nan, -1.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("# nothing\n", "holds no data, only comments"),
        ("log_p,log_q\n", "has a header but no draws"),
        ("log_p,log_q\n1,2\n3,4,5\n", "line 3: expected 2 values, got 3"),
        ("log_p,log_q\n1,2\n\n3,\n", "line 4, column 2: '' is not a number"),
        ("# c\nlog_p,log_q\n1,2\n3,oops\n", "line 4, column 2: 'oops' is not a number"),
        ("log_p\n1,2\n3,4\n", "line 2: expected 1 values, got 2"),
        ("a,b,c\n1,2,3\n", "has columns 'a', 'b', 'c': name the two log densities"),
        ("lp__,log_p__,log_g__\n0,0,0\n0,1,2\n", "variational output of Stan"),
    ],
)
def test_bad_csv_is_explained(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=message):
        read_log_ratios(str(path))


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (
            lambda path: np.save(path, np.ones((3, 4))),
            r"must have shape \(S,\), got shape \(3, 4\)",
        ),
        (lambda path: np.save(path, np.array(["a", "b"])), "must be real numbers, got dtype <U1"),
        (lambda path: np.save(path, np.array([], float)), r"got shape \(0,\)"),
        (lambda path: path.write_bytes(b"\x93NUMPYxx"), "not a readable NumPy file"),
        (lambda path: path.write_bytes(b"PK\x03\x04zz"), "not a readable NumPy file"),
        (lambda path: path.write_bytes(b"PAR1zz"), "not a readable Parquet file"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00\x01"), "none of .npy, .npz, .csv"),
        (lambda path: np.save(path, np.array([{}]), allow_pickle=True), "not a readable NumPy"),
        (
            lambda path: save_pair(path, np.ones(3), np.ones(4)),
            "3 values of log_p but 4 of log_q",
        ),
    ],
)
def test_bad_binary_is_explained(tmp_path, save, message):
    path = tmp_path / "bad.npy"
    save(path)
    with pytest.raises(InputFileError, match=message):
        read_log_ratios(str(path))


def test_missing_column_and_half_a_pair(written):
    unnamed = written.suffix == ".npy"
    message = "array without a name" if unnamed else "has no column 'lp': it has"
    with pytest.raises(InputFileError, match=message):
        read_log_ratios(str(written), log_p="lp", log_q="lq")
    with pytest.raises(InputFileError, match="go together, but log_q is missing"):
        read_log_ratios(str(written), log_p="lp")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("log_p,log_p\n1,2\n", (None, None), "name the two log densities"),
        ("log_p,log_p,log_q\n1,2,3\n", (None, None), "has 2 columns called 'log_p'"),
        ("log_p,log_q\n1,2\n", ("log_p", "log_p"), "both 'log_p'"),
    ],
)
def test_ambiguous_columns_are_refused(tmp_path, text, columns, message):
    path = tmp_path / "draws.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=message):
        read_log_ratios(str(path), log_p=columns[0], log_q=columns[1])


def test_of_many_columns_the_first_are_listed(tmp_path):
    names = [f"name_{number}" for number in range(40_000)]
    path = tmp_path / "many.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    with pytest.raises(InputFileError, match="'name_19' and 39980 more: name the two"):
        read_log_ratios(str(path))


def test_zip_without_arrays(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("draws.csv", "1\n2\n")
    with pytest.raises(InputFileError, match="holds no columns"):
        read_log_ratios(str(tmp_path / "a.zip"))


def test_missing_file():
    with pytest.raises(FileNotFoundError):
        read_log_ratios("no-such-file.npy")


def test_missing_extra_names_the_command(tmp_path, monkeypatch):
    path = tmp_path / "f.parquet"
    write_parquet(path)
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vicheck\[parquet\]'"):
        read_log_ratios(str(path))
