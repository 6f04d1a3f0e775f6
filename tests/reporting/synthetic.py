import itertools

import numpy as np


def make_records(
    seeds=3,
    algos=("bc",),
    criteria=("snip", "grasp", "random"),
    sparsities=(0.9, 0.95, 0.99),
    datasets=("jaxprune/hopper/medium-v0",),
    evaluations=5,
):
    """A sweep with learning curves: dense is best, random falls fastest."""
    generator = np.random.default_rng(0)
    drop = {"dense": 0.0, "snip": 0.2, "grasp": 0.3, "random": 0.8}
    rows = []
    for dataset in datasets:
        for algo in algos:
            for criterion in ("dense", *criteria):
                for sparsity in (0.0,) if criterion == "dense" else sparsities:
                    level = 1500 * (1 - drop.get(criterion, 0.4) * sparsity**20)
                    for seed in range(seeds):
                        for evaluation in range(1, evaluations + 1):
                            value = level * (1 - np.exp(-evaluation)) + 30 * generator.normal()
                            rows.append(
                                dict(
                                    run_id=f"{algo}-{dataset}-{criterion}-{sparsity:g}-s{seed}",
                                    algo=algo,
                                    dataset=dataset,
                                    env_id="Hopper-v5",
                                    criterion=criterion,
                                    structure="weights",
                                    when="init",
                                    sparsity=sparsity,
                                    kept=round((1 - sparsity) * 71424),
                                    total=71424,
                                    seed=seed,
                                    step=1000 * evaluation,
                                    return_mean=float(value),
                                    return_std=10.0,
                                    episodes=10,
                                    score=float(value / 32.5),
                                    executed=71424 if criterion == "dense" else round((1 - sparsity) ** 0.6 * 71424),
                                    start_s=0.25,
                                    wall_s=2.0 * evaluation * (1 - 0.5 * sparsity),
                                    eval_s=0.5,
                                    stack=2,
                                    status="ok",
                                    policy_loss=float(0.1 + np.exp(-evaluation) + 0.01 * seed),
                                )
                            )
    return rows


def make_layers(seeds=3, criteria=("snip", "grasp"), sparsities=(0.9, 0.95)):
    return [
        dict(
            algo="bc",
            criterion=criterion,
            sparsity=sparsity,
            seed=seed,
            network="actor",
            layer=layer,
            kept=kept * (seed % 3 + 1),
            total=1000,
        )
        for criterion in criteria
        for sparsity in sparsities
        for seed, share in zip(range(seeds), itertools.cycle((1, 2, 3)), strict=False)
        for layer, kept in (("Dense_0", 20), ("Dense_1", 10), ("Dense_2", 300))
    ]


def make_sizes(records):
    """Bytes of the policy of every run: six a weight, and biases."""
    kept = {row["run_id"]: row["kept"] for row in records}
    return [dict(run_id=run, dense_bytes=288_000, stored_bytes=6 * n + 2000, int8_bytes=3 * n + 2500) for run, n in kept.items()]


def make_masks(records, sparsity=0.95):
    """Masks of the first seed of every criterion at one sparsity."""
    generator = np.random.default_rng(0)
    runs = {row["run_id"] for row in records if row["sparsity"] == sparsity and row["seed"] == 0}
    shapes = {"actor/Dense_0/kernel": (11, 256), "actor/Dense_2/kernel": (256, 3), "critic/Dense_0/kernel": (2, 14, 400)}
    kernels = [{name: generator.random(shape) > sparsity for name, shape in shapes.items()} for _ in runs]
    return [dict(run_id=run, kernels=kernel) for run, kernel in zip(sorted(runs), kernels, strict=True)]
