"""`vicheck demo`: the eight schools, twice."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from vicheck.cli.application import app
from vicheck.cli.printing import COLORS, write

__all__: list[str] = []

_EXACT = {"tau": 3.598, "theta[0]": 6.212, "theta[6]": 6.297, "mu": 4.397}
"""Posterior means by quadrature."""


@app.command("demo")
def _demo() -> None:
    """Fit the eight-schools model in two parametrizations and check both fits."""
    import vicheck
    from vicheck.paper.models import (
        EIGHT_SCHOOLS,
        eight_schools_centred,
        eight_schools_noncentred,
    )

    stories = {
        "Eight schools, centred: theta ~ N(mu, tau)": eight_schools_centred,
        "Eight schools, non-centred: theta = mu + tau theta_raw": eight_schools_noncentred,
    }
    for title, function in stories.items():
        arguments: dict[str, Any] = dict(EIGHT_SCHOOLS)
        model = vicheck.from_numpyro(function, **arguments)
        checked = vicheck.check(vicheck.fit(model))
        verdict = checked.verdict
        lines = [Text(title, "bold"), Text(verdict.sentence, COLORS[verdict.level])]
        lines += [Text(f"What to do: {verdict.hint}"), Text()]
        if verdict.level == "usable":
            lines += _against_exact(checked.moments)
        write(lines)
    write(
        [
            Text("Same data, same model, same algorithm: only the parametrization differs."),
            Text("Try your own: vicheck check model.py:function --data data.json"),
        ]
    )


def _against_exact(moments: Any) -> list[Text]:
    """Set plain and adjusted means beside the exact ones."""
    rows = [f"{'':10}{'VI':>8}{'PSIS':>8}{'+-':>8}{'exact':>8}"]
    for name, exact in _EXACT.items():
        row = moments.loc[name]
        rows.append(f"{name:10}{row.vi_mean:8.2f}{row.psis_mean:8.2f}{row.mcse:8.2f}{exact:8.2f}")
    return [Text("Posterior means, plain, adjusted by PSIS, and exact:"), *map(Text, rows), Text()]
