"""LongCat-Flash: two latent attentions in every decoder layer."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._latent import draft_count, latent_attention
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM", model_types=("longcat_flash",))
def read(config: Fields) -> Shape:
    """Return the shape of a LongCat-Flash checkpoint; `num_layers` counts decoder layers.

    Its one prediction layer has a single attention, and vLLM builds no second one whatever the config says.
    """
    attention = latent_attention(config.as_type("longcat_flash"))
    drafts = min(draft_count(config, "num_nextn_predict_layers", default=1), 1)
    layers = [attention.layer() * 2] * _decoder_layers(config)
    return attention.shape(layers, draft_layers=(attention.layer(),) * drafts)


def _decoder_layers(config: Fields) -> int:
    """Return num_layers; where a config gives num_hidden_layers alone, that counts attentions, two a decoder layer."""
    if not config.has("num_layers") and config.has("num_hidden_layers"):
        attentions = config.layers()
        if attentions % 2:
            raise config.bad("num_hidden_layers", "even (two attentions a layer)", attentions)
        return attentions // 2
    return config.as_type("longcat_flash").layers("num_layers")
