"""Lines of Python with options, written as they would be typed."""

from __future__ import annotations

__all__ = ["check_of_fit", "default_family", "written_options"]


def check_of_fit(family: str, **options: object) -> str:
    """Return the line that fits with other options and checks the result."""
    options = {"family": family} | options
    return f"check = vicheck.check(vicheck.fit(model{written_options(**options)}))"


def written_options(**options: object) -> str:
    """Write options after a comma each, without empty ones and without the default family."""
    if options.get("family") == default_family():
        options = {name: value for name, value in options.items() if name != "family"}
    return "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}"
        for name, value in options.items()
        if value != ""
    )


def default_family() -> str:
    """Return the family that is fitted when none is named: the first of the registry."""
    from vicheck.vi.families.registry import family_names

    return family_names()[0]
