"""The package as others get it: built, checked, installed into empty environments, and used there.

    python tests/packaging.py

builds the sdist, and the wheel from it; checks what they hold and their metadata; installs each, with the versions of constraints.txt, into
an empty environment outside the repository, imports every module there and runs the README's first Python example; lists and tries the
sdist's own tests; and resolves all dependencies at their newest releases for the Pythons that the package names. Needs the `dev` extra, git
and an index of packages; takes two to three minutes on two cores.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile

from uv import find_uv_bin

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Extras that CI installs; the others bring PyTorch, or report to services.
TWINE = "twine@7.0.0"
EXTRAS = ("arrow", "curvature", "dev", "export", "tensorboard")
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FORCE_COLOR")
PYTHONS = [text.rsplit(" ", 1)[-1] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]

IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys
from importlib.metadata import version
import jaxprune
where = pathlib.Path(jaxprune.__file__).resolve()
assert where.is_relative_to(pathlib.Path(sys.prefix).resolve()), f"imported from {where}, not from the environment"
assert jaxprune.__version__ == version("jaxprune"), (jaxprune.__version__, version("jaxprune"))
names = ["jaxprune", *(found.name for found in pkgutil.walk_packages(jaxprune.__path__, "jaxprune."))]
for name in names:
    importlib.import_module(name)
print(len(names), "modules of", version("jaxprune"), "on Python", sys.version.split()[0])
"""


def main() -> None:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="jaxprune-packaging-") as name:
        scratch = pathlib.Path(name)
        sdist, wheel = build(scratch / "dist")
        unpacked = check_contents(sdist, wheel, scratch / "sdist")
        print(run(find_uv_bin(), "tool", "run", "--quiet", TWINE, "check", "--strict", sdist, wheel, where=scratch).strip(), flush=True)
        try_tests(unpacked)
        for archive in (wheel, sdist):
            use(archive, scratch / f"env-{archive.suffix[1:]}", sys.executable, constraints=True)
        for minor in PYTHONS:
            print(f"Python {minor}: {resolve(minor, scratch)}", flush=True)
            if minor != this_python() and (other := interpreter(minor)):
                use(wheel, scratch / f"env-{minor}", other, constraints=False)
    print(f"packaging: all well, {time.perf_counter() - began:.0f} s")


def this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(minor: str) -> str | None:
    """The path of a Python of this minor version that runs: on the PATH, or one of pyenv's; None where there is none."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = [shutil.which(f"python{minor}"), *map(str, sorted(pyenv.glob(f"versions/{minor}.*/bin/python{minor}")))]
    for path in filter(None, found):
        told = subprocess.run([path, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=False)
        if told.stdout.strip() == str(tuple(map(int, minor.split(".")))):
            return path
    return None


def run(*command: object, where: pathlib.Path, **environment: str) -> str:
    """What a command prints; its whole output is shown where it fails.

    Raises:
      SystemExit: it failed.
    """
    words = [str(word) for word in command]
    clean = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    done = subprocess.run(words, cwd=where, env=clean | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"packaging: {' '.join(words)} failed with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(output: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The sdist and the wheel made from it."""
    run(sys.executable, "-m", "build", "--outdir", output, ROOT, where=output.parent, PIP_CONSTRAINT=str(ROOT / "constraints.txt"))
    (sdist,), (wheel,) = output.glob("*.tar.gz"), output.glob("*.whl")
    print(f"built {sdist.name} ({sdist.stat().st_size / 1e3:,.0f} kB) and {wheel.name} ({wheel.stat().st_size / 1e3:,.0f} kB)", flush=True)
    return sdist, wheel


def check_contents(sdist: pathlib.Path, wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Exactly the package in the wheel; in the sdist, every file in git but results; the folder of the unpacked sdist."""
    tracked = run("git", "ls-files", where=ROOT).splitlines()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = {name for name in names if re.match(r"jaxprune-[^/]+\.dist-info/", name)}
    expected = {name for name in tracked if name.startswith("jaxprune/") and (ROOT / name).exists()}
    compare("wheel", names - info, expected)
    if not any(name.endswith("/licenses/LICENSE") for name in info):
        raise SystemExit("packaging: the wheel holds no licence")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    held = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    left_out = ("results/", ".ci/", ".github/")
    expected = {name for name in tracked if not name.startswith(left_out) and (ROOT / name).exists()}
    compare("sdist", held - {"PKG-INFO"}, expected)
    return unpacked


def compare(what: str, held: set[str], expected: set[str]) -> None:
    untracked = set(run("git", "ls-files", "--others", "--exclude-standard", where=ROOT).splitlines())
    if missing := sorted(expected - held):
        raise SystemExit(f"packaging: the {what} lacks {', '.join(missing[:5])} ({len(missing)} in all)")
    if extra := sorted(held - expected - untracked):
        raise SystemExit(f"packaging: the {what} also holds {', '.join(extra[:5])} ({len(extra)} in all)")


def try_tests(unpacked: pathlib.Path) -> None:
    """The sdist's own tests are all found from its folder, and those of the package and the README pass, on its own code."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    found = run(*pytest, "--collect-only", where=unpacked)
    passed = run(*pytest, "tests/test_package.py", "tests/test_parameters.py", where=unpacked, PYTHONPATH=str(unpacked))
    print(f"sdist: {found.strip().splitlines()[-1]}; {passed.strip().splitlines()[-1]}", flush=True)


def use(archive: pathlib.Path, environment: pathlib.Path, python: str, *, constraints: bool) -> None:
    """An empty environment with the archive and nothing else; every module, and the README's first example, in a folder of its own."""
    began = time.perf_counter()
    run(find_uv_bin(), "venv", "--quiet", "--no-project", "--python", python, environment, where=environment.parent)
    own = environment / "bin" / "python"
    pinned = ("--constraint", ROOT / "constraints.txt") if constraints else ()
    run(find_uv_bin(), "pip", "install", "--quiet", "--python", own, *pinned, archive, where=environment.parent)
    desk = environment.with_name(f"{environment.name}-desk")
    desk.mkdir()
    imported = run(own, "-I", "-c", IMPORT_ALL, where=desk).strip()
    example, printed = first_example()
    (desk / "example.py").write_text(example)
    got = run(own, "-I", "example.py", where=desk, JAX_PLATFORMS="cpu")
    if got.splitlines() != printed:
        raise SystemExit(f"packaging: the README's first example prints {got!r}, not {printed}")
    print(f"{archive.name}: {imported}; the first example prints {printed[0]!r}; {time.perf_counter() - began:.0f} s", flush=True)


def first_example() -> tuple[str, list[str]]:
    """The first Python block under "In Python" in the README, and what its comments say it prints."""
    section = (ROOT / "README.md").read_text().split("\n## In Python\n", 1)[1]
    code = re.findall(r"```python\n(.*?)```", section, flags=re.S)[0]
    return code, re.findall(r"print\(.*\)  # (.*)", code)


def resolve(minor: str, scratch: pathlib.Path) -> str:
    """The newest releases, wheels alone, that go together on a Python of this minor version, whether or not it is here."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    wheels = ("--only-binary", ":all:", "--python-version", minor, "--no-header", "--no-annotate", "--quiet")
    told = run(find_uv_bin(), "pip", "compile", *wheels, *extras, ROOT / "pyproject.toml", where=scratch)
    versions = dict(line.split("==") for line in told.split() if "==" in line)
    names = ("jax", "flax", "numpy", "gymnasium", "mujoco", "envpool")
    return f"{len(versions)} packages, {', '.join(f'{name} {versions[name]}' for name in names if name in versions)}"


if __name__ == "__main__":
    main()
