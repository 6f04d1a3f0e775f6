"""The documents: their Python runs and prints what it says, their commands exist, their entries are complete."""

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pathlib
import re

import jax
import numpy as np
import pytest
import yaml

import jaxprune as jp
from tests.conftest import make_dataset
from tests.test_readme import prepare_output

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
TEXTS = {page: (DOCS / page).read_text() for page in PAGES}
RUNNABLE = [page for page in PAGES if "```python\n" in TEXTS[page]]
COMMANDS = {**TEXTS, "README.md": (ROOT / "README.md").read_text(), "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text()}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


@pytest.fixture(scope="module")
def earlier_sweep(tmp_path_factory):
    """A folder with the output of an earlier sweep in it, and the names that go with it."""
    folder = tmp_path_factory.mktemp("sweep")
    with contextlib.chdir(folder):
        return folder, prepare_output()


@pytest.mark.parametrize("page", RUNNABLE)
def test_python_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch, request):
    folder, names = tmp_path, {}
    if page == "how-to/resume.md":
        names = {"dataset": make_dataset(200)}
    elif '"out' in "".join(blocks(TEXTS[page], "python")):
        folder, given = request.getfixturevalue("earlier_sweep")
        names = dict(given)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    for number, code in enumerate(blocks(TEXTS[page], "python")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page}, block {number}", "exec"), names)
        lines = printed.getvalue().splitlines()
        for expected in re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M):
            assert expected in lines, f"{page}, block {number}, printed {lines}"


def test_there_is_python_to_run():
    assert len(RUNNABLE) >= 6
    assert sum(len(blocks(TEXTS[page], "python")) for page in RUNNABLE) >= 20


def defined_flags(script: pathlib.Path) -> set[str]:
    """Names of the flags that a script and the modules beside it that it imports define."""
    text = script.read_text()
    found = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', text))
    for module in re.findall(r"^(?:from|import) (\w+)", text, flags=re.M):
        beside = script.parent / f"{module}.py"
        if beside.exists() and beside != script:
            found |= defined_flags(beside)
    return found


def commands(text: str) -> list[tuple[str, list[str]]]:
    """(script, flags) of every call of one of our scripts in a shell block or a code span."""
    shell = "\n".join([*blocks(text, "bash"), *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))])
    calls = re.findall(r"python ((?:experiments|benchmarks)/\w+\.py)([^\n]*)", shell.replace("\\\n", " "))
    return [(script, re.findall(r"--(\w+)", rest)) for script, rest in calls]


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_name_scripts_and_flags_that_exist(page):
    for script, given in commands(COMMANDS[page]):
        assert (ROOT / script).exists(), script
        known = defined_flags(ROOT / script)
        unknown = [name for name in given if name not in known and name.removeprefix("no") not in known]
        assert not [name for name in unknown if not name.startswith("help")], (script, unknown)


def test_commands_are_found_and_a_wrong_flag_is():
    text = "```bash\npython experiments/sweep.py --resume \\\n  --sparsity=0.9\n```\nand `python experiments/train.py --sparsity=0.9`"
    assert commands(text) == [("experiments/sweep.py", ["resume", "sparsity"]), ("experiments/train.py", ["sparsity"])]
    assert "sparsity" not in defined_flags(ROOT / "experiments/sweep.py")
    assert {"sparsity", "resume"} <= defined_flags(ROOT / "experiments/train.py")
    assert sum(len(commands(text)) for text in COMMANDS.values()) >= 15


# The API pages


def resolve(identifier: str):
    """The object of a dotted path."""
    parts = identifier.split(".")
    for end in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                found = getattr(found, part)
            return found
    raise AttributeError(identifier)


ENTRIES = [entry for page in PAGES for entry in re.findall(r"^::: (\S+)", TEXTS[page], flags=re.M)]


def shown() -> set[int]:
    """Identities of what has an entry, by itself or as a member of a module that has one."""
    found = {id(resolve(entry)) for entry in ENTRIES}
    for module in filter(inspect.ismodule, map(resolve, ENTRIES)):
        own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        found |= {id(value) for name, value in own.items() if not name.startswith("_")}
    return found


@pytest.mark.parametrize("module", [jp, jp.agents, jp.data, jp.export], ids=lambda module: module.__name__)
def test_every_public_name_has_an_entry(module):
    known = shown()
    missing = [name for name in module.__all__ if not inspect.ismodule(value := getattr(module, name)) and id(value) not in known]
    assert not missing


def test_every_criterion_has_an_entry_and_a_formula():
    known = shown()
    assert not [name for table in (jp.CRITERIA, jp.UNIT_CRITERIA) for name, function in table.items() if id(function) not in known]
    assert not [name for name in (*jp.CRITERIA, *jp.UNIT_CRITERIA) if f"`{name}`" not in TEXTS["concepts.md"]]


def test_every_algorithm_has_an_entry():
    # The README's example adds one of its own to the table.
    own = [name for name, (make, _) in jp.agents.AGENTS.items() if (make.__module__ or "").startswith("jaxprune.")]
    assert {"bc", "bcq", "td3_bc", "iql"} <= set(own)
    assert not [name for name in own if f"jaxprune.agents.{name}.{name}" not in ENTRIES]


def test_no_entry_twice_and_no_module_in_place_of_a_function():
    assert len(set(ENTRIES)) == len(ENTRIES)
    modules = [(entry, found) for entry in ENTRIES if inspect.ismodule(found := resolve(entry))]
    assert not [entry for entry, module in modules if hasattr(module, entry.rpartition(".")[2])]


# Docstrings


def modules_with_examples() -> list[str]:
    files = [path for path in (ROOT / "jaxprune").rglob("*.py") if ">>>" in path.read_text()]
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed


