"""What vLLM makes of the flags on this card: lengths, batch sizes, dtypes and modes, each default with its rule.

Source: the engine's argument defaults by release, which depend on the card's memory and name, on server or offline use
and on the model.
"""

from __future__ import annotations

from typing import Literal

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.backends import Card
from kvplan.engine.vllm.releases import Release
from kvplan.hardware import Gpu
from kvplan.model.spec import Chunked, CompressedLatent, Indexer, Latent, Length, ModelSpec, State
from kvplan.record import dataclass
from kvplan.units import GIB

_ITEM = {"bfloat16": 2, "float16": 2, "float32": 4}
_POOLING = (
    "ForSequenceClassification", "ForTokenClassification", "RewardModel", "ForProcessRewardModel", "ForRanking",
    "ForRetrieval", "EmbeddingModel", "EmbedModel", "Model",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """The card as the engine sees it; without a card, a Hopper one of 80 GiB stands in.

    On AMD, whose architecture `amd` names (empty elsewhere), all but the attention backends is modelled as Hopper's,
    and `assumed` says so. `multiprocessors` and `l2_mib` are None where the catalogue does not know them.
    `mig`: it is a slice of a card.
    """

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    assumed: bool
    multiprocessors: int | None = None
    l2_mib: float | None = None
    unified_memory: bool = False
    amd: str = ""
    mig: bool = False

    @classmethod
    def of(cls, gpu: Gpu | None) -> Device:
        """Return the device of a profile."""
        if gpu is None:
            return cls("", (9, 0), 80 * GIB, assumed=True)
        return cls(
            gpu.driver_name,
            gpu.compute_capability or (9, 0),
            gpu.memory_bytes,
            gpu.compute_capability is None,
            gpu.sm_count,
            gpu.l2_mib,
            gpu.unified_memory,
            gpu.architecture if gpu.vendor == "amd" else "",
            gpu.vendor == "nvidia" and gpu.partition_of is not None,
        )

    def card(self, release: Release) -> Card:
        """Return what the attention backends of a release see of it."""
        return Card(
            (0, 0) if self.amd else self.capability,
            self.amd,
            release.version,
            release.flashinfer_from,
            release.triton_fp8,
            release.triton_mla_fp8,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's settings after its own defaults; `assumed` names those that no flag gave."""

    max_model_len: int
    auto_length: bool
    max_num_batched_tokens: int
    max_num_seqs: int
    async_scheduling: bool
    prefix_caching: bool
    hybrid_manager: bool
    gpu_memory_utilization: float
    dtype: str
    kv_dtype: str
    speculative_tokens: int
    assumed: tuple[str, ...]
    runner_v2: bool = True
    in_flight: Literal["one_batch", "concurrent_batches"] = "concurrent_batches"
    mla_block: int | None = None
    state_checkpoints: bool = True
    mla_state_alignment: int = 128

    @property
    def item_size(self) -> int:
        """Bytes of an element of the model's dtype."""
        return _ITEM[self.dtype]

    def in_flight_tokens(self, stages: int) -> int:
        """Tokens scheduled but not settled: a batch a pipeline stage, and one more under asynchronous scheduling.

        The first runner schedules a step ahead on one stage only; releases before 0.26 count one batch in any case.
        """
        if self.in_flight == "one_batch":
            return self.max_num_batched_tokens
        ahead = self.async_scheduling and (self.runner_v2 or stages == 1)
        return (stages + ahead) * self.max_num_batched_tokens


def resolve(model: ModelSpec, args: EngineArgs, device: Device, release: Release) -> Settings:
    """Apply the engine's defaults. Refusals are decided elsewhere: this never raises for a value it can carry on."""
    tier = release.tier(device.name, device.memory_bytes, device.capability)
    pooling = is_pooling(model)
    attention_free = model.shape.heads == 0
    derived = derived_length(model.length, release)
    length = args.max_model_len if isinstance(args.max_model_len, int) else derived
    batched = args.max_num_batched_tokens or tier.batched_tokens[args.usage]
    sequences = args.max_num_seqs or tier.max_num_seqs
    if args.max_num_batched_tokens is None:
        batched = min(batched, sequences * length)
    if args.max_num_seqs is None:
        sequences = min(sequences, batched)
    return Settings(
        max_model_len=length,
        auto_length=args.max_model_len == "auto",
        max_num_batched_tokens=batched,
        max_num_seqs=sequences,
        async_scheduling=(
            release.async_scheduling and not pooling if args.async_scheduling is None else args.async_scheduling
        ),
        prefix_caching=(
            _prefix_caching(model, release, attention_free=attention_free)
            if args.enable_prefix_caching is None
            else args.enable_prefix_caching
        ),
        hybrid_manager=_hybrid_manager(model, args, release),
        gpu_memory_utilization=args.gpu_memory_utilization or release.gpu_memory_utilization,
        dtype=_dtype(model, args, device, pooling=pooling),
        kv_dtype=resolve_kv_dtype(model, args.kv_cache_dtype, device),
        speculative_tokens=args.speculative_tokens,
        assumed=tuple(name for name in _DEFAULTED if getattr(args, name) is None),
        runner_v2=runs_v2(model, args, release),
        in_flight=release.in_flight,
        state_checkpoints=release.state_checkpoints,
        mla_state_alignment=release.mla_state_alignment,
        mla_block=_mla_block(model, device, release),
    )


_DEFAULTED = (
    "gpu_memory_utilization", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "async_scheduling",
    "enable_prefix_caching",
)  # fmt: skip


def is_pooling(model: ModelSpec) -> bool:
    """Say whether the engine serves this architecture for embeddings, rewards or classes rather than text."""
    return model.shape.kind == "encoder" or model.architecture.endswith(_POOLING)


def _prefix_caching(model: ModelSpec, release: Release, *, attention_free: bool) -> bool:
    """On for generating decoders and hybrids; off for attention-free, encoder-decoder and hybrid pooling models."""
    if attention_free or model.shape.kind != "decoder":
        return False
    return not _hybrid(model) or (release.hybrid_prefix_caching and not is_pooling(model))


# Drafts that read the model's hidden states; what is no method by name is the name of a draft model
_READS_HIDDEN = ("eagle", "mtp", "dflash", "dspark")


def _hybrid_manager(model: ModelSpec, args: EngineArgs, release: Release) -> bool:
    """Say whether windows and chunks are counted for what they hold."""
    if not release.hybrid_manager or args.disable_hybrid_kv_cache_manager:
        return False
    if not any(isinstance(cache, Chunked) for cache in model.shape.distinct()):
        return True
    section = args.speculative_config or {}
    drafting = str(section.get("method") or section.get("model") or "").lower()
    return release.chunked_hybrid and not any(name in drafting for name in _READS_HIDDEN)


def _hybrid(model: ModelSpec) -> bool:
    return any(isinstance(cache, State) for cache in model.shape.distinct())


def _mla_block(model: ModelSpec, device: Device, release: Release) -> int | None:
    """Return the block that a release forced for dense MLA on this CUDA card, None where the backend decides."""
    if device.amd or not _dense_latent(model):
        return None
    return release.mla_block.get(str(device.capability[0]))


def _dense_latent(model: ModelSpec) -> bool:
    caches = list(model.shape.distinct())
    return any(isinstance(c, Latent) for c in caches) and not any(isinstance(c, Indexer) for c in caches)


def runs_v2(model: ModelSpec, args: EngineArgs, release: Release) -> bool:
    """Say whether the release runs this model on the second model runner, unless told otherwise."""
    listed = model.architecture in release.runner_v2_listed
    quantised = model.quantization is not None or args.quantization is not None
    if release.runner_v2 == "none" or (is_pooling(model) and release.runner_v2 != "all"):
        return False
    match release.runner_v2:
        case "all":
            return True
        case "listed_unquantised":
            return listed and not quantised and not model.num_experts
        case "listed":
            return listed
        case "listed_or_dense":
            return listed or not (model.num_experts or _hybrid(model) or model.shape.heads == 0)


def _dtype(model: ModelSpec, args: EngineArgs, device: Device, *, pooling: bool) -> str:
    """`auto`: the checkpoint's dtype; float32 becomes bfloat16 (float16 for pooling models and before Ampere)."""
    if args.dtype != "auto":
        return args.dtype
    supported = ("bfloat16", "float16") if device.capability >= (8, 0) else ("float16",)
    preferred = "float16" if pooling else supported[0]
    wanted = preferred if model.dtype == "float32" else model.dtype
    return wanted if wanted in supported else preferred


def resolve_kv_dtype(model: ModelSpec, asked: str, device: Device) -> str:
    """Return the KV dtype after the checkpoint's own declaration and the architecture's rules; `auto`: the model's."""
    found = asked
    declared = model.quantization.kv_dtype if model.quantization is not None else None
    if asked == "auto" and declared is not None and model.quantization is not None:
        method = model.quantization.method
        if method.startswith("modelopt"):
            found = {"fp8": "fp8_e4m3"}.get(declared, declared)
        elif method == "compressed-tensors":
            found = "fp8"
    caches = list(model.shape.distinct())
    if any(isinstance(cache, CompressedLatent) for cache in caches):
        return "fp8_ds_mla" if found == "auto" or found.startswith("fp8") else found
    if any(isinstance(cache, Indexer) for cache in caches) and any(isinstance(cache, Latent) for cache in caches):
        if found == "bfloat16":
            return "auto"
        if found == "auto" and model.architecture == "GlmMoeDsaForCausalLM" and device.capability[0] == 10:
            return "fp8_e4m3"
    return found


# Rope types whose factor the config's length holds already, by every release; and YaRN, by those that leave it alone
_STRETCHED = frozenset({"su", "longrope", "llama3"})
_YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn"})


def derived_length(length: Length, release: Release) -> int:
    """Return the length that the engine derives without a flag; 2048 where the config says nothing.

    The longest that it accepts; longrope, which older configs call su, starts at its original length.
    """
    short = release.longrope_starts_short and (length.has_rope("longrope") or length.has_rope("su"))
    if short and length.original is not None:
        return length.original
    return max(1, int(longest_length(length, release)))


def longest_length(length: Length, release: Release) -> float:
    """Return the most that the engine accepts by the config, before its own override key.

    The smaller of the config's limit and the tokenizer's, stretched by a rope factor that is not yet part of it. Older
    releases count YaRN from the original length, and its variants as any other factor (`yarn_stretches`).
    """
    found = [float(value) for value in (length.limit, length.tokenizer) if value is not None]
    if not found:
        return 2048.0
    longest, factor = min(found), 1.0
    for rope in length.ropes:
        if rope.kind in _STRETCHED or (rope.kind in _YARN and not release.yarn_stretches):
            continue
        factor = rope.factor or factor
        if rope.kind == "yarn":
            longest = rope.original or longest
    return longest * factor
