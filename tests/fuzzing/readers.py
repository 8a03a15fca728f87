"""Every reader of files: files that it reads, ways to spoil them, and how it is asked."""

import io
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import vicheck
from tests.calibration.made import calibration
from tests.fuzzing import mutations as how
from vicheck.adapters.arviz import from_arviz
from vicheck.adapters.data_files import read_data
from vicheck.adapters.ratio_files import read_log_ratios
from vicheck.adapters.stan.csv_files import read_stan_csv
from vicheck.calibration.store import Store
from vicheck.errors import HintedError
from vicheck.judging import judge_psis
from vicheck.results.calibration import Calibration
from vicheck.results.check import Check
from vicheck.results.convergence import Convergence, GradientTest, PooledModes
from vicheck.results.estimates import Measure, Predictive
from vicheck.results.status import FitStatus
from vicheck.stats.psis import psis_quietly

STAN = Path(__file__).parents[1] / "reference" / "stan_csv"
MANIFEST = {"model": "a1", "seed": 1, "settings": {"family": "mean_field"}, "quantities": ["mu"]}


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    suffix: str
    seeds: Callable[[Path], list[bytes]]
    """Makes contents that are valid, with a directory to write in."""
    read: Callable[[Path], bool]
    """Reads a file and uses what it holds; tells whether it was taken for valid."""
    ways: tuple = (how.spoil,)
    mend: Callable[[bytes], bytes] | None = None
    """Makes the checksum right."""
    share: float = 1.0
    """Of the files that others get: one that is slow gets fewer."""


def mutant(reader, contents, name, number):
    """Return the content of a file that was spoiled, always the same for the same number."""
    rng = random.Random(f"{name} {number}")
    way = rng.choice(reader.ways)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, of names that come twice
        content = way(rng.choice(contents), rng, contents)
    return reader.mend(content) if reader.mend and rng.random() < 0.8 else content


