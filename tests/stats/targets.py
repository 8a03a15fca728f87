"""Log ratios of standard normal draws whose causes are known, with their slopes."""

import numpy as np


def settled(e, ratios, slopes):
    """Take out slopes and curvatures, as the best member of mean field does."""
    linear, curvature = slopes.mean(axis=0), (e * slopes).mean(axis=0)
    ratios = ratios - e @ linear - 0.5 * (e**2 - 1.0) @ curvature
    return ratios, slopes - linear - e * curvature


def correlation(e, size=0.5):
    """A chain: each coordinate goes with the next."""
    ratios = size * (e[:, 1:] * e[:, :-1]).sum(axis=1)
    slopes = np.zeros_like(e)
    slopes[:, 1:] += size * e[:, :-1]
    slopes[:, :-1] += size * e[:, 1:]
    return ratios, slopes


def funnel(e, sd=0.3, precision=0.6):
    """All coordinates but the first have the first as the log of their scale."""
    stretch = precision * np.exp(-2.0 * sd * e[:, 0])
    squares = (e[:, 1:] ** 2).sum(axis=1)
    slopes = np.empty_like(e)
    slopes[:, 0] = sd * stretch * squares
    slopes[:, 1:] = -stretch[:, None] * e[:, 1:]
    # Slope and curvatures in closed form: of 2000 coordinates, estimates would leave much of them.
    mean, count = precision * np.exp(2.0 * sd**2), e.shape[1] - 1
    linear, curvature = np.zeros(count + 1), np.full(count + 1, -mean)
    linear[0], curvature[0] = sd * count * mean, -2.0 * sd**2 * count * mean
    ratios = -0.5 * stretch * squares - e @ linear - 0.5 * (e**2 - 1.0) @ curvature
    return ratios, slopes - linear - e * curvature


def heavy_tails(e, freedom=4.0):
    """Independent Student's t."""
    ratios = 0.5 * e**2 - 0.5 * (freedom + 1.0) * np.log1p(e**2 / freedom)
    slopes = e - (freedom + 1.0) * e / (freedom + e**2)
    return settled(e, ratios.sum(axis=1), slopes)


def elliptical_tails(e, freedom=5.0):
    """A multivariate Student's t."""
    dim, squares = e.shape[1], (e**2).sum(axis=1)
    ratios = 0.5 * squares - 0.5 * (freedom + dim) * np.log1p(squares / freedom)
    slopes = e * (1.0 - (freedom + dim) / (freedom + squares))[:, None]
    return settled(e, ratios, slopes)


def skewness(e, shape=2.0):
    """Logs of gamma variables."""
    sd = shape**-0.5
    ratios = shape * sd * e - shape * np.exp(sd * e - 0.5 * sd**2) + 0.5 * e**2
    slopes = shape * sd - shape * sd * np.exp(sd * e - 0.5 * sd**2) + e
    return settled(e, ratios.sum(axis=1), slopes)


def shifted(e, by=0.5):
    """Normals whose mean is elsewhere."""
    return by * e.sum(axis=1), np.full_like(e, by)


def narrow(e, stretch=1.4):
    """Normals that are wider than q."""
    gain = 1.0 - stretch**-2
    return 0.5 * gain * (e**2).sum(axis=1), gain * e
