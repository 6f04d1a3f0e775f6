"""Generated C, compiled and called from Python."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprune.data.transitions import Spec

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")


def c_compiler() -> list[str]:
    """The command of a C compiler: $CC, or cc, gcc or clang.

    Raises:
      FileNotFoundError: there is none.
    """
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise FileNotFoundError("expected a C compiler (cc, gcc or clang), found none; install one or set CC to its command")


def run_compiler(arguments: Sequence[str]) -> None:
    """Run the compiler.

    Raises:
      ValueError: it failed; the message is its first line.
    """
    done = subprocess.run([*c_compiler(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ValueError(f"{' '.join(c_compiler())}: {next((line for line in lines if 'error' in line), lines[0])}")


class CompiledPolicy:
    """A C policy as a Python function: raw observations [n, S] -> actions [n, A] or [n] int32. `close`, or `with`, deletes its files.

    Attributes:
      act_one: the C function of one observation, a ctypes function of pointers.
      observation_size, action_size, discrete: as in the header.
    """

    def __init__(self, library: ctypes.CDLL, folder: tempfile.TemporaryDirectory | None, spec: tuple[int, int, bool], name: str):
        self._library, self._folder = library, folder
        self.observation_size, self.action_size, self.discrete = spec
        self._batch = getattr(library, f"{name}_act_batch")
        self._batch.argtypes, self._batch.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], None
        self.act_one = getattr(library, f"{name}_act")
        self.act_one.argtypes = [ctypes.c_void_p] * (1 if self.discrete else 2)
        self.act_one.restype = ctypes.c_int32 if self.discrete else None

    def __call__(self, observations: Any) -> np.ndarray:
        """Actions for observations [n, S].

        Raises:
          ValueError: another number of features.
        """
        batch = np.ascontiguousarray(observations, np.float32)
        if batch.ndim != 2 or batch.shape[1] != self.observation_size:
            raise ValueError(f"expected observations of shape [n, {self.observation_size}], got {list(batch.shape)}")
        actions = np.empty(len(batch) if self.discrete else (len(batch), self.action_size), np.int32 if self.discrete else np.float32)
        self._batch(batch.ctypes.data, actions.ctypes.data, len(batch))
        return actions

    def __enter__(self) -> CompiledPolicy:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Delete the compiled files."""
        if self._folder is not None:
            self._folder.cleanup()


def compile_c(
    source: str, header: str, header_name: str, spec: Spec, *, name: str = "policy", flags: Sequence[str] = FLAGS
) -> CompiledPolicy:
    """Compile a generated source and load it.

    Args:
      source: text of the source.
      header: text of the header.
      header_name: as the source includes it.
      spec: sizes.
      name: prefix of the functions.
      flags: of the compiler.

    Raises:
      FileNotFoundError: no C compiler.
      ValueError: it does not compile.
    """
    folder = tempfile.TemporaryDirectory(prefix="jaxprune-c-")
    root = pathlib.Path(folder.name)
    (root / header_name).write_text(header)
    (root / "source.c").write_text(source)
    library = root / "policy.so"
    run_compiler([*flags, "-shared", "-fPIC", "-o", str(library), str(root / "source.c"), "-lm"])
    return CompiledPolicy(ctypes.CDLL(str(library)), folder, (spec.observation_size, spec.action_size, spec.discrete), name)


def load_c(path: str | os.PathLike, *, name: str = "policy", flags: Sequence[str] = FLAGS) -> CompiledPolicy:
    """Compile NAME.c, its header beside it, and load it.

    Raises:
      FileNotFoundError: no such files, or no C compiler.
      ValueError: it does not compile, or the header is not one of ours.
    """
    path = pathlib.Path(path)
    header = path.with_suffix(".h")
    for file in (path, header):
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file")
    text = header.read_text()
    sizes = re.findall(rf"^#define {re.escape(name.upper())}_(?:OBSERVATION|ACTION)_SIZE (\d+)$", text, flags=re.M)
    if len(sizes) != 2:
        raise ValueError(f"{header}: expected the sizes of a policy called {name!r}; pass name= as it was exported")
    spec = Spec(int(sizes[0]), int(sizes[1]), (), (), True) if f"int32_t {name}_act(" in text else None
    spec = spec or Spec(int(sizes[0]), int(sizes[1]), [-1] * int(sizes[1]), [1] * int(sizes[1]))
    return compile_c(path.read_text(), text, header.name, spec, name=name, flags=flags)