def outcome(reader, path):
    """Read a file: "valid", or "refused" with a sentence; anything raw is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "valid" if reader.read(path) else "refused"
        except HintedError as error:
            return "refused" if error.sentence.strip() else "raw"


def saved(directory, *results):
    contents = []
    for result in results:
        result.save(directory / "saved.npz")
        contents.append((directory / "saved.npz").read_bytes())
    return contents


@cache
def checks():
    draws = np.random.default_rng(1).normal(size=(60, 3))
    log_q = -(draws**2).sum(axis=1) / 2
    log_p = -(draws**2 / 1.3).sum(axis=1) / 2
    plain = vicheck.check_draws({"x": draws[:, :2], "tau": draws[:, 2]}, log_p, log_q)
    number = Measure(1.5, 0.1)
    full = replace(
        plain,
        convergence=Convergence(
            FitStatus.CONVERGED, "deterministic", GradientTest(0.01, 0.5, 0.1, "tau", 1000),
            gradient_trace=np.array([1.0, 0.1]),
        ),
        pooled=PooledModes(0.4, number, 0.3, np.array([0.7, 0.3]), np.ones((2, 3))),
        predictive=Predictive(number, Measure(np.nan, np.nan, "none"), 8),
        notes=("A note.",),
        extra={"ref_mean": {"tau": 0.5}, "ref_sd": {"tau": 1.5}},
        elbo_trace=np.array([-3.0, -2.0]),
    )  # fmt: skip
    return plain, full


def calibrations():
    return (
        calibration(num_datasets=12, mu=(0.5, 1.0)),
        calibration(num_datasets=25, statuses={3: "FAILED"}, settings={"versions": {"jax": "1"}}),
    )


def use_check(path):
    check = Check.load(path)
    str(check), repr(check), json.dumps(check.to_dict())
    return True


def use_calibration(path):
    result = Calibration.load(path)
    str(result), repr(result), result.provenance, json.dumps(result.to_dict(), default=str)
    return True


def chunks(directory):
    store = Store.open(directory / "store", MANIFEST)
    arrays = calibrations()[0].data
    names = ("probability", "status", "message", "khat", "seed")
    store.write(0, {name: arrays[name].to_numpy() for name in names})
    return [(store.path / "chunk-000000.bin").read_bytes()]


def use_chunk(path):
    store = Store.open(path.parent / "store", MANIFEST)
    path.replace(store.path / "chunk-000000.bin")
    arrays = store.read(0)
    return arrays is not None and all(map(str, arrays.values()))


def manifests(directory):
    store = Store.open(directory / "other", MANIFEST)
    return [(store.path / "manifest.json").read_bytes()]


def use_manifest(path):
    directory = path.parent / "begun"
    directory.mkdir(exist_ok=True)
    path.replace(directory / "manifest.json")
    Store.open(directory, MANIFEST)
    return True


def use_ratios(path):
    judge_psis(psis_quietly(read_log_ratios(str(path))))
    return True


def use_draws(draws):
    str(vicheck.check(draws))
    return True


def of_numpy(write, **options):
    stream = io.BytesIO()
    write(stream, **options)
    return stream.getvalue()


RATIOS = np.random.default_rng(2).normal(size=40)


def npz(directory):
    return [
        of_numpy(np.savez, log_ratios=RATIOS, names=np.array(["a", "b"])),
        of_numpy(np.savez, log_p=RATIOS, log_q=RATIOS.astype(np.float32)),
        of_numpy(np.savez_compressed, log_p=RATIOS, log_q=np.asfortranarray(RATIOS)),
    ]


def npz_data(directory):
    table = np.arange(6).reshape(2, 3)
    return [
        of_numpy(np.savez, x=RATIOS, n=np.array(3), flags=table > 2),
        of_numpy(np.savez_compressed, x=table.T, y=RATIOS[:5]),
    ]


def csv(directory):
    rows = "\n".join(f"{value:.6g},{2 * value:.3e}" for value in RATIOS)
    return [
        "\n".join(map(str, RATIOS)).encode(),
        f"# by hand\nlog_p,log_q\n{rows}\n".encode(),
        f'"log_ratios","a, b"\r\n{rows}\r\n'.encode(),
    ]


def csv_data(directory):
    return [b"x,y\n1,2.5\n3,4e3\n-5,nan\n", b'"","a","b c"\n"1",2,3\n"2",1e3,-4\n# end\n']


def json_data(directory):
    values = {"J": 8, "y": [28.5, 8, -3], "X": [[1, 2], [3, 4.5]], "flag": True, "sigma": 1.5}
    return [json.dumps(values).encode(), json.dumps(values, indent=2).encode()]


def parquet(directory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = []
    for options in ({}, {"compression": "none", "use_dictionary": False}, {"version": "1.0"}):
        for dtype in (np.float64, np.float32):
            columns = {"log_p": RATIOS.astype(dtype), "log_q": RATIOS, "note": ["a"] * RATIOS.size}
            pq.write_table(pa.table(columns), directory / "a.parquet", **options)
            made.append((directory / "a.parquet").read_bytes())
    return made


def netcdf(directory):
    with warnings.catch_warnings():  # 60 draws are few
        warnings.simplefilter("ignore", vicheck.UnreliableWarning)
        trees = [check.to_arviz(resampled=False).to_datatree() for check in checks()]
    made = []
    for tree in trees:
        tree.to_netcdf(directory / "a.nc", engine="h5netcdf")
        made.append((directory / "a.nc").read_bytes())
    # The older format has no groups, so that none of these can be valid.
    trees[0]["sample_stats"].to_dataset().to_netcdf(directory / "b.nc", engine="scipy")
    return [*made, (directory / "b.nc").read_bytes()]


def stan_csv(directory):
    made = []
    for path in sorted(STAN.glob("*.csv")):
        lines = path.read_bytes().splitlines(keepends=True)
        data = [at for at, line in enumerate(lines) if not line.startswith(b"#")]
        dropped = {*data[30:]}
        made.append(b"".join(line for at, line in enumerate(lines) if at not in dropped))
    return made


OWN = {"ways": (how.spoil, how.spoil_zip, how.spoil_zip, how.spoil_zip), "mend": how.mend_arrays}
READERS = {
    "chunk of a store": Reader(".bin", chunks, use_chunk, **OWN),
    "manifest of a store": Reader(
        ".json", manifests, use_manifest, (how.spoil, how.spoil_json), how.mend_manifest
    ),
    "saved check": Reader(".npz", lambda at: saved(at, *checks()), use_check, **OWN),
    "saved calibration": Reader(
        ".npz", lambda at: saved(at, *calibrations()), use_calibration, **OWN
    ),
    "ratios, .npy": Reader(
        ".npy", lambda _: [of_numpy(np.save, arr=RATIOS)], use_ratios, (how.spoil, how.spoil_npy)
    ),
    "ratios, .npz": Reader(".npz", npz, use_ratios, (how.spoil, how.spoil_zip)),
    "ratios, .csv": Reader(".csv", csv, use_ratios),
    "ratios, .parquet": Reader(".parquet", parquet, use_ratios),
    "data, .json": Reader(".json", json_data, read_data, (how.spoil, how.spoil_json)),
    "data, .npz": Reader(".npz", npz_data, read_data, (how.spoil, how.spoil_zip)),
    "data, .csv": Reader(".csv", csv_data, read_data),
    "ArviZ, .nc": Reader(".nc", netcdf, lambda path: use_draws(from_arviz(path)), share=0.25),
    "Stan's .csv": Reader(".csv", stan_csv, lambda path: use_draws(read_stan_csv(path))),
}
