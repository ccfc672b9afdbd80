"""Context length and dtypes as SGLang reads them from the config, the checkpoint and the card.

Source: SGLang 0.5.23, utils/hf_transformers/common.py, configs/model_config.py, mem_cache/kv_cache_dtype.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.releases import Release
from kvplan.engine.sglang.served import Served
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import ModelSpec

# In the engine's order; n_positions is what GPT-2's classes answer to max_position_embeddings
_LENGTHS = (
    "max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings", "n_positions",
)  # fmt: skip
# Their classes keep rope parameters by layer type, where the engine finds no factor (transformers 5.20.2)
_ROPE_BY_LAYER_TYPE = frozenset({
    "beam", "cohere_compass_text", "deepseek_v4", "diffusion_gemma_text", "embedding_gemma2_text", "gemma3",
    "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified_text", "laguna", "mellum",
    "mimo_v2_flash", "modernbert", "modernbert-decoder", "olmo3",
})  # fmt: skip


def context_length(model: ModelSpec) -> int:
    """Return the length that the engine derives: the first of its keys, times a rope factor that is not part of it."""
    text = text_section(Fields(model.config))
    rope = text.maybe_section("rope_parameters", "rope_scaling")
    factor = _factor(rope) if rope is not None and text.model_type not in _ROPE_BY_LAYER_TYPE else 1.0
    for key in _LENGTHS:
        length = text.maybe_integer(key, high=2**40)
        if length is not None:
            return int(factor * length)
    return 2048


# The config classes give these an original length, and with one the factor is part of the given length
_LONG_ROPES = ("llama3", "yarn", "longrope", "su")


def _factor(rope: Fields) -> float:
    if rope.has("original_max_position_embeddings") or rope.maybe_text("rope_type", "type") in _LONG_ROPES:
        return 1.0
    return rope.maybe_number("factor") or 1.0


def model_dtype(model: ModelSpec, args: EngineArgs, device: Device) -> str:
    """Return `auto` as the engine reads it: float32 checkpoints run in float16, Gemma's in bfloat16."""
    if args.dtype != "auto":
        return args.dtype
    if model.architecture.startswith("Llava") and model.architecture.endswith("ForCausalLM"):
        return "float16"
    if device.capability < (8, 0) and not device.rocm:
        return "float16"
    if model.dtype != "float32":
        return model.dtype
    return "bfloat16" if model.model_type.startswith("gemma") else "float16"


_ITEM = {"bfloat16": 2, "float16": 2, "float32": 4}


def kv_dtype(model: ModelSpec, served: Served, args: EngineArgs, device: Device, release: Release) -> tuple[str, float]:
    """Return the KV dtype and the bytes of an element; scales of 4-bit and mxfp8 caches are counted with the cell."""
    asked = args.kv_cache_dtype
    if asked == "auto":
        if served.sparse and served.on("deepseek_family"):
            asked = "fp8_e4m3" if device.sm >= 10 else "bfloat16"
        elif served.attention == "compressed" or (release.checkpoint_kv_dtype and _declares_fp8(model)):
            asked = "fp8_e4m3"
    if asked == "auto":
        return "auto", _ITEM[model_dtype(model, args, device)]
    return asked, {"bf16": 2, "bfloat16": 2}.get(asked, 1)


def _declares_fp8(model: ModelSpec) -> bool:
    """Say whether the checkpoint asks for FP8 keys and values in a form that the engine follows.

    ModelOpt's, in the side file too where layers are mixed and config.json does not say; of compressed-tensors only
    static symmetric scales of a whole tensor.
    """
    found = model.quantization
    if found is None:
        return False
    if found.method == "compressed-tensors":
        scheme = found.section.get("kv_cache_scheme")
        return isinstance(scheme, Mapping) and all(scheme.get(key) in wanted for key, wanted in _STATIC.items())
    mixed = found.section.get("quant_algo") == "MIXED_PRECISION"
    declared = found.kv_dtype or (found.side_kv_dtype if mixed else None)
    return declared == "fp8" and found.method.startswith(("modelopt", "mxfp8"))


_STATIC: Mapping[str, tuple[object, ...]] = {
    "type": ("float",), "num_bits": (8,), "strategy": ("tensor",), "symmetric": (True, None), "dynamic": (False, None),
}  # fmt: skip
