"""Alice AI: Kimi delta attention under the field names of Qwen3-Next, with full attention layers between."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import FULL, LINEAR, block_types, gated_delta_net, kimi_delta
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("AliceAIForCausalLM", model_types=("alice_ai",))
def read(config: Fields) -> Shape:
    """Return the shape of an Alice AI checkpoint; vLLM ignores its prediction layers."""
    heads = grouped_query(config)
    net = gated_delta_net(config)
    if (net.k_heads, net.k_dim) != (net.v_heads, net.v_dim):
        names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
        raise config.contradicts(*names, why="Kimi delta attention has as many value heads as key heads, of one size")
    types = block_types(config, config.layers(), LINEAR, FULL)
    if types is None:
        raise config.lacks("layer_types")
    linear = kimi_delta(net.k_heads, net.k_dim, net.kernel)
    return heads.shape([linear if name == LINEAR else heads.full() for name in types])
