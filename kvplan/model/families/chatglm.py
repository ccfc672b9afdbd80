"""ChatGLM 2 and 3, GLM-4 in its first form, and GLM-4V: multi-query groups under their own names."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import divided_hidden, geometry
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("ChatGLMModel", "ChatGLMForConditionalGeneration", "GLM4VForCausalLM", model_types=("chatglm",))
def read(config: Fields) -> Shape:
    """Return the shape of a ChatGLM: multi_query_group_num KV heads where multi_query_attention is set."""
    heads = config.integer("num_attention_heads")
    grouped = config.flag("multi_query_attention")
    kv_heads = config.integer("multi_query_group_num") if grouped else heads
    one = geometry(config, heads, kv_heads, divided_hidden(config, heads), name="multi_query_group_num")
    return one.shape([one.full()] * config.layers("num_layers", "num_hidden_layers"))
