"""How a budget is divided between the layers that share it."""

from __future__ import annotations

import numpy as np

ALLOCATIONS = ("global", "uniform", "erk")


def largest_remainder(shares: np.ndarray, total: int, caps: np.ndarray, floors: np.ndarray) -> np.ndarray:
    """Integers between floors and caps that sum to `total`: `shares` rounded down, and the rest by largest remainder."""
    shares = np.clip(shares, floors, caps)
    counts = np.floor(shares).astype(int)
    for step in (1, -1):
        while (missing := (total - int(counts.sum())) * step) > 0:
            room = counts < caps if step == 1 else counts > floors
            if not room.any():
                raise ValueError(f"cannot keep {total} weights in layers of {caps.tolist()} with at least {floors.tolist()} each")
            order = np.argsort(-(shares - counts) * step, kind="stable")
            chosen = [i for i in order if room[i]][:missing]
            counts[chosen] += step
    return counts


def _scaled_to(total: int, weights: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Shares proportional to `weights` that sum to `total`, with what a full layer cannot take given to the others."""
    full = np.zeros(len(caps), bool)
    while True:
        rest = total - caps[full].sum()
        scale = rest / max(weights[~full].sum(), np.finfo(float).tiny)
        shares = np.where(full, caps, weights * scale)
        over = ~full & (shares > caps)
        if not over.any():
            return shares
        full |= over


def allocate(
    allocation: str,
    shapes: dict[str, tuple[int, ...]],
    keep: int,
    *,
    stacked: frozenset[str] = frozenset(),
    floor: int = 0,
    available: dict[str, int] | None = None,
) -> dict[str, int] | None:
    """How many weights each layer keeps, summing exactly to `keep`; None for `global`, where one ranking over all layers decides.

    Args:
      allocation: `global`; `uniform`, the same density everywhere; `erk`, density proportional to (Σ of the kernel's axes) / (product of
        them), Erdős–Rényi-kernel (Evci et al. 2020).
      shapes: {path: shape} of the kernels that share the budget.
      keep: number of weights to keep among them.
      stacked: paths whose first axis counts members of a stack, which is not part of a kernel's shape.
      floor: at least this many weights in every layer (all of it where it is smaller).
      available: how many weights of each layer an earlier round left; all by default. Shares are of the original sizes.

    Raises:
      ValueError: an unknown allocation, or a floor that does not fit the budget; with `global` too, where the ranking sees to the floor.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation={allocation!r} is unknown; expected one of {', '.join(ALLOCATIONS)}")
    sizes = np.array([int(np.prod(shape)) for shape in shapes.values()], int)
    caps = sizes if available is None else np.array([available[name] for name in shapes], int)
    floors = np.minimum(floor, caps)
    if floors.sum() > keep:
        raise ValueError(f"floor={floor} needs {floors.sum()} weights in {len(caps)} layers but the budget keeps {keep}; lower it")
    if allocation == "global":
        return None
    kernels = [shape[1:] if name in stacked else shape for name, shape in shapes.items()]
    weights = (
        sizes.astype(float) if allocation == "uniform" else np.array([n * sum(k) / np.prod(k) for n, k in zip(sizes, kernels, strict=True)])
    )
    counts = largest_remainder(_scaled_to(keep, weights, caps), keep, caps, floors)
    return dict(zip(shapes, counts.tolist(), strict=True))
