"""Which estimate of a quantile may be used."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.judging.cutoffs import PLAIN_SHIFT

__all__ = ["choose_quantile"]

Floats = NDArray[np.float64]


def choose_quantile(
    use: ArrayLike, plain: Floats, weighted: Floats, error: Floats, sd: Floats, weights_work: bool
) -> list[str]:
    """Choose an estimate of one quantile of each quantity.

    What may be used of the mean and of the sd may be used of a quantile, with two cautions for the
    tails. Where the weights work, they must confirm the plain quantile too, to 0.08 sds;
    and a weighted quantile beyond which too few draws lie to know its error is no estimate.

    Parameters
    ----------
    use
        What may be used of both mean and sd, for each quantity.
    plain, weighted
        The quantile by equal weights and by the smoothed ones.
    error
        That of the weighted quantile, infinite where it is not known.
    sd
        Of each quantity, by the weights.
    weights_work
        Whether the weights can be trusted.
    """
    use = np.asarray(use, object)
    with np.errstate(invalid="ignore"):
        known = weights_work & np.isfinite(error)
        off = known & (np.abs(plain - weighted) > PLAIN_SHIFT * sd)
    chosen = np.select(
        [use == "neither", use == "psis", off], ["neither", "psis", "psis"], "vi"
    ).astype(object)
    chosen[(chosen == "psis") & ~known] = "neither"
    chosen[(chosen == "vi") & np.isnan(plain)] = "neither"
    return [str(each) for each in chosen]
