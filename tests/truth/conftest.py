"""The scoreboard is a package of scripts in `benchmarks`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
