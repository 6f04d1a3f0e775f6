"""The policies that make the built-in data sets, one weights file a task.

``<task>.npz`` holds, under ``<name>/`` for each policy name (``medium``, ``expert``, ``replay_0``, ``replay_1``, …), the arrays of a
snapshot of ``experiments/train_behaviour.py``, and ``metadata``, a JSON object: env_id, and under ``policies`` what is known of each.
``experiments/pack_behaviours.py`` writes it.
"""

from jaxprune.data.behaviours.policy import Policy, load_policy
from jaxprune.data.behaviours.tasks import LEVELS, TASKS, load_behaviour

__all__ = ["LEVELS", "TASKS", "Policy", "load_behaviour", "load_policy"]
