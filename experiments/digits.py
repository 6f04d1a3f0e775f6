"""scikit-learn's digits, and the two networks that experiments train on them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxprune as jp
from jaxprune.networks import MLP, apply, kernel_initializer
from jaxprune.optional import require

CLASSES = 10
HELD_OUT = 597


@dataclasses.dataclass(frozen=True)
class Digits:
    """Rows {"images": float32 [n, 8, 8, 1], "labels": int32 [n]}: those to train and prune on, and those held out."""

    train: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]


def load_digits() -> Digits:
    """1,200 images to train on and 597 held out, the same for every seed; pixels standardised together by the former.

    Raises:
      ImportError: scikit-learn is not installed.
    """
    images, labels = require("sklearn.datasets", extra="experiments").load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order].reshape(-1, 8, 8, 1), labels[order].astype(np.int32)
    seen = images[HELD_OUT:]
    images = ((images - seen.mean()) / seen.std()).astype(np.float32)
    parts = [{"images": images[part], "labels": labels[part]} for part in (slice(HELD_OUT, None), slice(HELD_OUT))]
    return Digits(*parts)


def cross_entropy(logits: jax.Array, rows: Any, context: Any) -> jax.Array:
    """[B, 10] -> [B]."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, rows["labels"])


def wrong(logits: jax.Array, rows: Any) -> jax.Array:
    """1.0 where the likeliest digit is not the label, else 0.0: [B]."""
    return (jnp.argmax(logits, axis=-1) != rows["labels"]).astype(jnp.float32)


PERCEPTRON = MLP((300, 100, CLASSES), activation=jnp.tanh)


def _perceptron_logits(params: Any, rows: Any, context: Any) -> jax.Array:
    images = rows["images"]
    return apply(PERCEPTRON, params, images.reshape(len(images), -1))


# 64-300-100-10 with tanh: 50,200 weights.
PERCEPTRON_OBJECTIVE = jp.Objective(_perceptron_logits, cross_entropy)


def perceptron(key: jax.Array) -> Any:
    """Fresh parameters of the perceptron."""
    return PERCEPTRON.parameters(key, 64)


def convolve(images: jax.Array, kernel: jax.Array, strides: Sequence[int], padding: Any, **rest: Any) -> jax.Array:
    """`lax.conv_general_dilated` for what `ConvolutionalNetwork` asks of it, [B, H, W, in] with [h, w, in, out].

    On a CPU as one product over shifted copies: inside a loop, XLA's own convolution takes twenty times as long there.
    """
    if jax.default_backend() != "cpu" or padding != "SAME":
        return jax.lax.conv_general_dilated(images, kernel, strides, padding, **rest)
    sizes = [-(-length // stride) for length, stride in zip(images.shape[1:3], strides, strict=True)]
    spans = [(size - 1) * stride + 1 for size, stride in zip(sizes, strides, strict=True)]
    missing = [span + k - 1 - length for span, k, length in zip(spans, kernel.shape, images.shape[1:3], strict=False)]
    padded = jnp.pad(images, ((0, 0), *((max(n, 0) // 2, max(n, 0) - max(n, 0) // 2) for n in missing), (0, 0)))
    shifts = itertools.product(range(kernel.shape[0]), range(kernel.shape[1]))
    copies = [padded[:, i : i + spans[0] : strides[0], j : j + spans[1] : strides[1]] for i, j in shifts]
    return jnp.concatenate(copies, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])


class ConvolutionalNetwork(nn.Module):
    """Three 3 × 3 convolutions, the last two of stride 2, and two dense layers behind the flattened 2 × 2 image that they leave.

    Attributes:
      channels: of the convolutions.
      width: of the dense hidden layer.
    """

    channels: tuple[int, int, int] = (16, 32, 64)
    width: int = 64

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """[B, 8, 8, 1] -> logits [B, 10]."""
        init = kernel_initializer("uniform")
        x = images
        for index, channels in enumerate(self.channels):
            how = {"strides": 2 if index else 1, "kernel_init": init, "conv_general_dilated": convolve}
            x = nn.relu(nn.Conv(channels, (3, 3), name=f"Conv_{index}", **how)(x))
        x = nn.relu(nn.Dense(self.width, kernel_init=init, name="Dense_0")(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES, kernel_init=init, name="Dense_1")(x)

    @nn.nowrap
    def parameters(self, key: jax.Array) -> Any:
        """Fresh parameters."""
        return self.init(key, jnp.zeros((1, 8, 8, 1)))["params"]

    @nn.nowrap
    def groups(self) -> tuple[jp.UnitGroup, ...]:
        """Channels and hidden units, each with what makes it and what reads it.

        The flattened image holds channel j of the last convolution at j, C + j, 2C + j and 3C + j.
        """
        last, found = len(self.channels) - 1, []
        for index, channels in enumerate(self.channels):
            readers = tuple(("Dense_0/kernel", 0, place * channels) for place in range(4))
            if index < last:
                readers = ((f"Conv_{index + 1}/kernel", 2, 0),)
            made = ((f"Conv_{index}/kernel", 3), (f"Conv_{index}/bias", 0))
            found.append(jp.UnitGroup(f"Conv_{index}", channels, nn.relu, made, readers))
        made = (("Dense_0/kernel", 1), ("Dense_0/bias", 0))
        return (*found, jp.UnitGroup("Dense_0", self.width, nn.relu, made, (("Dense_1/kernel", 0, 0),)))

    @nn.nowrap
    def with_widths(self, widths: dict[str, int]) -> ConvolutionalNetwork:
        """The same network with {group: channels or units}."""
        first, second, third = (widths[f"Conv_{index}"] for index in range(3))
        return ConvolutionalNetwork((first, second, third), widths["Dense_0"])


def convolutional_objective(network: ConvolutionalNetwork) -> jp.Objective:
    """Mean cross-entropy; one object for each network, so that equal ones share a compilation."""
    return _convolutional_objective(network.channels, network.width)


@functools.cache
def _convolutional_objective(channels: tuple[int, int, int], width: int) -> jp.Objective:
    network = ConvolutionalNetwork(channels, width)
    return jp.Objective(lambda params, rows, context: network.apply({"params": params}, rows["images"]), cross_entropy)
