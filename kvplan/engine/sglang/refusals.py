"""What SGLang refuses before it sizes anything: lengths, dtypes, backends, quantisation, ranks.

Source: SGLang 0.5.23, configs/model_config.py, arg_groups/kv_cache_hook.py and mamba_hook.py.
"""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.dtypes import context_length
from kvplan.engine.sglang.served import Served
from kvplan.engine.sglang.settings import Settings
from kvplan.model.spec import Full, ModelSpec
from kvplan.planner import Note

_KV_DTYPES = ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16")
_NEAR_KV_DTYPES = {"fp8": "fp8_e4m3", "fp4": "nvfp4"}
_FP4_BACKENDS = ("triton", "torch_native", "flex_attention", "trtllm_mha")
_MARLIN_BITS = {(4, True), (8, True)}


def refusals(model: ModelSpec, served: Served, args: EngineArgs, settings: Settings, device: Device) -> list[Note]:
    """Return the reasons why the engine would not start, the first that it would say first."""
    found = [
        _length(model, args),
        _quantization(model, device),
        _encoder(served, args),
        _kv_dtype(served, args, settings, device),
        _states(served, args),
        _varying(model),
        _ranks(model, served, args, settings),
    ]
    return [note for note in found if note is not None]


def _length(model: ModelSpec, args: EngineArgs) -> Note | None:
    derived = context_length(model)
    asked = args.max_model_len
    if not isinstance(asked, int) or asked <= derived:
        return None
    return Note(
        "context_length_exceeds_model",
        f"--context-length {asked} is more than the {derived} that the config gives",
        f"--context-length {derived}; SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 lifts the check",
    )


def _quantization(model: ModelSpec, device: Device) -> Note | None:
    found = model.quantization
    if found is None:
        return None
    method = found.method
    if method == "gptq" and (found.bits, bool(found.section.get("sym", False))) not in _MARLIN_BITS:
        return Note(
            "quantization_unsupported",
            f"SGLang keeps no kernel for GPTQ of {found.bits} bits: only what converts to Marlin loads",
            "a checkpoint of 4 or 8 bits with symmetric scales",
        )
    if method == "fbgemm_fp8" or (method == "mxfp4" and device.rocm and device.memory_mib < _GFX95_MIB):
        return Note("quantization_unsupported", f"SGLang does not know the quantization method {method} on this card")
    return None


_GFX95_MIB = 250_000  # MXFP4 needs gfx950: MI350 and MI355X, which have 288 GB; an MI325X has 256


def _encoder(served: Served, args: EngineArgs) -> Note | None:
    for asked, name in (
        (args.sglang.language_only, "language_only"),
        (args.sglang.language_model_only, "language_model_only"),
    ):
        if asked and not served.on(name):
            return Note(
                "language_only_unsupported",
                f"--{name.replace('_', '-')} is not supported for {served.architecture}",
                "leave it out",
            )
    return None


def _kv_dtype(served: Served, args: EngineArgs, settings: Settings, device: Device) -> Note | None:
    asked = args.kv_cache_dtype
    if asked not in _KV_DTYPES:
        near = _NEAR_KV_DTYPES.get(asked)
        return Note(
            "kv_cache_dtype_unsupported",
            f"SGLang has no --kv-cache-dtype {asked}",
            f"SGLang calls it {near}" if near else f"one of {', '.join(_KV_DTYPES)}",
        )
    if asked == "mxfp8" and device.sm < 10:
        return Note("kv_cache_dtype_unsupported", "--kv-cache-dtype mxfp8 needs a Blackwell card", "fp8_e4m3")
    if asked == "nvfp4" and device.sm not in (10, 12):
        return Note("kv_cache_dtype_unsupported", "--kv-cache-dtype nvfp4 needs SM100 or SM120", "fp8_e4m3")
    fp4 = asked in ("nvfp4", "fp4_mx_block16")
    if fp4 and served.attention == "grouped" and settings.backend.name not in _FP4_BACKENDS:
        return Note(
            "kv_cache_dtype_unsupported",
            f"--kv-cache-dtype {asked} is not read by the backend {settings.backend.name}",
            f"--attention-backend one of {', '.join(_FP4_BACKENDS)}",
        )
    narrow = ("auto", "bf16", "bfloat16", "fp8_e4m3")
    if (served.sparse or served.attention == "compressed") and asked not in narrow:
        return Note(
            "kv_cache_dtype_unsupported",
            f"sparse attention does not read --kv-cache-dtype {asked}",
            "bfloat16 or fp8_e4m3",
        )
    return None


def _states(served: Served, args: EngineArgs) -> Note | None:
    asked = args.sglang.mamba_radix_cache_strategy
    if asked == "auto" or not served.states or args.enable_prefix_caching is False:
        return None
    if asked == "no_buffer" and args.async_scheduling is not False:
        return Note(
            "states_need_a_buffer",
            "--mamba-radix-cache-strategy no_buffer does not go with overlapped steps",
            "--disable-overlap-schedule, or leave the strategy to the engine",
        )
    if asked.startswith("extra_buffer") and not served.on("extra_buffer"):
        return Note("states_unbuffered", f"{asked} is not supported for {served.architecture}", "no_buffer")
    return None


def _varying(model: ModelSpec) -> Note | None:
    """Refuse a Nemotron-NAS model whose layers differ in KV heads; others that differ are charged by their first."""
    heads = {cache.kv_heads for cache in model.shape.caches() if isinstance(cache, Full)}
    if model.architecture != "DeciLMForCausalLM" or len(heads) < 2:
        return None
    return Note("kv_heads_vary", "SGLang does not serve a Nemotron-NAS model whose layers differ in KV heads")


def _ranks(model: ModelSpec, served: Served, args: EngineArgs, settings: Settings) -> Note | None:
    groups = args.sglang.attn_dp_size
    if args.tensor_parallel_size % groups:
        return Note(
            "attention_dp_not_divisible",
            f"{args.tensor_parallel_size} GPUs of TP do not divide into {groups} attention groups",
            "a --dp-size that divides --tp-size",
        )
    heads = model.shape.heads
    if heads and heads % settings.attention_tensor:
        return Note(
            "heads_not_divisible",
            f"{heads} attention heads do not divide by {settings.attention_tensor}",
            "a --tp-size that divides them",
        )
    shared, ranks = served.heads.kv_heads, settings.attention_tensor
    if served.attention == "grouped" and shared and max(shared, ranks) % min(shared, ranks):
        return Note(
            "kv_heads_not_divisible",
            f"{shared} KV heads are neither divided nor repeated evenly over {ranks} GPUs",
            "a --tp-size that divides them, or that they divide",
        )
    return None
