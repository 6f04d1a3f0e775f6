"""Make a data set: a built-in one at any size and seed, or one of your own policy.

    python experiments/collect.py --dataset=jaxprune/hopper/expert-v0 --size=50000 --seed=1
    python experiments/collect.py --dataset=mine/hopper/first-v0 --env_id=Hopper-v5 --policy=my_module:act
    python experiments/collect.py --dataset=mine/hopper/snapshot-v0 --env_id=Hopper-v5 --policy=/tmp/hopper/snapshots/000500000.npz

A callable takes observations [E, S] and, if it has a second parameter, a NumPy generator, and returns actions [E, A] in the
environment's units. The set is kept by Minari; the same seed gives the same arrays on the same machine. Prints its id and what is in it.
"""

from absl import flags
from launch import launch

from jaxprune.data import load
from jaxprune.data.builtin import SIZE, is_builtin
from jaxprune.data.recording import find_policy, record

_DATASET = flags.DEFINE_string("dataset", None, "jaxprune/<task>/<level>-v0, or the Minari id to give to a set of your own.", required=True)
_SIZE = flags.DEFINE_integer("size", SIZE, "Transitions.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of environments and exploration noise.", lower_bound=0)
_POLICY = flags.DEFINE_string("policy", None, "module:callable or snapshot file (.npz); needed for a set of your own, with --env_id.")
_ENV_ID = flags.DEFINE_string("env_id", None, "Gymnasium environment to play --policy in.")
_REPLACE = flags.DEFINE_bool("replace", False, "Replace a set of your own that is there under the same id.")


def main():
    if is_builtin(_DATASET.value):
        if _POLICY.value or _ENV_ID.value or _REPLACE.value:
            raise ValueError("--policy, --env_id and --replace are for a set of your own; give it an id outside jaxprune/")
        dataset = load(_DATASET.value, size=_SIZE.value, seed=_SEED.value)
    else:
        if not (_POLICY.value and _ENV_ID.value):
            raise ValueError(f"--dataset={_DATASET.value} is a set of your own, which needs --policy and --env_id")
        act = find_policy(_POLICY.value)
        algorithm = _POLICY.value
        record(_DATASET.value, act, env_id=_ENV_ID.value, size=_SIZE.value, seed=_SEED.value, algorithm=algorithm, replace=_REPLACE.value)
        dataset = load(_DATASET.value, download=False)
    print(dataset.name)
    print(dataset.report)


if __name__ == "__main__":
    launch(main)
