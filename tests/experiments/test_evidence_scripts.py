"""The scripts behind the tables of evidence, at sizes that prove that they run, resume and judge."""

import csv
import importlib.util
import pathlib
import subprocess
import sys
import types

import pytest
from absl import flags

from tests.conftest import make_dataset

ROOT = pathlib.Path(__file__).parents[2]
SET = "jaxprune/hopper/random-n300-s0-v0"


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Where the set of a few rows is kept, out of the user's folder."""
    return str(tmp_path_factory.mktemp("data"))


@pytest.fixture
def load(monkeypatch, data_folder):
    """A script as a module with its flags parsed, in this process: importing JAX anew would take longer than most of what is tested."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", data_folder)
    # Scripts share names of flags: those of others that this process has imported are set aside.
    before = {name for name in flags.FLAGS if (flags.FLAGS.find_module_defining_flag(name) or "").startswith("absl")}
    aside = {name: flags.FLAGS[name] for name in flags.FLAGS if name not in before}

    def forget():
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)

    def load(script: str, *given: str) -> types.ModuleType:
        argv = [f"experiments/{script}.py", *given]
        monkeypatch.setattr(sys, "argv", argv)
        forget()
        spec = importlib.util.spec_from_file_location(f"script_{script}", ROOT / "experiments" / f"{script}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        flags.FLAGS(argv)
        return module

    yield load
    forget()
    for name, flag in aside.items():
        flags.FLAGS[name] = flag


def table(output, name="table"):
    with (output / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_return_against_sparsity(load, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["--parts=bc", f"--datasets={SET}", "--sparsities=0,0.95", "--criteria=snip", "--more_criteria=lm", "--seeds=2"]
    given += ["--steps=4", "--evaluations=2", "--episodes=1", "--recordings=absent.hdf5", f"--work={tmp_path / 'work'}"]
    script = load("return_against_sparsity", *given, f"--output={out}")
    script.main()
    printed = capsys.readouterr().out
    assert "absent.hdf5: no such file, left out" in printed
    assert "6 runs, 24 updates: about" in printed
    assert printed.index("in all on this machine") < printed.index("# Return against sparsity")
    text = (out / "README.md").read_text()
    assert "- SNIP keeps the return at 95 %, but for 5 % of dense (BC): our runs **cannot tell**" in text
    assert "1 data set × 2 seeds, too few to decide" in text
    assert (out / "return_bc.png").stat().st_size > 10_000
    rows = table(out)
    assert [(row["criterion"], row["seeds"]) for row in rows] == [("Dense", "2"), ("SNIP", "2"), ("LM", "2")]
    assert rows[1]["return_mean"] == rows[2]["return_mean"], "LM without a penalty keeps the same weights"
    # The rows tell seconds: trained again, they would be others.
    records = tmp_path / "work" / "bc-hopper-random-n300-s0" / "records.jsonl"
    before = records.read_text()
    script.main()
    assert table(out) == rows
    assert records.read_text() == before


def test_sweeps_whose_rows_are_kept_are_not_run_again(load, tmp_path, capsys):
    kept = tmp_path / "kept"
    given = ["--parts=bcq", f"--bcq_datasets={SET}", "--bcq_sparsities=0,0.95", "--bcq_criteria=random", "--bcq_seeds=1"]
    given += ["--bcq_evaluations=1", "--bcq_episodes=1", f"--records={kept}"]
    load("return_against_sparsity", *given, "--bcq_steps=2", f"--work={tmp_path / 'a'}", f"--output={tmp_path / 'one'}").main()
    assert "2 runs, 4 updates: about" in capsys.readouterr().out
    assert [path.name for path in kept.iterdir()] == ["bcq-hopper-random-n300-s0"]

    load("return_against_sparsity", *given, "--bcq_steps=2", f"--work={tmp_path / 'b'}", f"--output={tmp_path / 'two'}").main()
    assert "0 runs, 0 updates" in capsys.readouterr().out
    assert table(tmp_path / "two") == table(tmp_path / "one")
    assert not (tmp_path / "b").exists()
    assert f"Rows kept in `{kept}`" in (tmp_path / "two" / "README.md").read_text()

    other = load("return_against_sparsity", *given, "--bcq_steps=3", f"--work={tmp_path / 'c'}", f"--output={tmp_path / 'three'}")
    with pytest.raises(ValueError, match=r"bcq-hopper-random-n300-s0 holds the rows of steps=2, not 3; name another --records folder"):
        other.main()
    assert not (tmp_path / "three").exists()


def test_verdicts_on_returns_made_by_hand(load, tmp_path):
    script = load("return_against_sparsity", f"--output={tmp_path / 'out'}")
    part = object.__new__(script.Part)
    part.algo = "bc"
    seeds = range(5)
    dense = {task: {s: 1000.0 + 10 * s for s in seeds} for task in ("a", "b", "c")}

    def scaled(**by_task):
        return {task: {s: by_task[task] * value for s, value in dense[task].items()} for task in dense}

    part.finals = {
        ("dense", 0.0): dense,
        ("snip", 0.95): scaled(a=0.99, b=1.0, c=0.6),
        ("random", 0.95): scaled(a=0.5, b=0.6, c=0.3),
        ("snip_shuffled", 0.95): scaled(a=0.99, b=1.0, c=0.61),
        ("snip", 0.99): scaled(a=0.9, b=0.8, c=0.5),
    }
    found = script.verdicts(part)
    assert "majority of experiments (BC): our runs **support it** (kept in 2, lost in 1, open in 0 of 3 data sets)" in found[0]
    told = {sentence.split(":")[0]: sentence for sentence in found[1:]}
    assert "**contradict it**" in told["SNIP keeps the return at 95 %, but for 5 % of dense (BC)"]
    assert "−13.7 % of dense" in told["SNIP keeps the return at 95 %, but for 5 % of dense (BC)"]
    assert "**support it**" in told["At 95 % scoring beats chance"]
    assert "+39.7 % of dense" in told["At 95 % scoring beats chance"]
    assert "**contradict it**" in told["At 95 % which weights stay matters, and not only how many each layer keeps"]
    assert not any("small dense" in sentence for sentence in found), "there is none to compare with"


def test_layers_kept(load, tmp_path):
    out = tmp_path / "out"
    given = ["--algos=bc", "--criteria=snip,grasp", "--seeds=1", "--prune_rows=32", f"--datasets={SET}", f"--work={tmp_path / 'work'}"]
    load("layers_kept", *given, f"--output={out}").main()
    rows = table(out)
    assert len(rows) == 7 * 2 * 3
    kept = {}
    for row in rows:
        key = (row["setting"], row["criterion"])
        kept[key] = kept.get(key, 0) + float(row["kept"]) * int(row["total"])
    assert len(kept) == 14
    assert set(map(round, kept.values())) == {3456}, "BC on Hopper keeps 5 % of 69,120 weights, whatever the setting"
    assert "GraSP keeps more of the last layers than SNIP does (BC): our runs **cannot tell**" in (out / "README.md").read_text()
    assert all((out / name).stat().st_size > 10_000 for name in ("layers.png", "settings.png"))


def test_memory(load, tmp_path):
    out = tmp_path / "out"
    given = ["--algos=bc", "--seeds=1", "--sparsities=0,0.95", "--exports=false", f"--dataset={SET}", f"--work={tmp_path / 'work'}"]
    load("memory", *given, f"--output={out}").main()
    published = next(row for row in table(out) if row["format"] == "COO, int64 indices" and row["sparsity"] == "0.95")
    biases = 4 * (256 + 256 + 3)
    assert float(published["times_smaller"]) == pytest.approx((4 * 69120 + biases) / (20 * 3456 + biases), rel=0.02)
    assert float(published["break_even"]) == pytest.approx(0.8, abs=0.005)
    text = (out / "README.md").read_text()
    assert "files with two 64-bit indices a weight **support it**" in text
    assert "Other storage, lossless and without compression too, saves more than 4 times at 95 %: our files **support it**" in text


def test_pruning_ablations(load, tmp_path, monkeypatch):
    out = tmp_path / "out"
    given = ["--parts=bc", f"--datasets={SET}", "--criteria=snip", "--sparsities=0.95", "--seeds=1", "--steps=4", "--evaluations=2"]
    given += ["--episodes=1", "--rows=8,1024", "--rounds=1,3", "--scored_on=random", f"--work={tmp_path / 'work'}"]
    script = load("pruning_ablations", *given, f"--output={out}")
    monkeypatch.setattr(script, "sweep_seconds", lambda config, data: 1.0)
    script.main()
    found = {row["arm"]: row for row in table(out) if row["criterion"] == "SNIP"}
    assert set(found) == {"reference", "8 rows", "3 rounds", "scored on random"}
    # The set scored is the training set: the loop that trains elsewhere does what the sweep does.
    assert found["scored on random"]["overlap"] == found["reference"]["overlap"] == "1.0"
    assert float(found["scored on random"]["return_mean"]) == pytest.approx(float(found["reference"]["return_mean"]), rel=1e-4)
    assert all(0.02 < float(found[arm]["overlap"]) < 0.99 for arm in ("8 rows", "3 rounds"))
    assert (out / "ablations_bc.png").stat().st_size > 10_000


def test_which_network(load, tmp_path, monkeypatch):
    out = tmp_path / "out"
    given = ["--algos=bc", "--steps=2", "--seeds=1", "--evaluations=1", "--episodes=1", f"--datasets={SET}"]
    script = load("which_network", *given, f"--work={tmp_path / 'work'}", f"--output={out}")
    monkeypatch.setattr(script, "sweep_seconds", lambda config, data: 1.0)
    script.main()
    rows = {row["pruned"]: row for row in table(out)}
    assert {arm: int(row["kept"]) for arm, row in rows.items()} == {"none": 69120, "policy": 3456, "all": 3456}
    assert rows["policy"]["return_mean"] == rows["all"]["return_mean"], "BC has one network"
    text = (out / "README.md").read_text()
    assert "With only its policy pruned, BC keeps its return, but for 5 % of dense: our runs **cannot tell**" in text
    assert (out / "networks.png").stat().st_size > 10_000


def test_every_network_has_an_arm(load, tmp_path):
    script = load("which_network", "--seeds=2", f"--output={tmp_path / 'out'}")
    found = script.Algorithm("bcq", 10, {"x": make_dataset()})
    assert found.arms == ["none", "vae", "critic", "actor", "all"]
    assert [config.networks for config in found.configs()] == [None, ("vae",), ("critic",), ("actor",), None]
    assert [config.sparsities for config in found.configs()] == [(0.0,), *[(0.95,)] * 4]
    # 4 observations, 2 actions, 4 latents; hidden layers of 750 twice, and of 400 and 300.
    vae = (6 * 750 + 750 * 750 + 750 * 8) + (8 * 750 + 750 * 750 + 750 * 2)
    critics, actor = 2 * (6 * 400 + 400 * 300 + 300), 6 * 400 + 400 * 300 + 300 * 2
    assert found.weights == {"none": 0, "vae": vae, "critic": critics, "actor": actor, "all": vae + critics + actor}


@pytest.mark.parametrize(
    ("script", "given", "message"),
    [
        ("return_against_sparsity", ["--parts=bc", "--sparsities=0,half"], "--sparsities=0,half: expected float numbers"),
        ("return_against_sparsity", ["--parts=td3"], "--parts: 'td3' is unknown"),
        ("pruning_ablations", ["--parts=bc", "--rows=0,1"], "expected prune_rows of at least 1, got 0"),
        ("pruning_ablations", ["--parts=bc", "--sparsities=0,0.5"], "--sparsities=0,0.5: expected fractions between 0 and 1"),
        ("which_network", ["--algos=bcq", "--steps=1,2"], "--steps=1,2: expected one number for each of --algos=bcq"),
        ("memory", ["--criterion=small_dense"], "--criterion=small_dense: expected one of"),
        ("layers_kept", ["--sparsity=1"], "--sparsity=1.0: expected a fraction between 0 and 1"),
    ],
)
def test_bad_input_writes_nothing(load, tmp_path, script, given, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        load(script, *given, f"--work={tmp_path / 'work'}", f"--output={tmp_path / 'out'}").main()
    assert message in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_bad_input_is_one_line_and_an_exit_code(tmp_path):
    command = [sys.executable, "experiments/which_network.py", "--algos=bcq", "--steps=0", f"--output={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == ["experiments/which_network.py: --steps=0: expected whole numbers above 0"]
