"""How much of the bare environment's speed is left with policies in the loop.

    python benchmarks/evaluation.py --output=results/evaluation/README.md

BC's rate is that of `evaluate_stack`, at ten episodes a run. The bare rate is that of the same environments stepped with the dense BC
policies' own actions, recorded beforehand: the physics costs more or less by where the actions lead. Making and resetting environments
counts in both. BCQ, which tries 100 candidates a step, is stepped for --bcq_steps only. All take turns; rates are medians over rounds, in
environment steps a second.
"""

import json
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

import jaxprune as jp
from jaxprune.environments import make_batched
from jaxprune.training.evaluation import act_stack, episode_seeds, evaluate_stack, play
from jaxprune.training.sweep import versions

ENV_ID = flags.DEFINE_string("env_id", "HalfCheetah-v5", "Environment; one whose episodes all have the same length keeps the batch full.")
DATASET = flags.DEFINE_string("dataset", "jaxprune/halfcheetah/random-v0", "Data set of the agents.")
RUNS = flags.DEFINE_integer("runs", 12, "Runs of ten episodes.", lower_bound=1)
ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Steps of an episode.", lower_bound=1)
BCQ_STEPS = flags.DEFINE_integer("bcq_steps", 20, "Steps of BCQ.", lower_bound=1)
OUTPUT = flags.DEFINE_string("output", None, "Markdown file to write besides printing.")


def recorded(agent, policies) -> list[np.ndarray]:
    """The actions that `evaluate_stack` takes with the same policies, [steps][environments, A]."""
    environment, actions = all_environments(), []
    keys = jnp.stack([jax.random.key(int(episode_seeds(seed, 1)[0])) for seed in range(RUNS.value)])

    def act(observations, live, t):
        actions.append(
            np.asarray(act_stack(agent, policies, observations.reshape(RUNS.value, 10, -1), keys, t)).reshape(10 * RUNS.value, -1)
        )
        return actions[-1][live]

    play(environment, environment.reset(), act)
    environment.close()
    return actions


def all_environments():
    return make_batched(ENV_ID.value, np.concatenate([episode_seeds(seed, 10) for seed in range(RUNS.value)]).tolist())


def bare(actions: list[np.ndarray]) -> float:
    began = time.perf_counter()
    environment = all_environments()
    play(environment, environment.reset(), lambda observations, live, t: actions[t][live])
    environment.close()
    return STEPS.value * 10 * RUNS.value / (time.perf_counter() - began)


def with_policies(agent, policies) -> float:
    began = time.perf_counter()
    if agent.name == "bc":
        returns = evaluate_stack(agent, policies, ENV_ID.value, episodes=10, seeds=list(range(RUNS.value)))
        return STEPS.value * returns.size / (time.perf_counter() - began)
    size = 10 * RUNS.value
    environment = make_batched(ENV_ID.value, list(range(size)))
    observations, everyone = environment.reset(), np.arange(size, dtype=np.int32)
    keys = jax.random.split(jax.random.key(0), RUNS.value)
    began = time.perf_counter()
    for step in range(BCQ_STEPS.value):
        actions = np.asarray(act_stack(agent, policies, observations.reshape(RUNS.value, 10, -1), keys, step))
        observations = environment.step(actions.reshape(size, -1), everyone)[0]
    seconds = time.perf_counter() - began
    environment.close()
    return BCQ_STEPS.value * size / seconds


def main(_):
    dataset, raced = jp.data.load(DATASET.value), {}
    for name in ("bc", "bcq"):
        agent = jp.agents.make(name, dataset.spec)
        state = jax.vmap(lambda key, agent=agent: agent.init(key, dataset.statistics))(jax.random.split(jax.random.key(0), RUNS.value))
        raced[f"{name}, dense"] = (agent, agent.policy(state))
        pruned, _ = jp.prune_agent(
            agent, agent.init(jax.random.key(0), dataset.statistics), dataset.transitions.take(jnp.arange(256)), jax.random.key(1)
        )
        small, compacted = jp.compact(agent, pruned)
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * RUNS.value), small.policy(compacted))
        raced[f"{name}, 95 % removed"] = (small, stacked)
    rates: dict[str, list[float]] = {"bare": [], **{name: [] for name in raced}}
    for agent, policies in raced.values():
        jax.block_until_ready(policies)
        with_policies(agent, policies)
    actions = recorded(*raced["bc, dense"])
    for _ in range(ROUNDS.value):
        rates["bare"].append(bare(actions))
        for name, (agent, policies) in raced.items():
            rates[name].append(with_policies(agent, policies))
    base = statistics.median(rates["bare"])
    lines = [
        f"# Evaluation: {10 * RUNS.value} environments of {ENV_ID.value}",
        "",
        "| policies | steps a second | of the bare rate |",
        "|---|---|---|",
    ]
    for name, own in rates.items():
        lines.append(f"| {name} | {statistics.median(own):,.0f} | {statistics.median(own) / base:.0%} |")
    share = statistics.median(own / alone for own, alone in zip(rates["bc, dense"], rates["bare"], strict=True))
    lines += ["", f"Median over {ROUNDS.value} rounds of the ratio within a round, dense BC: {share:.0%}."]
    text = "\n".join([*lines, "", json.dumps(versions())]) + "\n"
    print(text)
    if OUTPUT.value:
        path = pathlib.Path(OUTPUT.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    app.run(main)
