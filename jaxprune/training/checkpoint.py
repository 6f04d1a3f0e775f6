"""A run on disk: the whole carry, and what it takes to make the agent again."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import full_sizes, resized
from jaxprune.agents.registry import AGENTS
from jaxprune.data.transitions import Spec
from jaxprune.files import read_json, write_whole

FORMAT = 1


def save_run(folder: str | pathlib.Path, agent: Agent, state: AgentState, description: dict[str, Any]) -> None:
    """Write the state (orbax) and `agent.json` into an empty or new folder.

    Args:
      folder: of the run.
      agent: the algorithm.
      state: its state.
      description: JSON values to keep beside it (seed, sparsity, criterion, …).

    Raises:
      ValueError: a name in the description under which `agent.json` keeps something of the agent; nothing is written then.
    """
    own = {"format": FORMAT, **agent_to_json(agent)}
    if taken := sorted(set(description) & set(own)):
        raise ValueError(f"a description cannot name {taken[0]!r}: agent.json keeps {', '.join(own)} of the agent itself")

    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_tree(folder / "state", state)
    write_whole(folder / "agent.json", json.dumps({**own, **description}, indent=2) + "\n")


def write_tree(path: pathlib.Path, tree: Any) -> None:
    """Write a tree of arrays that are all on this machine, whole or not at all: by Orbax, as a folder.

    Orbax wants arrays that all processes hold together; of several processes, each with runs of its own, each writes path.npz instead.

    Raises:
      OSError: the disk is full or gone.
    """
    path = path.resolve()
    if jax.process_count() == 1:
        _write_by_orbax(path, tree)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays, content = {jax.tree_util.keystr(key): leaf for key, leaf in jax.tree_util.tree_leaves_with_path(tree)}, io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_whole(path.with_name(f"{path.name}.npz"), content.getvalue())


def _write_by_orbax(path: pathlib.Path, tree: Any) -> None:
    import orbax.checkpoint as ocp

    try:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, tree)
    except Exception as error:  # Orbax passes on whatever its storage layer raises
        raise OSError(f"cannot write {path}: {str(error).splitlines()[0]}; make room, then go on with --resume") from error


def read_tree(path: pathlib.Path, shapes: Any) -> Any:
    """What `write_tree` wrote, on this process's first device.

    Args:
      path: as it was written.
      shapes: a tree with the shapes and dtypes.
    """
    import orbax.checkpoint as ocp

    path = path.resolve()
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    if (single := path.with_name(f"{path.name}.npz")).exists():
        with np.load(single) as arrays:
            return jax.tree_util.tree_map_with_path(
                lambda key, leaf: jax.device_put(_array_of(arrays, jax.tree_util.keystr(key), leaf), sharding), shapes
            )
    target = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(path, target)


def _array_of(arrays: Mapping[str, np.ndarray], name: str, leaf: jax.ShapeDtypeStruct) -> np.ndarray:
    found = arrays[name].shape if name in arrays else "none"
    if found != leaf.shape:
        raise ValueError(f"requested {name} of shape {leaf.shape}, stored: {found}")
    return arrays[name].astype(leaf.dtype)


def load_agent(folder: str | pathlib.Path) -> Agent:
    """The agent of a saved run.

    Raises:
      FileNotFoundError: the folder holds no run.
      ValueError: it was written by a newer version, or with an optimizer that a file cannot name.
    """
    described = _described(folder)
    if described["custom_optimizer"]:
        path = pathlib.Path(folder) / "agent.json"
        raise ValueError(f"{path} was trained with an optimizer of your own: make the agent in code and pass it as agent=")
    return agent_from_json(described)


def _described(folder: str | pathlib.Path) -> dict[str, Any]:
    path = pathlib.Path(folder) / "agent.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no run (no agent.json in it); give a folder such as OUTPUT/runs/bc-snip-0.95-0")
    described = read_json(path)
    if described.get("format") != FORMAT:
        raise ValueError(f"{path} has format {described.get('format')}, this version reads {FORMAT}; use the version that wrote it")
    return described


def _at_saved_widths(folder: str | pathlib.Path, agent: Agent) -> Agent:
    described = _described(folder)
    if (agent.name, agent.spec) != (described["agent"], Spec(**described["spec"])):
        raise ValueError(
            f"{folder} holds a run of {described['agent']} with {described['spec']}, but the agent given is {agent.name} with {agent.spec}"
        )
    widths = tuple(tuple(item) for item in described["widths"])
    return agent if widths == agent.widths else resized(agent, full_sizes(agent) | dict(widths))


def agent_to_json(agent: Agent) -> dict[str, Any]:
    """What it takes to make the agent again, as JSON values; an optimizer of one's own is only noted."""
    return {
        "agent": agent.name,
        "spec": dataclasses.asdict(agent.spec),
        "config": {k: v for k, v in dataclasses.asdict(agent.config).items() if k != "optimizer"},
        "custom_optimizer": getattr(agent.config, "optimizer", None) is not None,
        "widths": list(agent.widths),
    }


def agent_from_json(described: dict[str, Any]) -> Agent:
    """The agent that `agent_to_json` described.

    Raises:
      ValueError: of an algorithm that is not in `AGENTS`.
    """
    if described["agent"] not in AGENTS:
        raise ValueError(f"the algorithm {described['agent']!r} is none of {', '.join(AGENTS)}; add it to jaxprune.agents.AGENTS first")
    constructor, config_class = AGENTS[described["agent"]]
    config = {k: tuple(v) if isinstance(v, list) else v for k, v in described["config"].items()}
    agent = constructor(Spec(**described["spec"]), config_class(**config))
    return agent.with_widths([tuple(item) for item in described["widths"]]) if described["widths"] else agent


def load_run(folder: str | pathlib.Path, *, agent: Agent | None = None) -> tuple[Agent, AgentState]:
    """The agent and state of a saved run, ready to act or to train on.

    Args:
      folder: one of OUTPUT/runs.
      agent: needed only where the run was trained with an optimizer of your own. At any widths: the file knows the run's.

    Raises:
      FileNotFoundError: the folder holds no run.
      ValueError: as for `load_agent`; the agent given is of another algorithm, for another environment, or has other layers or another
        optimizer; or the run was compacted, and the agent's networks were replaced by hand, so that there is none of its widths.
    """
    path = pathlib.Path(folder) / "state"
    if agent is None:
        agent = load_agent(folder)
        return agent, read_tree(path, agent.shapes())
    agent = _at_saved_widths(folder, agent)
    try:
        return agent, read_tree(path, agent.shapes())
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} does not fit the agent given ({reason}); give it the layers and the optimizer that the run was trained with, as "
            f"{folder}/agent.json tells them"
        ) from error
