"""LongCat-Flash: two latent attentions in every decoder layer."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._latent import draft_count, latent_attention
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM", model_types=("longcat_flash",))
def read(config: Fields) -> Shape:
    """Return the shape of a LongCat-Flash checkpoint, whose config may leave out its model_type.

    Its one prediction layer has a single attention, and vLLM builds no second one whatever the config says.
    """
    count = _decoder_layers(config)
    attention = latent_attention(config.as_type("longcat_flash"))
    drafts = min(draft_count(config, "num_nextn_predict_layers", default=1), 1)
    return attention.shape([attention.layer() * 2] * count, draft_layers=(attention.layer(),) * drafts)


def _decoder_layers(config: Fields) -> int:
    """Return num_layers; where a config gives num_hidden_layers alone, that counts attentions, two a decoder layer."""
    if config.has("num_layers") or not config.has("num_hidden_layers"):
        return config.layers("num_layers")
    attentions = config.layers()
    if attentions % 2:
        raise config.bad("num_hidden_layers", "even (two attentions a layer)", attentions)
    return attentions // 2
