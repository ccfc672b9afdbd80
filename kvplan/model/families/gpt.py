"""The GPT lineage under its own field names, from GPT-2 to OPT, BLOOM, MPT, Phi 1 and 2, Falcon and DBRX."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import GroupedQuery, divided_hidden, geometry
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

_HEADS = ("n_head", "num_attention_heads", "n_heads")
_LAYERS = ("n_layer", "num_hidden_layers", "n_layers")


@reads("GPT2LMHeadModel", "GPT2ForSequenceClassification", model_types=("gpt2",))
@reads("JAISLMHeadModel", model_types=("jais",))
@reads("GPTJForCausalLM", model_types=("gptj",))
@reads("BloomForCausalLM", model_types=("bloom",))
@reads("OPTForCausalLM", model_types=("opt",))
@reads("GPTNeoXForCausalLM", model_types=("gpt_neox",))
def read(config: Fields) -> Shape:
    """Return the shape of a multi-head model of this lineage."""
    return _multi_head(config, config.integer(*_HEADS))


@reads("PhiForCausalLM", model_types=("phi",))
@reads("MixFormerSequentialForCausalLM", model_types=("mixformer-sequential", "phi-msft"))
def read_phi(config: Fields) -> Shape:
    """Return the shape of a Phi 1, 1.5 or 2; the early checkpoints use GPT-2's names."""
    heads = config.integer("num_attention_heads", "n_head")
    return _alike(config, heads, config.maybe_integer("num_key_value_heads", "n_head_kv") or heads)


@reads("GPTBigCodeForCausalLM", model_types=("gpt_bigcode",))
def read_bigcode(config: Fields) -> Shape:
    """Return the shape of a SantaCoder or StarCoder: one KV head unless multi_query is false."""
    heads = config.integer(*_HEADS)
    return _alike(config, heads, 1 if config.flag("multi_query", default=True) else heads)


@reads("FalconForCausalLM", model_types=("falcon",))
@reads("RWForCausalLM", model_types=("RefinedWeb", "RefinedWebModel"))
def read_falcon(config: Fields) -> Shape:
    """Return the shape of a Falcon: grouped heads in the new decoder architecture, else one KV head or multi-head.

    The first 40B checkpoint does not name its decoder architecture; its class knows it by 8192 channels.
    """
    heads = config.integer(*_HEADS)
    grouped = config.flag("new_decoder_architecture")
    if config.model_type in ("RefinedWeb", "RefinedWebModel"):
        grouped = grouped or config.integer("hidden_size", "n_embed") == 8192
    if grouped:
        kv_heads = config.integer("num_kv_heads", "n_head_kv", default=heads)
    else:
        kv_heads = 1 if config.flag("multi_query", default=True) else heads
    return _alike(config, heads, kv_heads)


@reads("MPTForCausalLM", "MptForCausalLM", model_types=("mpt",))
def read_mpt(config: Fields) -> Shape:
    """Return the shape of an MPT; its attn_config says whether the KV heads are one, some or all."""
    heads = config.integer(*_HEADS)
    attention = config.maybe_section("attn_config")
    kind = attention.maybe_text("attn_type") if attention is not None else None
    if attention is None or kind in (None, "multihead_attention"):
        return _multi_head(config, heads)
    if kind == "multiquery_attention":
        return _alike(config, heads, 1)
    if kind == "grouped_query_attention":
        return _alike(config, heads, attention.integer("kv_n_heads"))
    raise attention.bad("attn_type", "multihead_attention, multiquery_attention or grouped_query_attention", kind)


@reads("DbrxForCausalLM", model_types=("dbrx",))
def read_dbrx(config: Fields) -> Shape:
    """Return the shape of a DBRX; the KV heads are in attn_config, one where it leaves them out."""
    attention = config.maybe_section("attn_config")
    kv_heads = attention.integer("kv_n_heads", default=1) if attention is not None else 1
    return _alike(config, config.integer(*_HEADS), kv_heads)


def _multi_head(config: Fields, heads: int) -> Shape:
    return _alike(config, heads, heads)


def _alike(config: Fields, heads: int, kv_heads: int) -> Shape:
    one: GroupedQuery = geometry(config, heads, kv_heads, divided_hidden(config, heads))
    return one.shape([one.full()] * config.layers(*_LAYERS))
