"""Models with latent attention: DeepSeek-V2, V3 and V3.2, GLM-5, GLM-4.7-Flash, Mistral Large 3, Sarvam, openPangu."""

from __future__ import annotations

from kvplan.model.spec import Indexer
from kvplan.model.weights.blocks import experts, gated, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.latent import deepseek_layers, indexer, latent_attention, latent_table
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.sparse import CORRECTION, mixture, shared_width, sparse_layers
from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text


@weighs("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV3BidirectionalModel")
def deepseek(text: Text) -> list[Part]:
    """Return the parts of a DeepSeek-V2 or V3."""
    return [*deepseek_layers(text), *latent_table(text)]


@weighs("AXK1ForCausalLM")
def axk1(text: Text) -> list[Part]:
    """Return the parts of an A.X K1: a DeepSeek-V3 with a norm after each feed-forward part."""
    norm = text.at().norm("post_mlp_layernorm", text.hidden)
    return [*deepseek_layers(text, corrected=True), *norm, *latent_table(text)]


@weighs("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
def sparse_deepseek(text: Text) -> list[Part]:
    """Return the parts of a DeepSeek-V3.2 or GLM-5: an indexer in the layers that select their own tokens.

    The indexer has a table of its own where it turns the elements in another order than attention does.
    """
    indexed = [i for i in text.layers if any(isinstance(cache, Indexer) for cache in text.shape.layers[i])]
    tables = latent_table(text, traced=False)
    return [
        *deepseek_layers(text),
        *indexer(text.at(layers=indexed), text, text.hidden),
        *(tables if text.flag("indexer_rope_interleave") else 2 * tables),
    ]


@weighs("Glm4MoeLiteForCausalLM")
def glm_flash(text: Text) -> list[Part]:
    """Return the parts of a GLM-4.7-Flash: a DeepSeek-V3 with float32 routers."""
    return [*deepseek_layers(text, corrected=True, dtype="float32"), *latent_table(text)]


@weighs("MistralLarge3ForCausalLM")
def mistral_large(text: Text) -> list[Part]:
    """Return the parts of a Mistral Large 3: a DeepSeek-V3 whose router has no correction."""
    return [*deepseek_layers(text), *latent_table(text)]


@weighs("PanguUltraMoEForCausalLM")
def pangu_ultra(text: Text) -> list[Part]:
    """Return the parts of an openPangu-Ultra: a DeepSeek-V3 with norms after both halves of a layer."""
    norms = ("pre_mlp_layernorm", "post_mlp_layernorm")
    around = text.at().norms(text.hidden, *norms) if text.flag("sandwich_norm") else []
    corrected = text.flag("router_enable_expert_bias")
    return [*deepseek_layers(text, corrected=corrected), *around, *latent_table(text)]


@weighs("SarvamMLAForCausalLM")
def sarvam(text: Text) -> list[Part]:
    """Return the parts of a Sarvam with latent attention."""
    at, moe = text.at(), sparse_layers(text)
    correction = CORRECTION if text.flag("moe_router_enable_expert_bias", default=True) else ""
    count, common = text.config.integer("num_experts"), shared_width(text, "num_shared_experts")
    return [
        *ends(text),
        *latent_attention(at, text),
        *mixture(text, moe, count=count, common=common, correction=correction),
        *at.norms(text.hidden, *TWO_NORMS),
        *latent_table(text),
    ]


@weighs("LongcatFlashForCausalLM")
def longcat(text: Text) -> list[Part]:
    """Return the parts of a LongCat-Flash: two attentions and two dense layers around the experts of each layer.

    Some experts are the identity: the router scores them, and they have no weights.
    """
    hidden, config = text.hidden, text.config
    at = text.at()
    halves = at.copies(2)
    count, width = config.integer("n_routed_experts"), config.integer("expert_ffn_hidden_size", "moe_intermediate_size")
    scored = count + (config.maybe_integer("zero_expert_num", low=0) or 0)
    classifier, correction = "mlp.router.classifier", "mlp.router.e_score_correction_bias"
    return [
        *ends(text),
        *latent_attention(halves, text),
        *gated(halves, hidden, config.integer("ffn_hidden_size", "intermediate_size")),
        *halves.norms(hidden, *TWO_NORMS),
        *router(at, scored, hidden, name=classifier, dtype="float32", correction=correction),
        *experts(at, count, hidden, width),
        *rope_table(config, config.integer("qk_rope_head_dim")),
    ]
