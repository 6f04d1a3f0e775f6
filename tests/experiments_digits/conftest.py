import pathlib
import sys

# The scripts import their neighbours by name.
sys.path.append(str(pathlib.Path(__file__).parents[2] / "experiments"))
