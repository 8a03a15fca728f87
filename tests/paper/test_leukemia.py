"""Where the leukemia data come from, and the errors when they cannot be read."""

import json

import numpy as np
import pytest

from vicheck.errors import InputFileError
from vicheck.paper import leukemia
from vicheck.paper.leukemia import FEATURE, NUM_FEATURES, NUM_ROWS, load_leukemia

SHAPE = (NUM_ROWS, NUM_FEATURES)


def test_synthetic_data_have_the_shape_and_say_what_they_are():
    data = load_leukemia(None)
    assert data.X.shape == SHAPE
    assert data.y.sum() == 25
    assert data.source == "synthetic"
    assert not data.is_real
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)
    separation = data.X[data.y == 1, FEATURE].mean() - data.X[data.y == 0, FEATURE].mean()
    assert separation > 1.0


def test_a_quick_run_takes_fewer_features_and_nothing_else(tmp_path):
    data = load_leukemia(str(tmp_path / "nothing.npz"), quick=True)
    assert FEATURE < data.X.shape[1] < NUM_FEATURES
    assert data.source == "synthetic"


@pytest.mark.parametrize("by_directory", [True, False])
def test_a_file_is_read_and_standardised(tmp_path, by_directory):
    rng = np.random.default_rng(0)
    path = tmp_path / "leukemia.npz"
    np.savez(path, X=5 + 3 * rng.normal(size=SHAPE), y=np.repeat([0, 1], [47, 25]))
    data = load_leukemia(str(tmp_path if by_directory else path))
    assert data.is_real
    np.testing.assert_allclose(data.X.std(axis=0, ddof=1), 1.0)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputFileError, match=r"leukemia data from .*nothing.npz"):
        load_leukemia(str(tmp_path / "nothing.npz"))


def test_other_data_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, X=np.zeros((10, 2)), y=np.zeros(10))
    with pytest.raises(InputFileError, match=r"shape \(72, 7129\).*got \(10, 2\)"):
        load_leukemia(str(path))


def test_another_coding_of_the_classes_is_refused(tmp_path):
    path = tmp_path / "flipped.npz"
    np.savez(path, X=np.random.default_rng(0).normal(size=SHAPE), y=np.repeat([1, 0], [47, 25]))
    with pytest.raises(InputFileError, match=r"1 for the 25 patients with AML.*sum 47"):
        load_leukemia(str(path))


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "damaged.npz"
    path.write_bytes(b"PK\x03\x04 nothing more")
    with pytest.raises(InputFileError, match=r"damaged\.npz"):
        load_leukemia(str(path))


def test_a_download_is_read(tmp_path):
    """The form of OpenML's answers, from files: a description that says where an ARFF file is."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=SHAPE).round(3)
    names = [f"@ATTRIBUTE g{i} NUMERIC" for i in range(NUM_FEATURES)]
    rows = [",".join([*map(str, row), kind]) for row, kind in
            zip(values, ["ALL"] * 47 + ["AML"] * 25, strict=True)]  # fmt: skip
    text = "\n".join(["@RELATION leukemia", *names, "@ATTRIBUTE CLASS {ALL,AML}", "@DATA", *rows])
    (tmp_path / "leukemia.arff").write_text(text)
    described = {"data_set_description": {"url": (tmp_path / "leukemia.arff").as_uri()}}
    (tmp_path / "described.json").write_text(json.dumps(described))
    data = leukemia._download((tmp_path / "described.json").as_uri())
    assert data.y.tolist() == [0] * 47 + [1] * 25
    assert data.source == "OpenML 1104"


def test_a_failed_download_says_what_else_there_is(tmp_path):
    with pytest.raises(InputFileError, match="give a file with --data"):
        leukemia._download((tmp_path / "nothing.json").as_uri())
