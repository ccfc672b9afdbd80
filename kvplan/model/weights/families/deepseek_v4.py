"""DeepSeek-V4: latents of keys that serve as values, compressors, indexers, and several residual streams a layer."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.spec import CompressedLatent
from kvplan.model.weights.blocks import experts, gated, router
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text

_OVERLAPPING = 4  # states of this ratio are folded from two overlapping windows, which doubles their projections
_SINKS = 64  # the attention kernel takes 64 heads or 128, and so many sinks


@weighs("DeepseekV4ForCausalLM")
def deepseek_v4(text: Text) -> list[Part]:
    """Return the parts of a DeepSeek-V4; rotary tables are float32, one for each base that its layers use."""
    config, hidden = text.config, text.hidden
    ratios = {i: _cache(text, i).ratio for i in text.layers}
    at, count = text.at(), config.integer("n_routed_experts")
    hashed = config.integer("num_hash_layers", low=0, default=0)
    width = config.integer("moe_intermediate_size")
    inside = "ffn.experts.{}"
    parts = [
        *ends(text),
        *_attention(at, text),
        *_residual_streams(text),
        *router(at, count, hidden, name="ffn.gate"),
        text.at(layers=range(hashed)).tensor(
            "ffn.gate.tid2eid", text.vocabulary, config.integer("num_experts_per_tok"), dtype="int32"
        ),
        text.at(layers=range(hashed, len(text.layers))).tensor("ffn.gate.bias", count, dtype="float32"),
        *experts(at, count, hidden, width, within=inside, names=("w1", "w3", "w2")),
        *_shared_experts(text, width * config.integer("n_shared_experts", low=0)),
        *at.norms(hidden, "attn_norm", "ffn_norm"),
    ]  # fmt: skip
    for ratio in sorted({ratio for ratio in ratios.values() if ratio > 1}):
        parts += _compressor(text.at(layers=[i for i in text.layers if ratios[i] == ratio]), text, ratio)
    plain = any(ratio <= 1 for ratio in ratios.values())
    folded = any(ratio > 1 for ratio in ratios.values())
    return [*parts, *((plain + folded) * _table(text))]


def _shared_experts(text: Text, width: int) -> list[Part]:
    """Return the shared experts as one; ranks get whole blocks of its scales, the last of them padding."""
    section = text.config.root.maybe_section("quantization_config")
    block = section.maybe_integers("weight_block_size", low=1) if section is not None else None
    names = ("ffn.shared_experts.w1", "ffn.shared_experts.w3", "ffn.shared_experts.w2")
    parts = gated(text.at(), text.hidden, width, names=names)
    return [replace(part, multiple=block[0] if block else 1) for part in parts]


def _cache(text: Text, layer: int) -> CompressedLatent:
    return next(cache for cache in text.shape.layers[layer] if isinstance(cache, CompressedLatent))


def _table(text: Text) -> list[Part]:
    return rope_table(text.config, _cache(text, 0).rope_dim, dtype="float32")


def _attention(at: Scope, text: Text) -> list[Part]:
    config, hidden, heads, dim = text.config, text.hidden, text.shape.heads, text.shape.head_dim
    rank, groups, out_rank = config.integer("q_lora_rank"), config.integer("o_groups"), config.integer("o_lora_rank")
    return [
        at.tensor("attn.attn_sink", heads, role=Role.COLUMN, dtype="float32", multiple=_SINKS),
        at.linear("attn.wq_a", rank, hidden, Role.REPLICATED),
        at.linear("attn.wkv", dim, hidden, Role.REPLICATED, leads=False),
        *at.norm("attn.q_norm", rank),
        *at.norm("attn.kv_norm", dim),
        at.linear("attn.wq_b", heads * dim, rank),
        at.linear("attn.wo_a", groups * out_rank, heads * dim // groups),
        at.linear("attn.wo_b", hidden, groups * out_rank, Role.ROW),
    ]


def _compressor(at: Scope, text: Text, ratio: int) -> list[Part]:
    """Return the compressor of the layers of one ratio, and the indexer that selects its states."""
    first = next(iter(at.layers or text.layers))
    cache, hidden, config = _cache(text, first), text.hidden, text.config
    parts = _folding(at.under("attn.compressor"), ratio, cache.head_dim, hidden)
    if cache.index_head_dim is None:
        return parts
    heads, inside = config.integer("index_n_heads"), at.under("attn.indexer")
    return [
        *parts,
        inside.linear("wq_b", heads * cache.index_head_dim, config.integer("q_lora_rank"), Role.REPLICATED),
        inside.tensor("weights_proj.weight", heads, hidden),
        *_folding(inside.under("compressor"), ratio, cache.index_head_dim, hidden),
    ]


def _folding(at: Scope, ratio: int, dim: int, hidden: int) -> list[Part]:
    width = dim * (2 if ratio == _OVERLAPPING else 1)
    return [
        at.tensor("ape", ratio, width, dtype="float32"),
        at.tensor("wkv.weight", width, hidden),
        at.tensor("wgate.weight", width, hidden),
        *at.norm("norm", dim),
    ]


def _residual_streams(text: Text) -> list[Part]:
    """Return the mixing of the residual streams (hyper-connections), float32 throughout."""
    streams, hidden = text.config.integer("hc_mult"), text.hidden
    rows, width = streams * (streams + 2), streams * hidden
    at, last = text.at(), Scope("model.", stage=Stage.LAST)
    own = {"dtype": "float32"}
    return [
        *(at.tensor(f"hc_{half}_fn", rows, width, **own) for half in ("attn", "ffn")),
        *(at.tensor(f"hc_{half}_base", rows, **own) for half in ("attn", "ffn")),
        *(at.tensor(f"hc_{half}_scale", 3, **own) for half in ("attn", "ffn")),
        last.tensor("hc_head_fn", streams, width, **own),
        last.tensor("hc_head_base", streams, **own),
        last.tensor("hc_head_scale", 1, **own),
    ]
