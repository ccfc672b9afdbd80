"""Why vLLM would not start before it has counted a block: one function a rule, each returning its reason or None.

Source: the checks of the engine's configuration and of its layer classes (release 0.33), seen in
tests/golden/vllm_0.33_tp_refused.jsonl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.deepseek_v4 import RATIOS
from kvplan.engine.vllm.layout import Refused
from kvplan.engine.vllm.releases import Release, registry
from kvplan.engine.vllm.settings import Device, Settings, longest_length
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import (
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    GatedDeltaNet,
    KimiDelta,
    Latent,
    Lightning,
    Mamba1,
    Mamba2,
    Mixer,
    ModelSpec,
    ShortConv,
    State,
    Window,
)
from kvplan.model.weights.expert_widths import expert_widths
from kvplan.model.weights.inventory import scheme_for
from kvplan.model.weights.placement import Ranks
from kvplan.model.weights.shares import Cut, first_cut
from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """What the rules look at."""

    model: ModelSpec
    args: EngineArgs
    settings: Settings
    release: Release
    device: Device

    @property
    def tp(self) -> int:
        """The tensor-parallel size."""
        return self.args.tensor_parallel_size


Rule: TypeAlias = Callable[[Asked], Refused | None]


def refusals(asked: Asked) -> Iterator[Refused]:
    """Yield every reason for which the engine would not start, in the order of its own checks."""
    for rule in _RULES:
        found = rule(asked)
        if found is not None:
            yield found


def served_as(architecture: str) -> str | None:
    """Return how 0.33 serves an architecture: `registry`, `generic` (Transformers backend), or None."""
    served: dict[str, str] = registry()["served"]
    if architecture in served:
        return served[architecture]
    # the engine turns a pooling head's name into the generating model's before it gives up
    for suffix in ("ForSequenceClassification", "ForTokenClassification", "ForRewardModel", "RewardModel", "Model"):
        stem = architecture.removesuffix(suffix)
        if stem != architecture and {f"{stem}ForCausalLM", f"{stem}ForConditionalGeneration"} & served.keys():
            return "registry"
    return None


def _architecture(asked: Asked) -> Refused | None:
    name, names = asked.model.architecture, registry()
    first = next((release for release, new in names["since"].items() if name in new), None)
    last = names["removed"].get(name)
    if first is not None and asked.release.is_before(first):
        return Refused(
            "architecture_unsupported",
            f"vLLM {asked.release.version} does not serve {name}: {first} is the first that does",
            f"vLLM {first} or later",
        )
    if served_as(name) is not None or (last is not None and not asked.release.is_after(last)):
        return None
    if last is not None:
        return Refused("architecture_removed", f"vLLM served {name} up to {last} and dropped it", f"vLLM {last}")
    if name in names["plugin"]:
        return Refused("architecture_plugin", f"vLLM serves {name} only with a plugin installed beside it")
    return Refused("architecture_unsupported", f"vLLM {asked.release.version} does not serve {name}")


def _quantization(asked: Asked) -> Refused | None:
    section = asked.model.quantization
    method = asked.args.quantization or (section.method if section is not None else None)
    if method == "auto-round" and not asked.args.quantization and "inc" in asked.release.quantization_methods:
        method = "inc"  # which is what the engine has called it since 0.15
    if not method or method in asked.release.quantization_methods:
        if section is not None and method in ("gptq", "auto_gptq") and section.bits not in (None, 4, 8):
            return Refused("quantization_unsupported", f"vLLM has no GPTQ kernel for {section.bits}-bit weights")
        return None
    return Refused(
        "quantization_unsupported",
        f"vLLM {asked.release.version} does not know the quantization method {method[:40]!r}",
    )


def _activation_order(asked: Asked) -> Refused | None:
    """Groups in the order of the activations; 0.33 refuses them, older releases are not known to."""
    quantization = asked.model.quantization
    if quantization is None or asked.release.is_before("0.33"):
        return None
    section = Fields(quantization.section, where="quantization_config")
    wants = {"gptq": _gptq_orders, "compressed-tensors": _compressed_orders}.get(quantization.method)
    if wants is None or not wants(section):
        return None
    return Refused(
        "quantization_unsupported",
        f"vLLM {asked.release.version} no longer runs groups in the order of the activations (desc_act, actorder)",
        "a checkpoint with a static order, or none",
    )


def _gptq_orders(section: Fields) -> bool:
    base, group = bool(section.raw("desc_act")), section.raw("group_size")
    rules = section.raw("dynamic")
    own = [
        (change.get("desc_act", base), change.get("group_size", group))
        for name, change in (rules.items() if isinstance(rules, dict) else ())
        if isinstance(change, dict) and not name.startswith("-:")
    ]
    return any(order and size != -1 for order, size in ((base, group), *own))


def _compressed_orders(section: Fields) -> bool:
    groups = section.maybe_section("config_groups")
    for name in groups.names() if groups is not None else []:
        group = groups.maybe_section(name) if groups is not None else None
        weights = group.maybe_section("weights") if group is not None else None
        if weights is not None and weights.raw("actorder") in (True, "group", "dynamic"):
            return True
    return False


def _slices(asked: Asked) -> Refused | None:
    """A process sees one slice, and NCCL spans none."""
    if not asked.device.mig or asked.tp * asked.args.pipeline_parallel_size == 1:
        return None
    return Refused(
        "slices_not_joined",
        "no collective spans the slices of a card: each holds a whole model, or none",
        "one slice a model (--data-parallel-size counts copies), or whole cards",
    )


def _dtype(asked: Asked) -> Refused | None:
    """What is asked for is checked when the worker starts; `auto` takes float16 there by itself."""
    if asked.settings.dtype != "bfloat16" or asked.device.amd or asked.device.capability >= (8, 0):
        return None
    major, minor = asked.device.capability
    return Refused(
        "dtype_unsupported",
        f"bfloat16 needs compute capability 8.0, and {asked.device.name or 'the card'} has {major}.{minor}",
        "--dtype float16",
    )


def _rope_scaling(asked: Asked) -> Refused | None:
    if asked.args.rope_scaling is None or asked.release.rope_scaling_flag:
        return None
    told = f"vLLM {asked.release.version} has no --rope-scaling: 0.11.0 was the last that did"
    return Refused("flag_dropped", told, "--hf-overrides '{\"rope_scaling\": {…}}'")


def _length(asked: Asked) -> Refused | None:
    length, wanted = asked.model.length, asked.args.max_model_len
    if wanted == "auto" and not asked.release.auto_length:
        told = f"vLLM {asked.release.version} cannot size --max-model-len by itself"
        return Refused("auto_length_unsupported", told, "give a number")
    if asked.args.allow_long_max_model_len or not isinstance(wanted, int):
        return None
    if length.limit is None and length.tokenizer is None:
        return None
    limit = longest_length(length, asked.release)
    if wanted <= limit or (length.model_max_length is not None and wanted <= length.model_max_length):
        return None
    return Refused(
        "max_model_len_too_long",
        f"--max-model-len {wanted} is above the model's {length.key or 'tokenizer length'} of {int(limit)}",
        f"--max-model-len {int(limit)}; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lifts the check at the price of wrong output",
    )


def _batch(asked: Asked) -> Refused | None:
    tokens, sequences = asked.settings.max_num_batched_tokens, asked.settings.max_num_seqs
    if tokens >= sequences:
        return None
    return Refused(
        "batch_below_sequences",
        f"a batch of {tokens} tokens has no room for --max-num-seqs {sequences}",
        f"--max-num-batched-tokens {sequences} or more",
    )


def _kv_dtype(asked: Asked) -> Refused | None:
    name, known = asked.args.kv_cache_dtype, asked.release.kv_cache_dtypes
    if name not in known:
        return Refused("kv_cache_dtype_unknown", f"--kv-cache-dtype {name!r} is unknown", f"one of {', '.join(known)}")
    if name in ("bfloat16", "float16") and name != asked.settings.dtype:
        return Refused(
            "kv_cache_dtype_unsupported",
            f"--kv-cache-dtype {name} does not match the model's dtype {asked.settings.dtype}",
        )
    compressed = any(isinstance(cache, CompressedLatent) for cache in asked.model.shape.distinct())
    if compressed and asked.settings.kv_dtype != "fp8_ds_mla":
        return Refused(
            "kv_cache_dtype_unsupported", f"DeepSeek-V4 keeps its cache in fp8 only, not {asked.settings.kv_dtype}"
        )
    return None


def _scaled_cache(asked: Asked) -> Refused | None:
    """A checkpoint with scales for an fp8 cache takes e4m3 only; the engine has refused e5m2 there in all releases."""
    model, quantization = asked.model, asked.model.quantization
    if quantization is None or asked.settings.kv_dtype != "fp8_e5m2":
        return None
    scheme = scheme_for(model, asked.args.quantization, asked.device.capability)
    undeclared = quantization.method == "compressed-tensors" and quantization.kv_dtype is None
    attends = any(isinstance(cache, Full | Window | Chunked) for cache in model.shape.distinct())
    if not scheme.scales or undeclared or not (attends or scheme.latent):
        return None
    return Refused(
        "kv_cache_dtype_unsupported",
        f"--kv-cache-dtype fp8_e5m2 is not run with a checkpoint quantised by {quantization.method}",
        "--kv-cache-dtype fp8, or auto",
    )


def _query_heads(asked: Asked) -> Refused | None:
    heads = asked.model.shape.heads
    if heads % asked.tp == 0:
        return None
    return Refused(
        "heads_not_divisible",
        f"{heads} attention heads do not divide by tensor parallel size {asked.tp}",
        f"a size that divides {heads}: {divisors(heads)}",
    )


def _kv_heads(asked: Asked) -> Refused | None:
    tp = asked.tp
    for cache in asked.model.shape.distinct():
        if not isinstance(cache, Full | Window | Chunked | Cross):
            continue
        heads = cache.kv_heads
        if heads < tp and asked.model.architecture == "GptOssForCausalLM":
            return Refused("kv_heads_not_divisible", f"gpt-oss does not copy KV heads: {heads} for {tp} ranks")
        small, large = sorted((heads, tp))
        if large % small:
            return Refused(
                "kv_heads_not_divisible",
                f"{heads} KV heads and tensor parallel size {tp}: neither divides the other",
                f"a size that divides {heads}: {divisors(heads)}",
            )
    return None


def _rejected(asked: Asked) -> Refused | None:
    what = asked.model.shape.rejected
    return Refused("config_rejected", f"vLLM's {asked.model.architecture} does not build {what}") if what else None


def _states(asked: Asked) -> Refused | None:
    for cache in asked.model.shape.distinct():
        if isinstance(cache, State):
            mixer = cache.mixer
            if isinstance(mixer, Mamba2) and mixer.heads * mixer.head_dim != mixer.inner:
                message = f"{mixer.heads} Mamba heads of {mixer.head_dim} are not {mixer.inner} channels"
                return Refused("config_rejected", f"{message}: the config's own class refuses that")
            what = _unsplit(mixer, asked.tp)
            if what is not None:
                return Refused("state_not_divisible", f"{what} by tensor parallel size {asked.tp}")
    return None


def _unsplit(mixer: Mixer, tp: int) -> str | None:
    """Return what of a mixer does not divide over the ranks."""
    match mixer:
        case Mamba1():
            sizes = {"Mamba channels": mixer.inner}
        case Mamba2():
            if mixer.groups % tp and mixer.groups != 1:
                return f"{mixer.groups} Mamba groups do not divide"
            sizes = {"Mamba heads": mixer.heads, "Mamba channels": mixer.inner}
        case GatedDeltaNet():
            sizes = {"linear key heads": mixer.k_heads, "linear value heads": mixer.v_heads}
        case KimiDelta():
            sizes = {"linear attention heads": mixer.heads, "linear key heads": mixer.k_heads}
        case Lightning():
            sizes = {"linear attention heads": mixer.heads}
        case ShortConv():
            sizes = {"convolution channels": mixer.dim}
        case _:
            return None
    return next((f"{size} {name} do not divide" for name, size in sizes.items() if size % tp), None)


def _vision(asked: Asked) -> Refused | None:
    heads = asked.model.vision_heads
    if heads is None or heads % asked.tp == 0:
        return None
    return Refused(
        "vision_heads_not_divisible",
        f"{heads} heads of the vision tower do not divide by tensor parallel size {asked.tp}",
    )


def _weight_blocks(asked: Asked) -> Refused | None:
    """Blockwise weights are cut along whole blocks: the dense MLP is where that fails first."""
    model, section = asked.model, asked.model.quantization
    width = model.intermediate_size
    if section is None or width is None or asked.tp == 1 or model.num_experts:
        return None
    part, rest = divmod(width, asked.tp)
    group = section.group if section.method in ("awq", "auto_awq") else None
    block = section.block[0] if section.block is not None else group
    if rest or (block is not None and part % block):
        return Refused(
            "quantization_block_not_divisible",
            f"an MLP width of {width} over {asked.tp} ranks cuts through the weight blocks of {block}",
            "a smaller --tensor-parallel-size",
        )
    return None


def _weight_shares(asked: Asked) -> Refused | None:
    """Quantised matrices are cut between groups and blocks of one scale: the first whose share is not whole."""
    found = _first_cut(asked, asked.tp)
    if found is None:
        return None
    fitting = [str(size) for size in range(1, asked.tp) if asked.tp % size == 0 and _first_cut(asked, size) is None]
    whole = "--enable-expert-parallel, which keeps experts whole, or " if found.expert else ""
    return Refused(
        "quantization_block_not_divisible",
        f"{found.name.replace('.{}', '')} over {asked.tp} ranks: {found.size} of it each, which cuts through the"
        f" quantization's groups or blocks of {found.unit}",
        f"{whole}a smaller --tensor-parallel-size" + (f": {', '.join(fitting)}" if fitting else ""),
    )


def _first_cut(asked: Asked, tp: int) -> Cut | None:
    return first_cut(
        asked.model,
        Ranks(tp, asked.args.data_parallel_size, asked.args.enable_expert_parallel),
        asked=asked.args.quantization,
        capability=asked.device.capability,
        group_experts=not asked.release.is_before("0.33"),  # older ones are not known to check it
    )


def _experts(asked: Asked) -> Refused | None:
    """Without expert parallelism every rank of TP x DP takes a slice of every expert, which must come out whole.

    Checked where the mixture is built, before any quantisation pads its share; the wheels of 0.17, 0.23 and 0.33 have
    the check, and older ones are taken to. Kimi-K3 widens narrow experts first; MiniCPM's own class does not check.
    """
    data = asked.args.data_parallel_size
    ranks = asked.tp * data
    if ranks == 1 or asked.args.enable_expert_parallel or asked.model.architecture in _EXPERTS_UNCHECKED:
        return None
    width = next((width for width in expert_widths(asked.model) if width % ranks), None)
    if width is None:
        return None
    by = f"tensor parallel size {asked.tp}"
    if data > 1:
        by += f" x data parallel size {data}"
    return Refused(
        "experts_not_divisible",
        f"experts of width {width} do not divide by {by}, over which they are cut",
        f"--enable-expert-parallel, which keeps experts whole, or a number of ranks that divides {width}:"
        f" {divisors(width)}",
    )


_EXPERTS_UNCHECKED = frozenset({"KimiK3ForConditionalGeneration", "MiniCPMForCausalLM"})


def _dense(asked: Asked) -> Refused | None:
    """Expert parallelism wants a count of experts in one of four fields; every release checks it."""
    if not asked.args.enable_expert_parallel or asked.model.num_experts:
        return None
    text = text_section(Fields(asked.model.config))
    if text.has("block_configs") or any("expert" in name and text.raw(name) for name in text.names()):
        return None  # a field that the config's class may read as one of the four
    return Refused(
        "expert_parallel_unsupported",
        f"--enable-expert-parallel with {asked.model.architecture}, which has no experts",
        "leave --enable-expert-parallel out",
    )


def _pipeline(asked: Asked) -> Refused | None:
    stages, layers = asked.args.pipeline_parallel_size, len(asked.model.shape.layers)
    if stages > layers:
        return Refused("too_many_stages", f"{layers} layers do not fill {stages} pipeline stages")
    names, name = registry(), asked.model.architecture
    listed = names["served"].get(name) == "registry"
    if stages > 1 and (name in names["no_pipeline"] if listed else asked.model.shape.kind != "decoder"):
        return Refused("pipeline_unsupported", f"vLLM has no pipeline parallelism for {name}")
    return None


def _context_parallel(asked: Asked) -> Refused | None:
    dcp, tp, shape = asked.args.decode_context_parallel_size, asked.tp, asked.model.shape
    if dcp == 1:
        return None
    if tp % dcp:
        return Refused("context_parallel_unsupported", f"tensor parallel size {tp} does not divide by {dcp}")
    caches = list(shape.distinct())
    if any(isinstance(cache, Window | Chunked | CompressedLatent) for cache in caches):
        return Refused("context_parallel_unsupported", "sliding windows and chunks are not spread over ranks by vLLM")
    if any(isinstance(cache, Latent) for cache in caches):
        return None
    if tp <= shape.kv_heads or dcp > tp // max(1, shape.kv_heads) or (shape.heads // max(1, shape.kv_heads)) % dcp:
        return Refused(
            "context_parallel_unsupported",
            f"--decode-context-parallel-size {dcp} needs more than {shape.kv_heads} tensor-parallel ranks,"
            f" at most {tp} / {shape.kv_heads} of them, and query heads per KV head that divide by it",
        )
    return None


def _compressed(asked: Asked) -> Refused | None:
    for cache in asked.model.shape.distinct():
        if isinstance(cache, CompressedLatent) and (
            cache.ratio not in RATIOS or (cache.head_dim, cache.rope_dim) != (512, 64)
        ):
            return Refused(
                "geometry_unsupported", "vLLM's DeepSeek-V4 kernels take heads of 512 and ratios of 4 and 128"
            )
    return None


def divisors(number: int, limit: int = 64) -> str:
    """Return the tensor-parallel sizes up to `limit` that divide a number of heads, as text."""
    return ", ".join(str(size) for size in range(1, min(number, limit) + 1) if number % size == 0)


_RULES: tuple[Rule, ...] = (
    _architecture,
    _quantization,
    _activation_order,
    _slices,
    _dtype,
    _kv_dtype,
    _scaled_cache,
    _rope_scaling,
    _length,
    _batch,
    _query_heads,
    _kv_heads,
    _rejected,
    _states,
    _vision,
    _weight_blocks,
    _dense,
    _experts,
    _weight_shares,
    _pipeline,
    _context_parallel,
    _compressed,
)
