"""What a sweep is: its config, and the runs it expands to."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from jaxprune.agents.registry import AGENTS
from jaxprune.agents.sparse import BUDGETS, STRUCTURES, TARGETS
from jaxprune.criteria.curvature import CURVATURES
from jaxprune.criteria.units import UNIT_CRITERIA
from jaxprune.environments import BACKENDS
from jaxprune.networks import INITIALIZERS
from jaxprune.pruning.allocation import ALLOCATIONS
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.schedules import SCHEDULES
from jaxprune.training.arms import DENSE, check_arm, with_checks
from jaxprune.training.early import When

# What config.json holds beside the config.
DESCRIBED = ("command", "versions", "processes", "data", "behaviour_return", "behaviour_score")

STRATEGIES = ("auto", "vectorized", "sequential", "sharded")


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """A grid of runs: algorithms × criteria × sparsities × seeds on one data set.

    Attributes:
      dataset: what `jaxprune.data.load` takes.
      env_id: Gymnasium id to evaluate in; the data set's own by default.
      algos: names in `jaxprune.agents.AGENTS`.
      criteria: names in `jaxprune.CRITERIA`, sanity checks of them such as `snip_shuffled`, or baselines; see `arms`.
      sanity: add every sanity check of the criteria given.
      sparsities: fractions of prunable weights removed; 0 is one dense run a seed, whatever the criteria.
      seeds: of the runs. A seed fixes initialisation, batches, noise and episode starts, so runs of one seed are paired.
      steps: updates of each run.
      eval_every: updates between evaluations; the last update is always evaluated.
      episodes: of each evaluation.
      batch_size: rows an update; the algorithm's own by default.
      prune_rows: rows that the criteria score on.
      networks: which networks to prune; all by default.
      rounds, schedule, allocation, floor: see `jaxprune.prune`.
      budget: see `jaxprune.agents.scoring.budget_prefixes`.
      structure: `weights`, `units` or `hybrid`; `target` and `inner_density` as in `jaxprune.prune_agent`. With `units`, `criteria` are
        names in `jaxprune.UNIT_CRITERIA`; with `hybrid`, `unit_criterion` ranks the units and `criteria` the weights inside.
      lambda_: step-size penalty of the loss models `lm`, `obd` and `qm`.
      curvature: of `obd` and `qm`, see `jaxprune.criteria.curvature.resolve_curvature`; what it meant is kept with the run.
      when, check_every, threshold, reference, cap, scope, total, restart_optimizer: when criteria prune, see
        `jaxprune.training.early.When`; dense runs and baselines are as they are.
      compact: train and keep the agents in arrays without dead units.
      lottery_rounds: how often `lottery_ticket` trains and prunes.
      settings: {setting: value} for the algorithms' configs.
      clip_actions: clip logged actions to the bounds.
      max_episode_steps: time limit of a file that holds neither timeouts nor next observations.
      strategy: how a stack of runs is stepped: `vectorized` (vmap), `sequential` (lax.map), `sharded` (over the devices of a process, by
        one of the other two on each), or `auto`: sharded where there are several devices, else sequential on CPU and vectorized elsewhere.
      max_stack: at most this many runs in one stack; by default as many as the device's memory takes, see `stacks.affordable`.
      checkpoint_every: evaluations of a stack between two checkpoints to resume from.
      backend: of the evaluation, see `jaxprune.environments.make_batched`.
      evaluate: whether to run episodes at all.
      overlap: whether a stack trains on while it is evaluated; by default where it trains on an accelerator. The results are the same.
    """

    dataset: str
    env_id: str | None = None
    algos: tuple[str, ...] = ("bc",)
    criteria: tuple[str, ...] = ("snip",)
    sparsities: tuple[float, ...] = (0.0, 0.9, 0.95, 0.99)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 20_000
    eval_every: int = 5_000
    episodes: int = 10
    batch_size: int | None = None
    prune_rows: int = 1024
    networks: tuple[str, ...] | None = None
    rounds: int = 1
    schedule: str = "exponential"
    allocation: str = "global"
    floor: int = 0
    budget: str = "mlp"
    structure: str = "weights"
    unit_criterion: str = "crop"
    target: str = "params"
    inner_density: float = 0.25
    lambda_: float = 0.0
    curvature: str = "auto"
    when: str = "init"
    check_every: int = 1000
    threshold: str = "code"
    reference: str = "first"
    cap: int | None = None
    scope: str = "together"
    total: str = "same"
    restart_optimizer: bool = False
    compact: bool = True
    sanity: bool = False
    lottery_rounds: int = 5
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    clip_actions: bool = False
    max_episode_steps: int | None = None
    strategy: str = "auto"
    max_stack: int | None = None
    checkpoint_every: int = 1
    backend: str = "auto"
    evaluate: bool = True
    overlap: bool | None = None

    def __post_init__(self):
        self._settle_types()
        for value in self.algos:
            _expect("algos", value, AGENTS)
        for value in self.criteria:
            check_arm(value, structure=self.structure)
        if self.sanity and self.structure != "weights":
            raise ValueError("sanity checks are of masks over single weights; leave out --sanity or use --structure=weights")
        if self.sanity:
            object.__setattr__(self, "criteria", with_checks(self.criteria))
        for name, known in (
            ("schedule", SCHEDULES),
            ("allocation", ALLOCATIONS),
            ("budget", BUDGETS),
            ("structure", STRUCTURES),
            ("unit_criterion", UNIT_CRITERIA),
            ("target", TARGETS),
            ("curvature", CURVATURES),
            ("strategy", STRATEGIES),
            ("backend", BACKENDS),
        ):
            _expect(name, getattr(self, name), known)
        for sparsity in self.sparsities:
            kept_count(sparsity, 1)
        for name in ("algos", "criteria", "sparsities", "seeds"):
            values = getattr(self, name)
            if not values and name != "criteria":
                raise ValueError(f"{name} is empty; give at least one value")
            if len(set(values)) != len(values):
                raise ValueError(f"{name} names a value twice: {', '.join(map(str, values))}")
        if not self.criteria and any(self.sparsities):
            raise ValueError("criteria is empty but there are sparsities above 0; name a criterion, or --sparsities=0")
        if any(seed < 0 or seed >= 2**31 for seed in self.seeds):
            raise ValueError(f"expected seeds in [0, 2**31), got {', '.join(map(str, self.seeds))}")
        for name in ("steps", "eval_every", "episodes", "prune_rows", "rounds", "max_stack", "lottery_rounds", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"expected {name} of at least 1, got {value}")
        if self.floor < 0:
            raise ValueError(f"expected floor of at least 0, got {self.floor}")
        if not 0 < self.inner_density <= 1:
            raise ValueError(f"expected inner_density in (0, 1], got {self.inner_density}")
        if not _real("learning_rate", self.settings.get("learning_rate", 1)) > 0:
            raise ValueError(f"expected a learning_rate above 0, got {self.settings['learning_rate']}")
        if self.networks == ():
            raise ValueError("networks is empty; name at least one, or leave it out for all")
        if self.settings.get("init", "uniform") not in INITIALIZERS:
            _expect("init", self.settings["init"], INITIALIZERS)
        self._check_when()
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"expected batch_size of at least 1, got {self.batch_size}")

    def _settle_types(self) -> None:
        """Whatever came from a hand-written file or from NumPy becomes tuples and Python's numbers, which config.json can hold."""
        kinds = {"algos": _text, "criteria": _text, "networks": _text, "sparsities": _real, "seeds": _whole}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is None and name == "networks":
                continue
            if not isinstance(value, (str, numbers.Real)) and not isinstance(value, Iterable):
                raise ValueError(f"{name}: expected a list, got {value!r}")
            values = (value,) if isinstance(value, (str, numbers.Real)) else tuple(value)
            object.__setattr__(self, name, tuple(kind(name, each) for each in values))
        for field in dataclasses.fields(self):
            kind = {"int": _whole, "float": _real, "str": _text}.get(str(field.type).removesuffix(" | None"))
            value = getattr(self, field.name)
            if kind is not None and not (value is None and str(field.type).endswith("None")):
                object.__setattr__(self, field.name, kind(field.name, value))
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings: expected {{setting: value}}, got {self.settings!r}")
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in self.settings.items()}
        object.__setattr__(self, "settings", plain)

    def _check_when(self) -> None:
        rule = self.when_rule
        rule.latest(self.steps)
        if rule.when not in ("init", "step:0"):
            for sparsity in self.sparsities:
                if sparsity:
                    rule.detector(sparsity, self.structure, self.steps)

    @property
    def when_rule(self) -> When:
        """The part that says when criteria prune."""
        return When(**{field.name: getattr(self, field.name) for field in dataclasses.fields(When)})

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> SweepConfig:
        """The config of a `config.json`; what a sweep adds to it there (`DESCRIBED`) is left out.

        Raises:
          ValueError: as the constructor, or an entry that is neither.
        """
        known = {field.name for field in dataclasses.fields(SweepConfig)}
        if unknown := sorted(set(values) - known - set(DESCRIBED)):
            near = difflib.get_close_matches(unknown[0], sorted(known), n=1)
            raise ValueError(f"{unknown[0]!r} is no setting of a sweep" + (f"; did you mean {near[0]!r}?" if near else ""))
        return SweepConfig(**{name: value for name, value in values.items() if name in known})


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: expected a whole number, got {value!r}") from None


def _real(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a number, got {value!r}")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name}: expected a name, got {value!r}")
    return str(value)


def _expect(name: str, value: str, known: Any) -> None:
    if value not in known:
        raise ValueError(f"{name}: {value!r} is unknown; expected one of {', '.join(sorted(known))}")


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a sweep."""

    algo: str
    criterion: str
    sparsity: float
    seed: int

    @property
    def id(self) -> str:
        """Unique in the sweep, and the name of its folder."""
        if self.criterion == DENSE:
            return f"{self.algo}-{DENSE}-{self.seed}"
        return f"{self.algo}-{self.criterion}-{self.sparsity}-{self.seed}"


def expand(config: SweepConfig) -> list[Run]:
    """The runs of a sweep, dense ones first; a sparsity of 0 is not repeated for every criterion."""
    runs = []
    for algo in config.algos:
        for sparsity in sorted(config.sparsities):
            criteria = config.criteria if sparsity else (DENSE,)
            runs += [Run(algo, criterion, float(sparsity), int(seed)) for criterion in criteria for seed in config.seeds]
    return runs
