"""gpt-oss: sliding-window and full attention in turns, with per-head sink logits (weights, not cache)."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import FULL, by_types, full_every, grouped_query, sliding_types, sliding_window
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("GptOssForCausalLM", model_types=("gpt_oss",))
def read(config: Fields) -> Shape:
    """Return the shape of a gpt-oss checkpoint.

    vLLM slides on the even layers whatever mixed `layer_types` say (gpt_oss.py); the two agree in every release.
    """
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count)
    if types is None or FULL in types:
        types = full_every(count, 2)
    return heads.shape(by_types(heads, types, sliding_window(config)), sinks=True)
