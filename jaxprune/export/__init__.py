"""Files to deploy: a policy as safetensors, ONNX, StableHLO or C99, each checked against the live agent when it is written."""

from jaxprune.export.c99 import to_c
from jaxprune.export.compiling import CompiledPolicy, load_c
from jaxprune.export.loaded import LoadedPolicy, load_policy
from jaxprune.export.onnx import to_onnx
from jaxprune.export.policy import ExportedPolicy, read_policy
from jaxprune.export.rollouts import evaluate_policy
from jaxprune.export.safetensors import to_safetensors
from jaxprune.export.stablehlo import to_stablehlo
from jaxprune.export.verification import Verification

__all__ = [
    "CompiledPolicy",
    "ExportedPolicy",
    "LoadedPolicy",
    "Verification",
    "evaluate_policy",
    "load_c",
    "load_policy",
    "read_policy",
    "to_c",
    "to_onnx",
    "to_safetensors",
    "to_stablehlo",
]
