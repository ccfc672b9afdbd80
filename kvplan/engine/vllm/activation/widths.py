"""How wide one token is inside a layer: what a rank's forward pass allocates is sums of these, times the tokens."""

from __future__ import annotations

from functools import lru_cache

from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import Cache, Chunked, Full, Latent, Mixer, ModelSpec, State, Window
from kvplan.record import dataclass
from kvplan.same import Same

# MLPs of one matrix up and one down; all others have a gate beside the first
_PLAIN = frozenset({
    "ArceeForCausalLM", "BloomForCausalLM", "DbrxForCausalLM", "FalconForCausalLM", "GPT2LMHeadModel",
    "GPTBigCodeForCausalLM", "GPTJForCausalLM", "GPTNeoXForCausalLM", "MPTForCausalLM", "NemotronForCausalLM",
    "NemotronHForCausalLM", "OPTForCausalLM", "PersimmonForCausalLM", "PhiForCausalLM", "RWForCausalLM",
    "Starcoder2ForCausalLM",
})  # fmt: skip
_PLAIN_FAMILIES = ("Bert", "DistilBert", "Roberta", "XLMRoberta", "Bart", "MBart", "Whisper", "T5")
# Of these, the ones that 0.33 runs by the Transformers library's own modules
_BY_TRANSFORMERS = frozenset({"ArceeForCausalLM", "GPTBigCodeForCausalLM", "GPTNeoXForCausalLM", "PhiForCausalLM"})
# Attention layers that normalise queries and keys, each into a tensor of its own
_NORMED = (
    "Qwen3", "Olmo2", "Olmo3", "OlmoeFor", "Gemma3", "Gemma4", "MiniMaxM", "Exaone4", "HunYuan", "Dots1", "Lfm2",
)  # fmt: skip
# Attention whose output is gated: the gate comes out of the query matrix
_GATED_OUTPUT = ("Qwen3Next", "Qwen3_5")
_PER_TOKEN = (
    "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk", "moe_k",
    "moe_top_k",
)  # fmt: skip
_COUNT = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_SHARED_WIDTH = ("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size")
_SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture layer on one rank: `per_token` experts of `width`, on `hidden` channels; `shared` is always on.

    `kept`: the kernel shares one workspace over all layers; gpt-oss's MXFP4 kernel does not.
    """

    per_token: int
    width: int
    hidden: int
    shared: int
    kept: bool


@dataclass(frozen=True, slots=True)
class Attention:
    """An attention layer on one rank, in elements a token; `normed` and `gated` as the tables above say."""

    query: int
    key: int
    value: int
    normed: bool
    gated: bool


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """An MLA layer on one rank: heads and dims, and the widths that come before the heads (on every rank alike)."""

    heads: int
    nope: int
    rope: int
    value: int
    rank: int
    query_rank: int


@dataclass(frozen=True, slots=True)
class Widths:
    """One rank's widths; `mlp` is the dense MLP's (0: none), of which `matrices` tensors are alive at once.

    Three are where there is a gate: gate and up, which come out of one matrix, and their product.
    """

    hidden: int
    mlp: int
    matrices: int
    attention: Attention | None
    latent: LatentAttention | None
    mixer: Mixer | None
    experts: Experts | None
    long_factors: bool


def widths_of(model: ModelSpec, tp: int, *, expert_parallel: bool = False, newest: bool = True) -> Widths:
    """Return the widths of the widest layers of a model on one of `tp` ranks; `newest`: on the newest release."""
    return _widths_of(Same(model), tp, expert_parallel=expert_parallel, newest=newest)


@lru_cache(maxsize=64)  # no card changes them
def _widths_of(same: Same[ModelSpec], tp: int, *, expert_parallel: bool, newest: bool) -> Widths:
    model = same.it
    text = text_section(Fields(model.config))
    experts = _experts(model, text, 1 if expert_parallel else tp)
    dense = _dense(model, text) if experts is None else _dense_between(model, text)
    caches = list(model.shape.caches())
    latent = next((cache for cache in caches if isinstance(cache, Latent)), None)
    return Widths(
        hidden=model.hidden_size,
        mlp=-(-dense // tp),
        matrices=_matrices(model, text, newest=newest),
        attention=_attention(model, text, caches, tp),
        latent=None if latent is None else _latent(model, text, latent, tp),
        mixer=next((cache.mixer for cache in caches if isinstance(cache, State)), None),
        experts=experts,
        long_factors=model.length.has_rope("longrope"),
    )


def _matrices(model: ModelSpec, text: Fields, *, newest: bool) -> int:
    if model.architecture not in _PLAIN and not model.architecture.startswith(_PLAIN_FAMILIES):
        return 3
    # the library computes this approximation of GELU in steps, each with a tensor of its own
    stepwise = newest and model.architecture in _BY_TRANSFORMERS and text.raw("hidden_act") in ("gelu_new", "gelu_fast")
    return 4 if stepwise else 2


def _dense(model: ModelSpec, text: Fields) -> int:
    """Return the dense MLP's width, the widest where it differs by layer; four times the hidden size unless given."""
    blocks = text.raw("block_configs")
    if isinstance(blocks, list):  # DeciLM: a multiple of the hidden size a layer, cut by a third for the gate
        sections = [block.get("ffn") for block in blocks if isinstance(block, dict)]
        factors = [Fields(ffn, where="block_configs", root=text.root) for ffn in sections if isinstance(ffn, dict)]
        widest = max((found.maybe_number("ffn_mult") or 0.0 for found in factors), default=0.0)
        if widest:
            return -(-int(2 * widest * model.hidden_size / 3) // 256) * 256
    width = model.intermediate_size or text.maybe_integer("block_ff_dim")
    if text.raw("block_auto_adjust_ff_dim") is True and width:  # LFM2
        multiple = text.maybe_integer("block_multiple_of") or 1
        return -(-(2 * width // 3) // multiple) * multiple
    return width or 4 * model.hidden_size


def _experts(model: ModelSpec, text: Fields, tp: int) -> Experts | None:
    ffn = text.maybe_section("ffn_config") or text  # DBRX keeps them apart
    per_token = _widest(ffn, *_PER_TOKEN)
    count = model.num_experts or _widest(ffn, *_COUNT)
    if count < 2 or not per_token:  # one expert is a dense MLP
        return None
    width = model.moe_intermediate_size or _widest(ffn, "ffn_hidden_size") or model.intermediate_size or 0
    shared = _widest(text, *_SHARED_WIDTH) or width * _widest(text, *_SHARED_COUNT)
    if model.architecture.startswith("Llama4"):
        shared = width = _widest(text, "intermediate_size")
    return Experts(
        per_token=per_token,
        width=-(-width // tp),
        hidden=_widest(text, "moe_latent_size") or model.hidden_size,
        shared=-(-shared // tp),
        kept=model.architecture != "GptOssForCausalLM",
    )


def _widest(section: Fields, *names: str) -> int:
    """Return the first of the fields that is given, the largest entry where it is a list, 0 where none is."""
    for name in names:
        if isinstance(section.raw(name), list):
            return max(section.maybe_integers(name) or [0])
        found = section.maybe_integer(name, low=0)
        if found is not None:
            return found
    return 0


def _dense_between(model: ModelSpec, text: Fields) -> int:
    """Return the width of dense MLPs between mixture layers, which find their workspace in use; 0 where none are.

    Dense layers in front of all mixtures do not: there is no workspace yet.
    """
    if model.architecture.startswith("Jamba"):
        return model.intermediate_size or 0
    if model.architecture.startswith("Llama4") and _widest(text, "interleave_moe_layer_step") > 1:
        return _widest(text, "intermediate_size_mlp")
    return 0


def _attention(model: ModelSpec, text: Fields, caches: list[Cache], tp: int) -> Attention | None:
    shape = model.shape
    kept = [cache for cache in caches if isinstance(cache, Full | Window | Chunked)]
    if not kept or not shape.heads:
        return None
    widest = max(kept, key=lambda cache: max(cache.head_dim, cache.head_dim_v))
    heads, kv_heads = max(1, shape.heads // tp), max(1, widest.kv_heads // tp)
    return Attention(
        query=heads * widest.head_dim,
        key=kv_heads * widest.head_dim,
        value=kv_heads * widest.head_dim_v,
        normed=model.architecture.startswith(_NORMED) or text.raw("use_qk_norm") is True,
        gated=model.architecture.startswith(_GATED_OUTPUT),
    )


def _latent(model: ModelSpec, text: Fields, latent: Latent, tp: int) -> LatentAttention | None:
    dims = model.shape.mla_dims
    if dims is None:
        return None
    nope, rope, value = dims
    return LatentAttention(
        heads=max(1, model.shape.heads // tp),
        nope=nope,
        rope=rope,
        value=value,
        rank=latent.rank,
        query_rank=_widest(text, "q_lora_rank"),
    )
