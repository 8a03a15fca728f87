"""The work of a calibration, cut into chunks: each a pure function of the work and its number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.calibration.assessment import assess, compile_assessment
from vicheck.calibration.replication import REPLICATE, ReplicatedProgram
from vicheck.calibration.user_fits import Outcome, failed, outcome_of
from vicheck.model import Data, Model, double_precision, replicate_many, simulate_many
from vicheck.quantities import Quantities
from vicheck.results.calibration_data import VARIABLES, Variable
from vicheck.results.run_settings import RunSettings
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import Recent, ahead
from vicheck.runtime.processor import made_on
from vicheck.runtime.progress import showing
from vicheck.runtime.seeds import generators, states
from vicheck.runtime.tracing import abstract_key
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind, kind_of
from vicheck.vi.fitting import fit
from vicheck.vi.solvers.deterministic.progress import begin
from vicheck.vi.solvers.deterministic.solver import Deterministic

__all__ = ["Arrays", "Work", "seeds_of"]

Arrays = dict[str, NDArray[Any]]
"""The result of a chunk: arrays whose first axis is over its datasets."""

_ARRAYS = {name: each for name, each in VARIABLES.items() if "dataset" in each.dims} | {
    "made_on": Variable(("dataset",), "U")
}
"""What the result of a chunk consists of."""
_COMPILING = threading.Lock()
_COMPILED = Recent()
"""What is compiled in this process."""
_TRUTH = 4
"""Stream of random numbers, belonging to a dataset's seed, that a posterior's truth comes from."""


@dataclass(frozen=True, eq=False)
class Work:
    """Everything a chunk depends on; it goes to workers as it is, so it can be pickled."""

    model: Model
    """With the data the simulations are conditioned on and, for a posterior, the observations."""
    quantities: Quantities
    settings: RunSettings
    options: dict[str, Any]
    """Options of the solver, as they are; the settings describe them."""
    fit: Callable[[Data, int], Any] | None
    """A function of the user's that fits."""
    centre: Family | None
    """For calibration at the observed data: the q whose draws are the truths."""

    @property
    def num_chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.settings.num_datasets // self.settings.chunk_size)

    def rows(self, index: int) -> range:
        """Return the numbers of the datasets of a chunk."""
        start = index * self.settings.chunk_size
        return range(start, min(start + self.settings.chunk_size, self.settings.num_datasets))

    def snapshot(self) -> Work:
        """Return a copy whose model is traced only once."""
        return replace(self, model=self.model.snapshot())

    def chunk(self, index: int) -> Arrays:
        """Simulate, fit and assess the datasets of one chunk."""
        rows = self.rows(index)
        count = len(rows)
        # The last chunk is as long as the others: compiled code is for one length.
        seeds = seeds_of(self._seed, rows.start, self.settings.chunk_size)
        with double_precision():
            if self._in_batches:
                self._compile(seeds)
            truth, own = jax.device_get(self._simulate(seeds))
            arrays = self._together(truth, own, seeds) if self._in_batches else None
            if arrays is None:
                arrays = self._one_by_one(truth[:count], own, seeds[:count])
        arrays = {name: array[:count] for name, array in arrays.items()}
        return {
            "dataset": np.array(rows),
            "seed": seeds[:count],
            "made_on": np.full(count, made_on()),
        } | arrays

    def is_chunk(self, index: int, arrays: Arrays) -> bool:
        """Whether arrays from a file can be a chunk of this work, by names, types and shapes."""
        rows = self.rows(index)
        sizes = {"dataset": len(rows), "quantity": len(self.quantities.names)}
        return (
            arrays.keys() == _ARRAYS.keys()
            and all(
                array.dtype.kind in _ARRAYS[name].kinds
                and array.shape == tuple(sizes[dim] for dim in _ARRAYS[name].dims)
                for name, array in arrays.items()
            )
            and np.array_equal(arrays["dataset"], rows)
            and np.array_equal(arrays["seed"], seeds_of(self._seed, rows.start, len(rows)))
            and {*arrays["status"].tolist()} <= {*FitStatus.__members__}
        )

    @property
    def _seed(self) -> int:
        return self.settings.seeds[0]

    @property
    def _in_batches(self) -> bool:
        return self.settings.solver == "deterministic" and self.settings.time_limit is None

    @property
    def _kind(self) -> Kind:
        assert self.settings.family is not None  # asked of vicheck's own fits alone
        return kind_of(self.settings.family, self.model.dim, self.settings.rank)

    @property
    def _batch_solver(self) -> Deterministic:
        return Deterministic(**self.options)

    def _compile(self, seeds: NDArray[np.int64]) -> None:
        """Begin to compile everything, once per process, what takes longest first."""
        kind = self._kind
        with _COMPILING:
            # By what is simulated, which is traced for that anyway: every chunk comes here.
            simulated = self.model.program.computation("simulate", self.model.data)
            key = (simulated, self.centre is None, self.quantities, kind, len(seeds))
            if key in _COMPILED:
                return
            own = self._placeholders(seeds)
            program, shared = self.fitted.program, self._shared(own)
            with ahead():
                self._batch_solver.compile_many(program, kind, shared, own, seeds)
                truth, _ = jax.device_get(self._simulate(seeds))
                q = begin(kind, truth, 1).q
                compile_assessment(
                    program, self.quantities, q, truth, own, shared, self.settings.num_draws
                )
            _COMPILED.add(key)

    def _compile_one(self, own: Data) -> None:
        """Compile what a single fit needs, before its time is taken."""
        program = self.fitted.program
        data = self._shared(own) | jax.tree.map(lambda leaf: leaf[0], own)
        key = (program.computation("log_density", data), self._kind)
        with _COMPILING:
            if key not in _COMPILED:
                self._batch_solver.compile_many(
                    program, self._kind, data, {}, np.zeros(1, np.int64)
                )
                _COMPILED.add(key)

    @cached_property
    def fitted(self) -> Model:
        """The model that is fitted: for a posterior, to the observations and a replicate."""
        if self.centre is None and self._in_batches:
            return Model(self.model.program.unchecked().snapshot(), self.model.data)
        if self.centre is None:
            return self.model
        return Model(ReplicatedProgram(self.model.program).snapshot(), self.model.data)

    def _simulate(self, seeds: NDArray[np.int64]) -> tuple[jax.Array, Data]:
        """Draw truths and their data, in arrays with an axis over datasets."""
        program, data = self.model.program, self.model.data
        if self.centre is None:
            return simulate_many(program, seeds, data)
        noise = np.stack(
            [
                rng.standard_normal(self.centre.noise_dim)
                for rng in generators(np.random.PCG64, seeds, _TRUTH)
            ]
        )
        truth = jax.vmap(self.centre.transform)(jnp.asarray(noise))
        return truth, {REPLICATE: replicate_many(program, seeds, truth, data)}

    def _placeholders(self, seeds: NDArray[np.int64]) -> Data:
        """Return zeros in the shapes of simulated data."""
        program, data = self.model.program, self.model.data
        _, one = jax.eval_shape(program.simulate, abstract_key(), data)
        own = jax.tree.map(lambda leaf: np.zeros((len(seeds), *leaf.shape), leaf.dtype), one)
        return own if self.centre is None else {REPLICATE: own}

    def _shared(self, own: Data) -> Data:
        return {name: value for name, value in self.model.data.items() if name not in own}

    def _together(
        self, truth: NDArray[np.float64], own: Data, seeds: NDArray[np.int64]
    ) -> Arrays | None:
        """Fit all datasets in one call; return None when something was raised."""
        program, shared = self.fitted.program, self._shared(own)
        try:
            fits = self._batch_solver.solve_many(program, self._kind, shared, own, seeds)
            assessment = assess(
                program,
                self.quantities,
                fits.q,
                truth,
                own,
                shared,
                seeds,
                self.settings.num_draws,
            )
        except Exception:  # a model that raises on some data: find out on which
            return None
        # A fit whose density was nowhere finite is no approximation of anything.
        nothing = np.array([status is FitStatus.NOT_FINITE for status in fits.status])
        return {
            "probability": np.where(nothing[:, None], np.nan, assessment.probability),
            "status": np.array([status.name for status in fits.status]),
            "message": np.array([_message(status) for status in fits.status]),
            "khat": np.where(nothing, np.nan, assessment.khat),
            "symmetric_kl": np.where(nothing, np.nan, assessment.symmetric_kl),
            "num_evaluations": fits.num_evaluations.astype(float),
            "gradient_norm": fits.gradient_norm,
            "sampling_error": fits.sampling_error,
        }

    def _one_by_one(
        self, truth: NDArray[np.float64], own: Data, seeds: NDArray[np.int64]
    ) -> Arrays:
        if self.settings.solver == "deterministic" and not self._in_batches:
            self._compile_one(own)
        rows = []
        for index, seed in enumerate(seeds):
            data = jax.tree.map(lambda leaf: leaf[index], own)  # noqa: B023
            rows.append(self._one(truth[index], data, int(seed)))
        return {
            "probability": np.stack([row.probability for row in rows]),
            "status": np.array([row.status.name for row in rows]),
            "message": np.array([row.message or _message(row.status) for row in rows]),
        } | {
            name: np.array([getattr(row, name) for row in rows])
            for name in (
                "khat", "symmetric_kl", "num_evaluations", "gradient_norm", "sampling_error",
            )
        }  # fmt: skip

    def _one(self, truth: NDArray[np.float64], own: Data, seed: int) -> Outcome:
        model = Model(self.fitted.program, self.fitted.data | own)
        size = len(self.quantities.names)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
            return failed(size, FitStatus.FAILED, "the simulated data has NaN or infinite values")

        def run() -> Any:
            with showing(False, ""):  # one of many, perhaps on a worker with a terminal
                return fitted()

        def fitted() -> Any:
            if self.fit is not None:
                return self.fit(model.data, seed)
            family, solver = self.settings.family, self.settings.solver
            assert family is not None
            assert solver is not None
            rank = self.settings.rank
            # Other modes are not searched for: what is calibrated is the fit alone.
            return fit(
                model,
                family=family,
                rank=rank,
                solver=solver,
                num_starts=1,
                seed=seed,
                **self.options,
            )

        return outcome_of(
            run,
            model,
            self.quantities,
            truth,
            own,
            seed,
            self.settings.num_draws,
            self.settings.time_limit,
        )


def seeds_of(seed: int, start: int, count: int) -> NDArray[np.int64]:
    """Return the seeds of consecutive datasets; those of a run are the same however it is cut.

    They have 53 bits, which every JSON reader keeps.
    """
    numbers = np.arange(start, start + count)
    words = states(np.full_like(numbers, seed), numbers, 1)[:, 0]
    return (words >> np.uint64(11)).astype(np.int64)


def _message(status: FitStatus) -> str:
    """Return what is wrong with a fit that ended with this status, if that is known."""
    return "" if status in (FitStatus.CONVERGED, FitStatus.UNKNOWN) else status.value
