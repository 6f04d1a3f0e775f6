"""Train the behaviour policy of a built-in data set, keeping snapshots along the way.

Needs the development extra (``pip install -e '.[behaviours]'``). PPO is Stable-Baselines3's, with observations normalised by
running statistics; SAC is SBX's (Stable-Baselines in JAX), for tasks that need more than PPO gives in the time. Every snapshot is
evaluated as it would be used to collect data: with its own exploration noise.

    python experiments/train_behaviour.py --env_id=Hopper-v5 --steps=5000000 --output=/tmp/hopper
    python experiments/train_behaviour.py --env_id=HalfCheetah-v5 --algorithm=sac --steps=300000 --snapshot_every=10000 --output=/tmp/hc

writes OUTPUT/curve.csv (steps, mean, std, min and max return over episodes, seconds) and OUTPUT/snapshots/STEPS.npz, each a file that
``jaxprune.data.behaviours.load_policy`` reads.
"""

import csv
import json
import pathlib
import time

import gymnasium as gym
import numpy as np
from absl import app, flags

from jaxprune.data.behaviours.policy import policy_from_arrays

_ENV_ID = flags.DEFINE_string("env_id", "Hopper-v5", "Gymnasium environment.")
_ALGORITHM = flags.DEFINE_enum("algorithm", "ppo", ["ppo", "sac"], "Trainer.")
_STEPS = flags.DEFINE_integer("steps", 5_000_000, "Environment steps.", lower_bound=1)
_SNAPSHOT_EVERY = flags.DEFINE_integer("snapshot_every", 100_000, "Steps between snapshots.", lower_bound=1)
_EPISODES = flags.DEFINE_integer("episodes", 10, "Evaluation episodes at each snapshot.", lower_bound=1)
_ENVIRONMENTS = flags.DEFINE_integer("environments", 16, "PPO: environments stepped side by side.", lower_bound=1)
_ROLLOUT = flags.DEFINE_integer("rollout", 256, "PPO: steps of each environment between two updates.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Minibatch size.", lower_bound=1)
_EPOCHS = flags.DEFINE_integer("epochs", 10, "PPO: passes over each rollout.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 3e-4, "Learning rate; PPO's falls linearly to zero.")
_DISCOUNT = flags.DEFINE_float("discount", 0.99, "Discount factor.")
_LOG_STD = flags.DEFINE_float("log_std", -0.5, "PPO: initial log standard deviation of the exploration noise.")
_WIDTH = flags.DEFINE_integer("width", 64, "Units of each of the two hidden layers of the policy.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder to write; must not hold another run.", required=True)


def ppo():
    """(the PPO model, its snapshot as plain arrays: tanh layers on normalised observations, a mean, a log standard deviation).

    Of discrete actions there are logits in place of a mean, and no deviation.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    environments = VecNormalize(make_vec_env(_ENV_ID.value, n_envs=_ENVIRONMENTS.value, seed=_SEED.value), gamma=_DISCOUNT.value)
    model = PPO(
        "MlpPolicy",
        environments,
        learning_rate=lambda remaining: remaining * _LEARNING_RATE.value,
        n_steps=_ROLLOUT.value,
        batch_size=_BATCH_SIZE.value,
        n_epochs=_EPOCHS.value,
        gamma=_DISCOUNT.value,
        policy_kwargs={"net_arch": {"pi": [_WIDTH.value] * 2, "vf": [256, 256]}, "log_std_init": _LOG_STD.value},
        seed=_SEED.value,
        device="cpu",
    )

    def arrays():
        layers = [m for m in model.policy.mlp_extractor.policy_net if hasattr(m, "weight")] + [model.policy.action_net]
        found = {}
        for index, layer in enumerate(layers):
            found[f"kernel_{index}"] = layer.weight.detach().numpy().T.copy()
            found[f"bias_{index}"] = layer.bias.detach().numpy().copy()
        if isinstance(model.action_space, gym.spaces.Box):
            found["log_std"] = model.policy.log_std.detach().numpy().copy()
        found["mean"] = np.asarray(environments.obs_rms.mean, np.float32)
        found["std"] = np.sqrt(environments.obs_rms.var + environments.epsilon).astype(np.float32)
        return found

    return model, arrays


def sac():
    """(the SAC model, its snapshot as plain arrays: ReLU layers, a mean and a log standard deviation under a tanh)."""
    from sbx import SAC

    env = gym.make(_ENV_ID.value)
    assert isinstance(env.action_space, gym.spaces.Box)
    low, high = env.action_space.low, env.action_space.high
    model = SAC(
        "MlpPolicy",
        env,
        learning_rate=_LEARNING_RATE.value,
        buffer_size=min(_STEPS.value, 1_000_000),
        learning_starts=10_000,
        batch_size=_BATCH_SIZE.value,
        gamma=_DISCOUNT.value,
        policy_kwargs={"net_arch": {"pi": [_WIDTH.value] * 2, "qf": [256, 256]}},
        seed=_SEED.value,
    )
    size = model.observation_space.shape[0]

    def arrays():
        layers = [model.policy.actor_state.params["params"][f"Dense_{index}"] for index in range(4)]
        *trunk, spread = ((np.asarray(layer["kernel"]), np.asarray(layer["bias"])) for layer in layers)
        found = {"log_std_kernel": spread[0], "log_std": spread[1]}
        for index, (kernel, bias) in enumerate(trunk):
            found |= {f"kernel_{index}": kernel, f"bias_{index}": bias}
        return found | {"mean": np.zeros(size, np.float32), "std": np.ones(size, np.float32), "bounds": np.stack([low, high])}

    return model, arrays


def evaluate(policy) -> list[float]:
    """Returns of episodes played with the policy's own noise."""
    env, returns, rng = gym.make(_ENV_ID.value), [], np.random.default_rng(0)
    space = env.action_space
    for episode in range(_EPISODES.value):
        observation, _ = env.reset(seed=1_000_000 + episode)
        total, done = 0.0, False
        while not done:
            action = policy(observation[None], rng)[0]
            if isinstance(space, gym.spaces.Box):
                action = action.clip(space.low, space.high)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def main(_):
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(1)
    output = pathlib.Path(_OUTPUT.value)
    if (output / "curve.csv").exists():
        raise app.UsageError(f"{output} already holds a run; name another --output.")
    (output / "snapshots").mkdir(parents=True, exist_ok=True)
    library = {"ppo": "PPO (stable-baselines3)", "sac": "SAC (sbx-rl)"}[_ALGORITHM.value]
    model, arrays = ppo() if _ALGORITHM.value == "ppo" else sac()

    class Snapshots(BaseCallback):
        def _on_training_start(self):
            self.start, self.next = time.time(), 0
            self.file = (output / "curve.csv").open("w", newline="")
            self.rows = csv.writer(self.file)
            self.rows.writerow(["steps", "return_mean", "return_std", "return_min", "return_max", "seconds"])

        def _on_step(self):
            return True

        def _on_rollout_start(self):
            if self.num_timesteps >= self.next:
                self.snapshot()
                self.next = self.num_timesteps + _SNAPSHOT_EVERY.value

        def _on_training_end(self):
            self.snapshot()
            self.file.close()

        def snapshot(self):
            described = {"env_id": _ENV_ID.value, "algorithm": library, "steps": self.num_timesteps, "seed": _SEED.value}
            now = arrays()
            returns = evaluate(policy_from_arrays(now, described))
            described["return_mean"] = float(np.mean(returns))
            path = output / "snapshots" / f"{self.num_timesteps:09d}.npz"
            np.savez(path, allow_pickle=False, metadata=np.asarray(json.dumps(described)), **now)
            row = [np.mean(returns), np.std(returns), np.min(returns), np.max(returns), time.time() - self.start]
            self.rows.writerow([self.num_timesteps, *(f"{value:.1f}" for value in row)])
            self.file.flush()

    model.learn(_STEPS.value, callback=Snapshots())


if __name__ == "__main__":
    app.run(main)
