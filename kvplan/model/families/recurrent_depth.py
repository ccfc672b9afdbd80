"""Models that run their layers several times, with a cache for each pass: IQuest LoopCoder, HRM-Text, Dory."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    causal_or_encoder,
    grouped_query,
    layer_types,
    sliding_window,
)
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Layer, Shape


@reads("IQuestLoopCoderForCausalLM", model_types=("iquestloopcoder",))
def read_loop_coder(config: Fields) -> Shape:
    """Return the shape of a LoopCoder: a full cache for the first pass, a short window for each later one."""
    heads = grouped_query(config, own_head_dim=False)
    count = config.layers()
    passes = config.integer("loop_num", default=2, high=64)  # vLLM, iquest_loopcoder.py
    window = config.integer("loop_window_size", default=64)
    layers = [heads.within(sliding_window(config))] * count + [heads.window(window)] * (count * (passes - 1))
    return causal_or_encoder(config, heads.shape(layers))


@reads("HrmTextForCausalLM", model_types=("hrm_text",))
def read_hrm(config: Fields) -> Shape:
    """Return the shape of an HRM: two stacks, the low one run L_cycles times in each of H_cycles, the high one once.

    vLLM makes it multi-head whatever num_key_value_heads says (hrm_text.py).
    """
    heads = grouped_query(config)
    one = type(heads)(heads.heads, heads.heads, heads.head_dim, heads.head_dim)
    stack = config.layers("num_layers_per_stack", "num_hidden_layers")
    steps = config.integer("H_cycles", high=64) * (config.integer("L_cycles", high=64) + 1)
    return one.shape([one.full()] * (stack * steps))


@reads("DoryForCausalLM", model_types=("dory",))
def read_dory(config: Fields) -> Shape:
    """Return the shape of a Dory: blocks of attention or feed-forward, some of them run n_recurrent_loops times."""
    heads = grouped_query(config)
    count = config.layers()
    types = layer_types(config, count, SLIDING, FULL, "mlp") or [
        "mlp" if i % 2 else FULL if i % 8 == 6 else SLIDING for i in range(count)
    ]
    window = sliding_window(config)
    first = config.integer("n_input_layers", default=0, low=0, high=MAX_LAYERS)
    last = config.integer("n_output_layers", default=0, low=0, high=MAX_LAYERS)
    again = config.integer("n_recurrent_layers", default=count - first - last, low=0, high=MAX_LAYERS)
    if first + again + last != count:
        raise config.contradicts(
            "n_recurrent_layers", "num_hidden_layers", why=f"{first} + {again} + {last} is not {count}"
        )
    loops = config.integer("n_recurrent_loops", default=1, high=64)
    if config.maybe_text("recurrent_kv_cache_mode") == "last_loop":
        loops = 1
    layers: list[Layer] = []
    for i, name in enumerate(types):
        one = heads.within(window if name == SLIDING else None) if name != "mlp" else ()
        layers.append(one * (loops if first <= i < first + again else 1))
    return heads.shape(layers)
