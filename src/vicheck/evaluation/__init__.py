"""Draws from q with both log densities, in chunks that bound the memory: the only place for that.

`drawing` has draws of vicheck's own approximations, which can grow and be computed by an executor;
`chunks` the loop, for draws that already exist and for adapters; `sizes` how large chunks are.
One piece of compiled code, `densities_and_values`, computes both densities and the quantities from
noise, for checks and for calibrations.
"""

from vicheck.evaluation.chunks import (
    evaluate_in_chunks,
    log_densities,
    log_p_at,
    log_p_through,
    rows_in_chunks,
    unconstrained,
    values_at,
    values_of_draws,
)
from vicheck.evaluation.drawing import (
    Drawing,
    Evaluated,
    Evaluation,
    densities_and_values,
    evaluate_draws_of,
)
from vicheck.evaluation.sizes import (
    BLOCKS,
    CHUNKS,
    FEWEST,
    SEPARATE_CHUNKS,
    TORCH_BATCHES,
    Sizes,
    chunk_size,
    kept_draws,
    width_of,
)

__all__ = [
    "BLOCKS",
    "CHUNKS",
    "FEWEST",
    "SEPARATE_CHUNKS",
    "TORCH_BATCHES",
    "Drawing",
    "Evaluated",
    "Evaluation",
    "Sizes",
    "chunk_size",
    "densities_and_values",
    "evaluate_draws_of",
    "evaluate_in_chunks",
    "kept_draws",
    "log_densities",
    "log_p_at",
    "log_p_through",
    "rows_in_chunks",
    "unconstrained",
    "values_at",
    "values_of_draws",
    "width_of",
]
