"""What scoring costs, in gradient evaluations of the same rows.

    python benchmarks/criteria.py --output=results/criteria_cost.csv

For BCQ's networks at full size on Hopper's shapes: the median time of each criterion's scores, jitted, over that of the loss's gradient;
for OBD and QM over that of `jit(vmap(grad))`, whose multiple is to stay below the number of outputs + 2. Ranking is timed apart, and so is
the way from raw transitions to the masks of a whole agent, as a share of 1 % of a training of a million updates. All times of one network
are taken in turns, so that what else the machine does falls on all of them.

With --count nothing is timed: the operations, the bytes read and written and the scratch memory of the compiled programs are counted, which
are the same on a busy machine. Only first-order criteria and flows are counted, as a loop's body counts once.
"""

from __future__ import annotations

import csv
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

import jaxprune as jp
from jaxprune.criteria.curvature import output_size
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import select

_ROWS = flags.DEFINE_integer("rows", 100, "Rows scored; BCQ's batch by default.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 15, "Timings of each, of which the median counts.", lower_bound=1)
_CRITERIA = flags.DEFINE_list("criteria", ["snip", "grasp", "crop", "lm", "obd", "qm"], "Criteria to time.")
_COUNT = flags.DEFINE_bool("count", False, "Count operations instead of taking times.")
_OUTPUT = flags.DEFINE_string("output", None, "CSV file to write besides printing.")

# In gradient evaluations of the same rows.
LIMITS = {"snip": 1.2, "grasp": 5.0, "crop": 5.0}
SPEC = Spec(11, 3, (-1.0,) * 3, (1.0,) * 3)


def transitions(rows: int) -> Transitions:
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((2, rows, 11)).astype(np.float32)
    actions, rewards = rng.uniform(-1, 1, (rows, 3)).astype(np.float32), rng.standard_normal(rows).astype(np.float32)
    return Transitions(observations[0], actions, rewards, observations[1], np.ones(rows, np.float32))


def medians(functions: dict, repeats: int) -> dict[str, float]:
    """Median seconds of each call, compiled before, in turns; an untimed call first, as the one before leaves other caches."""
    for function in functions.values():
        jax.block_until_ready(function())
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            jax.block_until_ready(function())
            start = time.perf_counter()
            jax.block_until_ready(function())
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


COUNTED = ("snip", "force", "lm", "grasp", "crop")


def network_counts(agent, state, batch, name: str) -> list[dict]:
    """What the compiled programs of one network do, beside that of its gradient."""
    objective, params = agent.objective(name, state), state.params[name]
    rows = jax.jit(objective.rows)(batch, agent.draw(jax.random.key(1), _ROWS.value))
    programs = {"gradient": jax.grad(objective)}
    programs |= {c: lambda p, r, c=c: jp.CRITERIA[c](objective, p, r) for c in _CRITERIA.value if c in COUNTED}
    lines = []
    for what, function in programs.items():
        program = jax.jit(function).lower(params, rows).compile()
        cost, memory = program.cost_analysis(), program.memory_analysis()
        if cost is None or memory is None:
            raise RuntimeError(f"{jax.default_backend()} counts neither operations nor memory; run with JAX_PLATFORMS=cpu")
        line = {
            "network": name,
            "what": what,
            "operations": int(cost["flops"]),
            "bytes": int(cost["bytes accessed"]),
            "scratch": memory.temp_size_in_bytes,
        }
        first = lines[0] if lines else line
        line |= {"operations_ratio": line["operations"] / first["operations"], "bytes_ratio": line["bytes"] / first["bytes"]}
        weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        line["more_per_parameter"] = (line["operations"] - first["operations"]) / weights
        lines.append(line)
    return lines


def network_costs(agent, state, batch, name: str) -> list[dict]:
    objective, params = agent.objective(name, state), state.params[name]
    rows = jax.jit(objective.rows)(batch, agent.draw(jax.random.key(1), _ROWS.value))
    key = jax.random.key(2)
    criteria = [c for c in _CRITERIA.value if objective.convex or c not in ("obd", "qm")]

    def row_loss(p, row):
        return objective(p, jax.tree.map(lambda leaf: leaf[None], row))

    gradient = jax.jit(jax.grad(objective))
    row_gradients = jax.jit(jax.vmap(jax.grad(row_loss), in_axes=(None, 0)))
    scores = {c: jax.jit(lambda p, r, c=c: jp.CRITERIA[c](objective, p, r, key)) for c in criteria}
    ranked = jax.jit(lambda s, keep: select(prunable_leaves(s), keep))
    first = scores[criteria[0]](params, rows)
    keep = jnp.int32(jp.kept_count(0.95, sum(leaf.size for leaf in prunable_leaves(params).values())))
    timed = medians(
        {
            "gradient": lambda: gradient(params, rows),
            "vmap(grad)": lambda: row_gradients(params, rows),
            "ranking": lambda: ranked(first, keep),
            **{c: lambda c=c: scores[c](params, rows) for c in criteria},
        },
        _REPEATS.value,
    )
    outputs = output_size(objective, params, rows)
    lines = []
    for what, seconds in timed.items():
        second_order = what in ("obd", "qm")
        unit = timed["vmap(grad)"] if second_order else timed["gradient"]
        limit = outputs + 2 if second_order else LIMITS.get(what)
        lines.append(
            {
                "network": name,
                "what": what,
                "milliseconds": 1e3 * seconds,
                "ratio": seconds / unit,
                "of": "vmap(grad)" if second_order else "gradient",
                "at_most": limit or "",
            }
        )
    return lines


def agent_cost(agent, state, batch) -> list[dict]:
    """From raw transitions to the masks of all networks, compiled, beside 1 % of a million updates."""
    key = jax.random.key(3)
    update = jax.jit(agent.update)
    calls = {c: lambda c=c: jp.prune_agent(agent, state, batch, key, criterion=c, sparsity=0.95)[0].masks for c in ("snip", "grasp")}
    timed = medians({"update": lambda: update(state, batch, key), **calls}, max(3, _REPEATS.value // 3))
    return [
        {
            "network": "all",
            "what": f"{c}, data to masks",
            "milliseconds": 1e3 * timed[c],
            "ratio": timed[c] / (0.01 * 1e6 * timed["update"]),
            "of": "1 % of 1M updates",
            "at_most": 1.0,
        }
        for c in calls
    ]


def main(_):
    agent = jp.agents.bcq(SPEC)
    state = agent.init(jax.random.key(0), Statistics(np.zeros(11, np.float32), np.ones(11, np.float32)))
    batch = jax.device_put(transitions(_ROWS.value))
    if _COUNT.value:
        lines = [line for name in agent.order for line in network_counts(agent, state, batch, name)]
        print(f"{jax.devices()[0].device_kind}, {_ROWS.value} rows, counted")
        print(f"{'network':8} {'what':10} {'operations':>14} {'ratio':>8} {'bytes':>12} {'ratio':>8} {'scratch':>10}")
        for line in lines:
            operations, moved = (f"{line[n]:>{w},} {line[n + '_ratio']:8.3f}" for n, w in (("operations", 14), ("bytes", 12)))
            print(f"{line['network']:8} {line['what']:10} {operations} {moved} {line['scratch']:10,}")
    else:
        lines = [line for name in agent.order for line in network_costs(agent, state, batch, name)] + agent_cost(agent, state, batch)
        print(f"{jax.devices()[0].device_kind}, {_ROWS.value} rows, median of {_REPEATS.value}")
        print(f"{'network':8} {'what':20} {'ms':>10} {'ratio':>8}  of")
        for line in lines:
            bound = f"  (at most {line['at_most']})" if line["at_most"] else ""
            print(f"{line['network']:8} {line['what']:20} {line['milliseconds']:10.3f} {line['ratio']:8.3f}  {line['of']}{bound}")
    if _OUTPUT.value:
        path = pathlib.Path(_OUTPUT.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    app.run(main)
