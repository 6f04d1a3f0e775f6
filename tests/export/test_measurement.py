"""Bytes and multiply-adds counted by hand, timers that call what they say, and the figures."""

import csv
import importlib.util
import itertools

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.export.figures import against_sparsity, pareto_front, return_against_bytes
from jaxprune.export.measurement_tables import COLUMNS, draw, speedups, write_tables
from jaxprune.export.sizes import REPRESENTATIONS, network_sizes
from jaxprune.export.timing import c_runners, in_turns, jax_runner, onnx_runner
from jaxprune.export.training_cost import synthetic_log, update_energy, update_memory, update_seconds
from tests.export import byhand


def test_sizes_of_a_pruned_perceptron(runs):
    agent, state = runs["bc weights"]
    (size,) = network_sizes(agent, state).values()
    masks = [np.asarray(state.masks["policy"][f"Dense_{i}"]["kernel"]) for i in range(3)]
    live = byhand.live_mask(state.masks["policy"])
    shapes, outputs = [(4, 24), (24, 20), (20, 2)], [24, 20, 2]
    weights, kept = sum(a * b for a, b in shapes), sum(int(mask.sum()) for mask in masks)
    biases = 4 * sum(outputs)
    assert (size.parameters, size.weights, size.kept) == (weights + sum(outputs), weights, kept)
    assert size.effective == size.macs_sparse == sum(int(mask.sum()) for mask in live)
    assert size.macs_dense == weights
    assert size.memory["dense"] == 4 * weights + biases
    assert size.memory["coo int64"] == 20 * kept + biases
    assert size.memory["csr int32"] == 8 * kept + 4 * sum(n + 1 for n in outputs) + biases
    assert size.memory["csr int16"] == 6 * kept + 2 * sum(n + 1 for n in outputs) + biases
    widths = [4, *(int(mask.any(axis=0).sum()) for mask in live)]
    assert size.memory["compacted dense"] == sum(4 * a * b for a, b in itertools.pairwise(widths)) + 4 * sum(widths[1:])
    rounded = [4, *(min(size, -(-width // 8) * 8) for width, size in zip(widths[1:3], (24, 20), strict=True)), 2]
    assert size.macs_executed == sum(a * b for a, b in itertools.pairwise(rounded))
    layers = [(int(mask.sum()), a * b, b) for mask, a, b in zip(live, widths, widths[1:], strict=False)]
    sparse = sum(min(5 * n + b, 4 * total) for n, total, b in layers) + 4 * sum(widths[1:])
    whole = sum(min(2 * n + b, total) for n, total, b in layers) + 8 * sum(widths[1:])
    assert size.memory["compacted sparse"] == sparse
    assert size.memory["compacted int8"] == whole
    for kind in REPRESENTATIONS:
        assert size.memory[kind] < size.disk[kind] < size.memory[kind] + 2000


def test_weights_that_left_the_arrays_still_count(runs):
    agent, state = runs["bc weights"]
    kept = sum(int(np.sum(state.masks["policy"][f"Dense_{i}"]["kernel"])) for i in range(3))
    (whole,) = network_sizes(agent, state).values()
    (known,) = network_sizes(*jp.compact(agent, state, multiple=1), kept={"policy": kept}).values()
    assert known.memory == whole.memory
    assert (known.kept, known.effective, known.macs_executed) == (whole.kept, whole.effective, whole.macs_executed)


def test_every_network_and_member_counts(runs):
    sizes = network_sizes(*runs["bcq weights"])
    assert list(sizes) == ["vae", "critic", "actor"]
    assert sizes["critic"].weights == 2 * (6 * 16 + 16 * 12 + 12)
    assert sizes["vae"].weights == (6 * 24 + 24 * 20 + 20 * 8) + (8 * 24 + 24 * 20 + 20 * 2)
    kept = sum(int(np.sum(layer["kernel"])) for layer in runs["bcq weights"][1].masks["critic"].values())
    assert sizes["critic"].memory["coo int64"] == 20 * kept + 4 * 2 * (16 + 12 + 1)


def test_runners_call_the_policy(runs, observations):
    agent, state = runs["bc weights"]
    policy = jp.export.read_policy(agent, state)
    runners = {"jax": jax_runner(agent, state), "onnx": onnx_runner(policy), **c_runners(policy, "int8", flags=("-std=c99", "-O1"))}
    for batch in (1, 3):
        times = in_turns(runners, np.tile(observations[:batch], (30, 1, 1)), rounds=2, seconds=0.01)
        assert set(times) == set(runners)
        for found in times.values():
            assert found.shape[0] == 2
            assert 1 <= found.shape[1] <= 30
            assert (found > 0).all()
            assert np.median(found) < 0.1


def test_uncompacted_policies_keep_every_unit(runs, observations):
    agent, state = runs["bc weights"]
    policy = jp.export.read_policy(agent, state, compact=False)
    assert [layer.weight.shape for layer in policy.perceptrons["actor"].layers] == [(4, 24), (24, 20), (20, 2)]
    np.testing.assert_allclose(policy.act(observations), byhand.bc_actions(agent, state, observations), rtol=0, atol=1e-5)


def test_cost_of_an_update(runs):
    agent, state = runs["bc weights"]
    memory = update_memory(agent, state, 32)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    # XLA is not given what BC does not read: rewards, next observations, discounts, the key.
    assert memory.arguments == held + 4 * 32 * (4 + 2)
    assert memory.peak >= memory.arguments + memory.temporary > memory.arguments
    assert 0 < update_seconds(agent, state, 32, 20) < 1
    log = synthetic_log(agent, state, 500)
    assert ((log.actions >= agent.spec.low) & (log.actions <= agent.spec.high)).all()
    np.testing.assert_allclose(log.observations.mean(0), state.statistics.mean, atol=0.5)


def test_energy_needs_codecarbon(runs):
    if importlib.util.find_spec("codecarbon") is None:
        with pytest.raises(ImportError, match=r"pip install 'jaxprune\[energy\]'"):
            update_energy(*runs["bc weights"], 32, 10, None)
    else:
        found = update_energy(*runs["bc weights"], 32, 10, None)
        assert found.kilograms_co2 is None
        assert "CPU" in found.sensors


def test_pareto_front():
    points = [(10, 5.0), (20, 4.0), (5, 1.0), (30, 9.0), (10, 2.0), (30, 9.0)]
    assert pareto_front(points) == [(5, 1.0), (10, 5.0), (30, 9.0)]
    assert pareto_front([]) == []


def latency(call, p50, sparsity=0.95):
    names = {"run": "bc-snip-0.95-0", "algo": "bc", "structure": "weights", "sparsity": sparsity}
    return {**names, "call": call, "batch": 1, "p50_us": p50, "p99_us": 2 * p50, "calls": 100}


def test_tables_and_figures(tmp_path):
    rows = [latency("PyTorch dense", 40.0), latency("ONNX Runtime dense", 12.0), latency("C, C loop", 1.25), latency("C, ctypes", 2.0)]
    assert speedups(rows) == [
        "- bc-snip-0.95-0, C, C loop (1.25 µs): 32.0 × PyTorch dense, 9.6 × ONNX Runtime dense",
        "- bc-snip-0.95-0, C, ctypes (2.00 µs): 20.0 × PyTorch dense, 6.0 × ONNX Runtime dense",
    ]
    names = {"run": "bc-snip-0.95-0", "algo": "bc", "structure": "weights", "sparsity": 0.95}
    sizes = [{**names, "format": "C constants, float32", "bytes": 16417, "times_smaller": 16.97, "macs": 2949, "difference": 1e-6}]
    returns = [{**names, "policy": "C float32", "episodes": 4, "return_mean": 1189.25, "standard_error": 1.5}]
    tables = {name: [] for name in COLUMNS} | {"latency": rows, "policies": sizes, "returns": returns}
    write_tables(tmp_path, tables, ["    the command"])
    draw(tmp_path, tables)
    text = (tmp_path / "tables.md").read_text()
    assert text.startswith("    the command\n")
    assert "| bc-snip-0.95-0 | 95 % | C constants, float32 | 16,417 | 16.97 | 2,949 | 1.00e-06 |" in text
    with (tmp_path / "latency.csv").open() as file:
        assert [row["p50_us"] for row in csv.DictReader(file)] == ["40.0", "12.0", "1.25", "2.0"]
    assert {path.name for path in tmp_path.glob("*.png")} == {"bytes_bc.png", "latency_bc.png", "return_bc.png"}
    assert not (tmp_path / "networks.csv").exists()


def test_returns_are_averaged_over_seeds_before_any_is_called_best(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("jaxprune.export.measurement_tables.return_against_bytes", lambda rows, title: drawn.extend(rows) or Drawn())

    class Drawn:
        def savefig(self, path, dpi):
            pass

    names = {"algo": "bc", "structure": "weights", "sparsity": 0.99, "format": "C constants, int8"}
    sizes = [{**names, "run": f"bc-{seed}", "bytes": size} for seed, size in enumerate((1000, 1200))]
    returns = [{"run": f"bc-{seed}", "policy": "C int8", "return_mean": value} for seed, value in enumerate((800.0, 1300.0))]
    draw(tmp_path, {name: [] for name in COLUMNS} | {"policies": sizes, "returns": returns})
    assert drawn == [{"format": "C constants, int8", "sparsity": 0.99, "bytes": 1100, "return": 1050, "low": 800, "high": 1300}]


def test_lines_and_points_are_the_rows():
    rows = [
        {"format": "a", "sparsity": 0.9, "value": 10.0},
        {"format": "a", "sparsity": 0.9, "value": 30.0},
        {"format": "a", "sparsity": 0.0, "value": 7.0},
    ]
    (line,) = against_sparsity(rows, label="Bytes").axes[0].lines
    np.testing.assert_allclose(line.get_xydata(), [[0, 7], [1, 20]])
    axes = return_against_bytes([{"format": "a", "bytes": 100, "return": 5.0, "sparsity": 0.9}]).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[100, 5]])
    for empty in (lambda: against_sparsity([], label="Bytes"), lambda: return_against_bytes([])):
        with pytest.raises(ValueError, match="expected rows to draw"):
            empty()
