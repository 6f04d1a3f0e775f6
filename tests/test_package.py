"""Importing the package is cheap, and what it exports is what the documents name."""

import subprocess
import sys

import jaxprune as jp

HEAVY = ("matplotlib", "envpool", "minari", "orbax", "onnx", "gymnasium", "h5py", "scipy.stats", "torch", "tensorstore")


def in_a_fresh_interpreter(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_starts_no_backend_and_loads_no_heavy_package():
    code = f"""
import sys
import jaxprune
from jax._src import xla_bridge
print([name for name in {HEAVY!r} if name in sys.modules], xla_bridge.backends_are_initialized())
"""
    assert in_a_fresh_interpreter(code) == "[] False"


def test_prune_needs_only_jax():
    """On someone's own model, without the environment and data packages."""
    code = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None
import jax, jax.numpy as jnp
import jaxprune as jp
params = {{"layer": {{"w": jnp.arange(1.0, 7.0).reshape(2, 3), "b": jnp.zeros(3)}}}}
masks = jp.prune(lambda p, x: jnp.sum((x @ p["layer"]["w"] + p["layer"]["b"]) ** 2), params, jnp.ones((4, 2)), sparsity=0.5)
print(masks["layer"]["w"].tolist(), masks["layer"]["b"].tolist())
"""
    # g = 8·(sum of the column), so |w·g|/8 is 1·5, 2·7, 3·9 in the first row and 4·5, 5·7, 6·9 in the second.
    assert in_a_fresh_interpreter(code) == "[[False, False, True], [False, True, True]] [True, True, True]"


def test_everything_exported_is_there():
    for name in jp.__all__:
        assert getattr(jp, name) is not None
    assert len(set(jp.__all__)) == len(jp.__all__)
