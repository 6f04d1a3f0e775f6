"""How an algorithm acts, said as data: what an exported file computes without this package."""

from __future__ import annotations

import dataclasses
from typing import Literal

Head = Literal["tanh", "clip", "argmax"]


@dataclasses.dataclass(frozen=True)
class DeterministicPolicy:
    """head(perceptron(standardised observation)).

    Attributes:
      perceptron: path of its parameters, the network first: `policy`, or `vae/decoder`. Hidden activations are those of the unit groups.
      head: `tanh` and `clip` make unit actions of the first A outputs, `argmax` the index of the largest of A outputs.
    """

    perceptron: str
    head: Head = "tanh"


@dataclasses.dataclass(frozen=True)
class LikelyPolicy:
    """The discrete action of the largest value among those that an imitation finds likely enough (discrete BCQ).

    Attributes:
      values: path of the perceptron observation -> values of A actions.
      imitation: path of the perceptron observation -> logits of A actions.
      threshold: an action is likely enough where its probability is above this fraction of the largest.
    """

    values: str
    imitation: str
    threshold: float


@dataclasses.dataclass(frozen=True)
class CandidatePolicy:
    """The best, by the first critic, of actions decoded from latents and perturbed by the actor (BCQ).

    Attributes:
      decoder: path of the perceptron (observation, latent) -> action before tanh.
      actor: path of the perceptron (observation, action) -> perturbation before tanh.
      critic: path of the perceptron (observation, action) -> value; of a stack, the first member.
      latent_size: L.
      latent_clip: bound of a latent's features.
      phi: bound of the perturbation, in unit actions.
      candidates: actions to choose from.
    """

    decoder: str
    actor: str
    critic: str
    latent_size: int
    latent_clip: float
    phi: float
    candidates: int


Deployment = DeterministicPolicy | LikelyPolicy | CandidatePolicy
