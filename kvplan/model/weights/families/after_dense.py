"""Mixtures whose first layers are dense: GLM-4.5, Ernie 4.5, K-EXAONE, Hunyuan 3, Command A, Laguna, Trinity, Ling."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, experts, fused, gated, rope, router
from kvplan.model.weights.dense import FOUR_NORMS, TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import tables_by_kind
from kvplan.model.weights.sparse import head_norms, mixture, rest, shared, shared_width, sparse_layers
from kvplan.model.weights.tensors import MODEL, Part, Role
from kvplan.model.weights.text import Text


@weighs("Glm4MoeForCausalLM")
def glm4_moe(text: Text) -> list[Part]:
    """Return the parts of a GLM-4.5 or 4.6."""
    at, count = text.at(), text.config.integer("n_routed_experts")
    return [
        *ends(text),
        *attention(at, text, bias=text.flag("attention_bias")),
        *(head_norms(at, text) if text.flag("use_qk_norm") else []),
        *mixture(text, sparse_layers(text), count=count, common=shared_width(text), dtype="float32"),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text, partial=0.5),
    ]


@weighs("Ernie4_5_MoeForCausalLM")
def ernie_moe(text: Text) -> list[Part]:
    """Return the parts of an Ernie 4.5 mixture: experts between moe_layer_start_index and moe_layer_end_index."""
    at, config, bias = text.at(), text.config, text.flag("use_bias")
    last = len(text.layers) - 1
    first = config.integer("moe_layer_start_index", low=0, default=0)
    end = config.integer("moe_layer_end_index", low=-1, default=last)
    step = config.integer("moe_layer_interval", default=1)
    moe = [i for i in text.layers if (i + 1) % step == 0 and first <= i <= (end if end >= 0 else last)]
    common = shared_width(text, "moe_num_shared_experts")
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *mixture(text, moe, count=config.integer("moe_num_experts"), common=common, dtype="float32"),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM")
def exaone_moe(text: Text) -> list[Part]:
    """Return the parts of a K-EXAONE: experts where is_moe_layer says so."""
    at, config = text.at(), text.config
    flags = config.raw("is_moe_layer")
    moe = sparse_layers(text)
    if isinstance(flags, list):
        moe = [i for i in text.layers if i < len(flags) and flags[i] is True]
    common, correction = shared_width(text, "num_shared_experts"), "mlp.e_score_correction_bias"
    return [
        *ends(text),
        *attention(at, text),
        *head_norms(at, text),
        *mixture(text, moe, count=config.integer("num_experts"), common=common, correction=correction),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("DeepseekForCausalLM")
def deepseek_v1(text: Text) -> list[Part]:
    """Return the parts of a DeepSeek-MoE (16B), which has ordinary attention."""
    at, bias = text.at(), text.flag("attention_bias", "bias")
    count, common = text.config.integer("n_routed_experts"), shared_width(text)
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *mixture(text, sparse_layers(text), count=count, common=common, correction=""),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("Cohere2MoeForCausalLM")
def cohere2_moe(text: Text) -> list[Part]:
    """Return the parts of a Command A mixture: one norm a layer, experts after a few dense layers."""
    at, config = text.at(), text.config
    count = config.integer("num_experts", "num_local_experts")
    width = config.maybe_integer("moe_intermediate_size") or text.intermediate
    common = width * (config.maybe_integer("num_shared_experts", "n_shared_experts", low=0) or 0)
    return [
        *ends(text, tied=True),
        *attention(at, text, bias=text.flag("attention_bias")),
        *mixture(text, sparse_layers(text), count=count, common=common, correction=""),
        *at.norm("input_layernorm", text.hidden),
        *rope(text),
    ]


@weighs("LagunaForCausalLM")
def laguna(text: Text) -> list[Part]:
    """Return the parts of a Laguna: a gate on each head's output, one shared expert."""
    at, hidden, config, shape = text.at(), text.hidden, text.config, text.shape
    moe = sparse_layers(text)
    if not config.has("mlp_layer_types"):
        moe = rest(text, config.maybe_integers("mlp_only_layers") or [0])
    sparse, dense = text.at(layers=moe), rest(text, moe)
    count = config.integer("num_experts")
    return [
        *ends(text),
        *attention(at, text, bias=text.flag("attention_bias")),
        at.linear("self_attn.g_proj", shape.heads, hidden),
        *head_norms(at, text),
        *gated(text.at(layers=dense), hidden, text.intermediate),
        *router(sparse, count, hidden, correction="mlp.experts.e_score_correction_bias"),
        *experts(sparse, count, hidden, config.integer("moe_intermediate_size")),
        *shared(sparse, hidden, config.integer("shared_expert_intermediate_size", low=0), "mlp.shared_expert"),
        *at.norms(hidden, *TWO_NORMS),
        *tables_by_kind(config, shape.head_dim),
    ]


