"""StepFun's Step 1, Step 3, 3.5 and 3.7."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    GroupedQuery,
    by_types,
    divided_hidden,
    geometry,
    sliding_window,
)
from kvplan.model.families._multimodal import wraps
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

reads("Step3VLForConditionalGeneration", model_types=("step3_vl",))(wraps(otherwise="Step3TextForCausalLM"))
reads("StepVLForConditionalGeneration", model_types=("step_robotics",))(wraps())
reads("Step3p7ForConditionalGeneration", "Step3p7FlashForCausalLM", model_types=("step3p7",))(
    wraps(otherwise="Step3p5ForCausalLM")
)


@reads("Step1ForCausalLM", model_types=("step1",))
def read_step1(config: Fields) -> Shape:
    """Return the shape of a Step 1: num_attention_groups KV heads, one where that is missing or not positive."""
    heads = config.integer("num_attention_heads")
    groups = config.maybe_integer("num_attention_groups", "num_key_value_heads", low=-1)
    kv_heads = groups if groups is not None and groups > 0 else 1
    one = geometry(config, heads, kv_heads, divided_hidden(config, heads), name="num_attention_groups")
    return one.shape([one.within(sliding_window(config))] * config.layers())


@reads("Step3TextForCausalLM", model_types=("step3_text",))
def read_step3(config: Fields) -> Shape:
    """Return the shape of a Step 3 (multi-matrix factorised attention): one KV head that all query heads share."""
    heads = config.integer("num_attention_heads")
    groups = config.integer("num_attention_groups")
    if groups != 1:
        raise config.bad("num_attention_groups", "1", groups)
    one = GroupedQuery(heads, 1, config.integer("head_dim"), config.integer("head_dim"))
    return one.shape([one.full()] * config.layers())


@reads("Step3p5ForCausalLM", model_types=("step3p5",))
def read_step3p5(config: Fields) -> Shape:
    """Return the shape of a Step 3.5 or 3.7; layer_types may go on with the draft layers.

    Sliding layers may have more query heads (attention_other_setting); all have the same KV heads.
    """
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_attention_groups", "num_key_value_heads")
    head_dim = config.maybe_integer("head_dim") or divided_hidden(config, heads)
    one = geometry(config, heads, kv_heads, head_dim, name="num_attention_groups")
    count = config.layers()
    types = _types(config, count)
    window = sliding_window(config)
    draft = config.maybe_integer("num_nextn_predict_layers", low=0, high=count) or 0
    tail = types[count : count + draft]
    return one.shape(by_types(one, types[:count], window), draft_layers=tuple(by_types(one, tail, window)))


def _types(config: Fields, count: int) -> list[str]:
    types = config.maybe_texts("layer_types")
    if types is None:
        return [FULL] * count
    if len(types) < count:
        raise config.contradicts("layer_types", "num_hidden_layers", why=f"{len(types)} types for {count} layers")
    for name in types:
        if name not in (SLIDING, FULL):
            raise config.bad("layer_types", f"made of {SLIDING} and {FULL}", name)
    return [*types, *(config.maybe_texts("mtp_layer_types") or [])]
