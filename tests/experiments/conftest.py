"""The modules that scripts share are imported as the scripts do: from their folder."""

import pathlib
import sys

EXPERIMENTS = pathlib.Path(__file__).parents[2] / "experiments"
# Last, so that none of them hides another module.
sys.path.append(str(EXPERIMENTS))