@weighs("HYV3ForCausalLM")
def hunyuan_v3(text: Text) -> list[Part]:
    """Return the parts of a Hunyuan 3."""
    at, hidden, config = text.at(), text.hidden, text.config
    moe = sparse_layers(text)
    sparse, dense = text.at(layers=moe), rest(text, moe)
    count, width = config.integer("num_experts"), config.integer("expert_hidden_dim", "moe_intermediate_size")
    common = width * (config.maybe_integer("num_shared_experts", low=0) or 0)
    return [
        *ends(text),
        *attention(at, text),
        *(head_norms(at, text) if text.flag("qk_norm") else []),
        *gated(text.at(layers=dense), hidden, text.intermediate),
        *router(sparse, count, hidden, name="mlp.router.gate", dtype="float32", correction="mlp.expert_bias"),
        *experts(sparse, count, hidden, width),
        *shared(sparse, hidden, common, "mlp.shared_mlp"),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("AfmoeForCausalLM")
def afmoe(text: Text) -> list[Part]:
    """Return the parts of a Trinity (AFMoE): a gate on attention's output, four norms a layer."""
    at, shape, config = text.at(), text.shape, text.config
    moe = [i for i in text.layers if i >= config.integer("num_dense_layers", low=0)]
    count, common = config.integer("num_experts"), shared_width(text, "num_shared_experts")
    return [
        *ends(text),
        *attention(at, text),
        at.linear("self_attn.gate_proj", shape.heads * shape.head_dim, text.hidden),
        *head_norms(at, text),
        *mixture(text, moe, count=count, common=common, dtype="float32", correction="mlp.expert_bias"),
        *at.norms(text.hidden, *TWO_NORMS, "pre_mlp_layernorm", "post_mlp_layernorm"),
        *rope(text),
    ]


@weighs("Param2MoEForCausalLM")
def param2(text: Text) -> list[Part]:
    """Return the parts of a Param-2: float32 routers, whose correction bias is there unless the config denies it."""
    at, config = text.at(), text.config
    corrected = text.flag("moe_router_enable_expert_bias", default=True)
    common = shared_width(text, "num_shared_experts")
    correction = "mlp.gate.e_score_correction_bias" if corrected else ""
    count = config.integer("num_experts")
    norms = at.norms(text.shape.head_dim, "attention.query_layernorm", "attention.key_layernorm")
    names = fused("attention.query_key_value", "attention.dense")
    return [
        *ends(text),
        *attention(at, text, bias=text.flag("use_qkv_bias"), out_bias=text.flag("use_bias"), names=names),
        *(norms if text.flag("use_qk_norm") else []),
        *mixture(text, sparse_layers(text), count=count, common=common, dtype="float32", correction=correction),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM")
def ling(text: Text) -> list[Part]:
    """Return the parts of a Ling or Ring of the first two generations."""
    at, config = text.at(), text.config
    bias, dim = text.flag("use_bias"), text.shape.head_dim
    names = fused("attention.query_key_value", "attention.dense")
    single = config.maybe_integer("moe_shared_expert_intermediate_size") or config.integer("moe_intermediate_size")
    common = single * (config.maybe_integer("num_shared_experts", low=0) or 0)
    head_norm_bias = not text.flag("use_rmsnorm")
    return [
        *ends(text, embedding="model.word_embeddings"),
        *attention(at, text, bias=bias or text.flag("use_qkv_bias"), out_bias=bias, names=names),
        *(
            at.norms(dim, "attention.query_layernorm", "attention.key_layernorm", bias=head_norm_bias)
            if text.flag("use_qk_norm") else []
        ),
        *mixture(
            text, sparse_layers(text), count=config.integer("num_experts"), common=common, bias=bias,
            dtype="float32" if config.maybe_text("router_dtype") == "fp32" else MODEL,
            correction="mlp.gate.expert_bias" if text.flag("moe_router_enable_expert_bias") else "",
        ),
        *at.norms(text.hidden, *TWO_NORMS),
        *rope(text),
    ]  # fmt: skip


@weighs("BeamForCausalLM")
def beam(text: Text) -> list[Part]:
    """Return the parts of a Beam: a biased gate on each head's output, four norms a layer, a float32 rope table."""
    at, hidden, shape = text.at(), text.hidden, text.shape
    gate = at.linear("self_attn.gate_proj", shape.heads * shape.head_dim, hidden)
    return [
        *ends(text),
        *attention(at, text, bias=text.flag("attention_bias")),
        gate,
        at.tensor("self_attn.gate_bias", shape.heads, role=Role.COLUMN),
        *head_norms(at, text),
        *mixture(text, sparse_layers(text), count=text.config.integer("num_experts"), dtype="float32"),
        *at.norms(hidden, *FOUR_NORMS),
        *rope(text, dtype="float32"),
    ]