def test_the_functions_used_most_have_examples():
    for function in (jp.prune, jp.select, jp.density, jp.apply_masks, jp.kept_count, jp.UnitGroup, jp.compact_tree):
        assert ">>> " in (function.__doc__ or ""), function


# Formulas of concepts.md that no page of code shows, against the code


def test_allocation_is_as_written():
    from jaxprune.pruning.allocation import allocate

    shapes = {"a": (10, 40), "b": (40, 40), "c": (40, 5)}
    weights = {name: np.prod(axes) * sum(axes) / np.prod(axes) for name, axes in shapes.items()}
    total = 200
    counts = allocate("erk", shapes, total)
    assert counts is not None
    exact = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    assert all(abs(counts[name] - exact[name]) < 1 for name in shapes)
    assert sum(counts.values()) == total


def test_crop_s_is_as_written(strict):
    """|Σ_k W_kj (HG)_kj + b_j (HG)_bj + Σ_k G_kj²|, with H of the whole loss and G of the kernels alone."""
    group = jp.UnitGroup("hidden", 3, jax.numpy.tanh, (("first/kernel", 1), ("first/bias", 0)), (("second/kernel", 0, 0),))
    keys = jax.random.split(jax.random.key(0), 5)
    params = {
        "first": {"kernel": jax.random.normal(keys[0], (2, 3)), "bias": jax.random.normal(keys[1], (3,))},
        "second": {"kernel": jax.random.normal(keys[2], (3, 1)), "bias": jax.random.normal(keys[3], (1,))},
    }
    rows = jax.random.normal(keys[4], (7, 2))

    def loss(params, rows):
        hidden = jax.numpy.tanh(rows @ params["first"]["kernel"] + params["first"]["bias"])
        return jax.numpy.mean((hidden @ params["second"]["kernel"] + params["second"]["bias"]) ** 2)

    @jax.jit
    def written(params):
        gradient = jax.grad(loss)(params, rows)
        flow = jax.tree.map(lambda leaf: leaf if leaf.ndim == 2 else jax.numpy.zeros_like(leaf), gradient)
        _, product = jax.jvp(lambda p: jax.grad(loss)(p, rows), (params,), (flow,))
        weights, moved = params["first"], product["first"]
        through = (weights["kernel"] * moved["kernel"]).sum(0) + weights["bias"] * moved["bias"]
        return abs(through + (flow["first"]["kernel"] ** 2).sum(0))

    scores = jax.jit(lambda params: jp.UNIT_CRITERIA["crop"](loss, params, [group], rows))(params)
    np.testing.assert_allclose(scores["hidden"], written(params), rtol=1e-5)


# What the site takes from elsewhere


def module_of_the_site(name: str):
    """A module of docs/ that MkDocs loads."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hooks():
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    return module_of_the_site("hooks")


def test_result_folders_appear_by_themselves(hooks, tmp_path):
    for path, text in {
        "README.md": "# Results\n[b](b) before [a](a), and [the figure](b/figure.png)",
        "a/deep/table.md": "# A",
        "a/table.md": "# A",
        "b/README.md": "# B\n[up](../a), [code](../../experiments/x.py), [csv](t.csv)\n```text\n[kept](../a)\n```\n[net](https://example.org)",
        "b/figure.png": "",
        "new/README.md": "# New",
    }.items():
        (tmp_path / "results" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / path).write_text(text)
    pages = ["results/README.md", "results/b/README.md", "results/a/table.md", "results/a/deep/table.md", "results/new/README.md"]
    assert hooks.result_pages(tmp_path) == pages
    assert [hooks.nav_entry(page, tmp_path) for page in pages[2:4]] == ["results/a/table.md", {"A: deep": "results/a/deep/table.md"}]
    index, b = ((tmp_path / page).read_text() for page in pages[:2])
    mended = hooks.with_pages_for_folders(index, pages[0], tmp_path)
    assert mended == "# Results\n[b](b/README.md) before [a](a/table.md), and [the figure](b/figure.png)"
    mended = hooks.with_pages_for_folders(b, pages[1], tmp_path)
    assert mended == "# B\n[up](../a/table.md), code, [csv](t.csv)\n```text\n[kept](../a)\n```\n[net](https://example.org)"


def test_attributes_that_share_a_description_have_a_line_each():
    pytest.importorskip("griffe")
    module = module_of_the_site("griffe_names")
    shared = "A spec.\n\nAttributes:\n  low, high: bounds,\n    as floats.\n  size: one, two: three."
    assert module.one_name_a_line(shared) == (
        "A spec.\n\nAttributes:\n  low: bounds,\n    as floats.\n  high: bounds,\n    as floats.\n  size: one, two: three."
    )


def test_formulas_become_mathml(hooks):
    page = hooks.with_mathml(
        '<p>so <span class="arithmatex">\\(a &lt; b\\)</span>, then</p><div class="arithmatex">\\[\\frac{1}{2}\\]</div>'
    )
    assert page.count("<math") == 2
    assert "arithmatex" not in page
    assert "<mo>&#x0003C;</mo>" in page
    assert re.search(r"<mfrac>\s*<mrow>\s*<mn>1</mn>", page)
    assert 'display="block"' in page
    assert "</math>,</span> then" in page, "a mark stays beside its formula"


# Papers, versions


def test_citation_and_changelog_are_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["version"] == jp.__version__
    assert jp.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_the_papers_have_the_authors_of_the_readme():
    readme = " ".join((ROOT / "README.md").read_text().split())
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    assert len(references) == 3
    for paper in references:
        authors = ", ".join(f"{author['given-names']} {author['family-names']}" for author in paper["authors"])
        told = f"{authors}: *{paper['title']}*"
        assert told in readme, told
        assert paper["url"] in readme
