import subprocess
import sys


def test_importing_loads_no_reader():
    heavy = ("h5py", "minari", "gymnasium", "envpool", "matplotlib", "mujoco")
    script = f"import sys, jaxprune.data; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip() == "[]"
