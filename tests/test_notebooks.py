"""The notebooks as they are kept: links, installation, outputs; and the script that runs them, which `make notebooks` does."""

import asyncio
import json
import pathlib
import re
import tomllib

import pytest
from absl.testing import flagsaver

from colab.run import FLAGS, LARGEST, REPOSITORY, badge, cleaned, faults, repository, run, text_of, written

ROOT = pathlib.Path(__file__).parents[1]
PATHS = sorted((ROOT / "colab").glob("*.ipynb"))
NAMES = [path.name for path in PATHS]


def sources(notebook, kind):
    return [text_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


@pytest.fixture(params=PATHS, ids=NAMES)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return json.loads(path.read_text())


def test_there_are_five():
    assert [name[0] for name in NAMES] == list("12345")


def test_kept_outputs_are_clean(notebook, path):
    assert faults(notebook) == []
    assert path.stat().st_size <= LARGEST
    assert path.read_text() == written(notebook)


def test_outputs_hold_figures(notebook):
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert not any("Warning" in text_of(output.get("text", "")) for output in outputs)


def test_first_cell_has_a_title_and_the_badge(notebook, path):
    first = notebook["cells"][0]
    assert first["cell_type"] == "markdown"
    assert text_of(first["source"]).startswith("# ")
    assert badge(path.stem) in text_of(first["source"])


def test_installs_in_one_cell_without_versions(notebook):
    commands = [line for source in sources(notebook, "code") for line in source.splitlines() if re.search(r"\bpip\b|\bapt\b|conda", line)]
    assert len(commands) == 1
    command = re.fullmatch(r' +%pip install --quiet "jaxprune(\[[a-z,]+\])? @ git\+https://github\.com/(\S+)"', commands[0])
    assert command is not None
    assert command[2] == repository()
    assert 'if importlib.util.find_spec("jaxprune") is None:' in sources(notebook, "code")[0]


def test_extras_that_are_installed_exist(notebook):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"jaxprune\[([a-z,]+)\]", "\n".join(sources(notebook, "code"))):
        assert set(extras.split(",")) <= set(known)


def test_has_a_short_version(notebook):
    code = "\n".join(sources(notebook, "code"))
    assert 'SMOKE = os.environ.get("JAXPRUNE_SMOKE") == "1"' in code
    assert len(re.findall(r"\bif SMOKE else\b", code)) >= 2


def test_links_between_notebooks_lead_somewhere(notebook):
    links = re.findall(r"\]\(([\w.]+\.ipynb)\)", "\n".join(sources(notebook, "markdown")))
    assert links
    assert set(links) <= set(NAMES)


def test_every_notebook_is_linked_from_the_first():
    text = PATHS[0].read_text()
    assert all(f"]({name})" in text for name in NAMES[1:])


def test_links_of_the_readme_lead_to_notebooks():
    found = re.findall(r"colab\.research\.google\.com/github/(\S+?)/blob/main/colab/([\w.]+\.ipynb)", (ROOT / "README.md").read_text())
    assert all(owner_and_name == repository() and name in NAMES for owner_and_name, name in found)


def code_cell(count, *outputs):
    return {"cell_type": "code", "execution_count": count, "metadata": {}, "id": f"c{count}", "source": ["1"], "outputs": list(outputs)}


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": [text]}


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([code_cell(2)], "code cell 1: expected execution count 1, got 2"),
        ([code_cell(1, stream("careful", "stderr"))], "code cell 1: standard error: careful"),
        ([code_cell(1), code_cell(2, stream("wrote /home/me/x"))], "code cell 2: '/home/', of the machine it ran on"),
        ([code_cell(1, stream("<Thing at 0x7f00aa00>"))], "code cell 1: 'at 0x7f00aa00', of the machine it ran on"),
        ([code_cell(1, {"output_type": "error", "ename": "ValueError", "evalue": "no"})], "code cell 1: ValueError: no"),
        ([code_cell(1, stream("x" * LARGEST))], f"more than {LARGEST:,}"),
    ],
)
def test_faults_are_told(cells, told):
    found = faults({"cells": cells})
    assert len(found) == 1
    assert told in found[0]


def test_no_fault_in_what_is_fine():
    assert faults({"cells": [code_cell(1, stream("output/sweep and https://example.org/tmp/x, 3 /home"))]}) == []


def test_cleaning_drops_bars_and_links_anew():
    bar = {"output_type": "display_data", "data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "0%"}, "metadata": {}}
    shown = {"output_type": "display_data", "data": {"text/plain": "a\nb", "image/png": "QQ=="}, "metadata": {"needs": "none"}}
    cell = {**code_cell(1, bar, shown), "metadata": {"execution": {"iopub.status.busy": "now"}}}
    cell["source"] = [
        '"jaxprune @ git+https://github.com/old/name"\n',
        "# colab.research.google.com/github/old/name/blob/main/colab/x.ipynb",
    ]
    notebook = {"cells": [cell], "metadata": {"kernelspec": {"name": "python3"}, "language_info": {"version": "3.11"}, "widgets": {}}}
    result = cleaned(notebook, "new/place")
    assert result["metadata"] == {"kernelspec": {"name": "python3"}, "language_info": {"name": "python"}}
    (kept,) = result["cells"]
    assert kept["metadata"] == {}
    assert kept["outputs"] == [{"output_type": "display_data", "data": {"text/plain": ["a\n", "b"], "image/png": "QQ=="}, "metadata": {}}]
    assert REPOSITORY.findall(text_of(kept["source"])) == ["new/place", "new/place"]
    assert text_of(notebook["cells"][0]["source"]).count("old/name") == 2


def run_code(path, code, *, save):
    """Whether `run` is content with a notebook of these cells."""
    pytest.importorskip("nbclient")
    fresh = [{**code_cell(None), "id": f"c{place}", "source": source} for place, source in enumerate(code)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path.write_text(json.dumps({"cells": fresh, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(save=save):
        return asyncio.run(run([path]))


def test_a_failing_cell_is_shown_and_nothing_written(tmp_path, capsys):
    path = tmp_path / "broken.ipynb"
    assert not run_code(path, ["print('fine')", "denominator = 0", "1 / denominator", "print('never')"], save=True)
    told = capsys.readouterr().out
    assert "broken: failed" in told
    assert "1 / denominator" in told
    assert "ZeroDivisionError" in told
    assert all(not cell["outputs"] for cell in json.loads(path.read_text())["cells"])


def test_outputs_are_kept_when_asked_for(tmp_path):
    path, code = tmp_path / "fine.ipynb", ["import os, sys", "print(os.listdir())"]
    assert run_code(path, code, save=False)
    assert json.loads(path.read_text())["cells"][1]["outputs"] == []
    assert run_code(path, code, save=True)
    assert text_of(json.loads(path.read_text())["cells"][1]["outputs"][0]["text"]) == "[]\n"


def test_outputs_with_faults_are_not_kept(tmp_path, capsys):
    path = tmp_path / "loud.ipynb"
    assert not run_code(path, ["import sys", "print('careful', file=sys.stderr)"], save=True)
    assert "loud.ipynb, not written: code cell 2: standard error: careful" in capsys.readouterr().out
    assert json.loads(path.read_text())["cells"][1]["outputs"] == []
