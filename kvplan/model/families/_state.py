"""What the families with a state of constant size share: the mixers' usual field names, and which layer has which."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.model.fields import MAX_LAYERS, MAX_SIZE, Fields
from kvplan.model.spec import GatedDeltaNet, KimiDelta, Layer, Mamba2, Mixer, State

LINEAR, FULL = "linear_attention", "full_attention"
_OLDER = {"mamba": LINEAR, "attention": FULL}  # names of releases before transformers 5
_DTYPES = ("float32", "bfloat16", "float16")


def state(mixer: Mixer, recurrent_dtype: str | None = None) -> Layer:
    """Return a layer that keeps the mixer's state and nothing else."""
    return (State(mixer, recurrent_dtype),)


def block_types(config: Fields, layers: int, *known: str, names: Sequence[str] = ("layer_types",)) -> list[str] | None:
    """Return the checked layer types, one of `known` a layer, from the first of the named fields; None without any.

    The older names `mamba` and `attention` are read as `linear_attention` and `full_attention`.
    """
    name = next((name for name in names if config.has(name)), None)
    types = config.maybe_texts(name) if name is not None else None
    if name is None or types is None:
        return None
    if len(types) != layers:
        raise config.contradicts(name, "num_hidden_layers", why=f"{len(types)} layer types for {layers} layers")
    renamed = [_OLDER.get(one, one) for one in types]
    for one in renamed:
        if one not in known:
            raise config.bad(name, f"made of {', '.join(known)}", one)
    return renamed


def interval_types(config: Fields, layers: int, *, default: int = 4) -> list[str]:
    """Return the given layer types, else linear ones with a full one every `full_attention_interval` layers."""
    types = block_types(config, layers, LINEAR, FULL)
    if types is not None:
        return types
    interval = config.integer("full_attention_interval", default=default, high=MAX_LAYERS)
    return [LINEAR if (index + 1) % interval else FULL for index in range(layers)]


def state_dtype(config: Fields, name: str) -> str | None:
    """Return the dtype that the config asks for in the recurrent state, None where it asks for none."""
    given = config.maybe_text(name)
    if given is None or given == "auto":
        return None
    if given not in _DTYPES:
        raise config.bad(name, " or ".join(_DTYPES), given)
    return given


def expanded_width(config: Fields, name: str) -> int:
    """Return hidden_size times the expansion factor `name`, the width inside a state space layer."""
    factor = config.maybe_number(name)
    if factor is None:
        raise config.lacks(name)
    width = int(factor * config.integer("hidden_size"))
    if not 1 <= width <= MAX_SIZE:
        raise config.bad(name, f"a factor that makes 1 to {MAX_SIZE} channels", factor)
    return width


def mamba2_block(config: Fields, *, width_name: str = "") -> Mamba2:
    """Read a Mamba-2 mixer under the names of Bamba, GraniteMoeHybrid and Falcon-H1.

    `width_name`: a field that gives the width inside outright (null: by the expansion factor all the same). Heads that
    do not make up the width are kept as they stand: the config's own class refuses them, and so does the engine.
    """
    width = config.maybe_integer(width_name) if width_name else None
    inner = expanded_width(config, "mamba_expand") if width is None else width
    heads = config.integer("mamba_n_heads")
    given = config.has("mamba_d_head") and config.raw("mamba_d_head") != "auto"
    head_dim = config.integer("mamba_d_head") if given else max(1, inner // heads)
    return Mamba2(
        inner=inner,
        groups=config.integer("mamba_n_groups"),
        heads=heads,
        head_dim=head_dim,
        state=config.integer("mamba_d_state"),
        kernel=kernel_of(config, "mamba_d_conv"),
    )


def gated_delta_net(config: Fields) -> GatedDeltaNet:
    """Read a gated delta net under the names of Qwen3-Next; its heads of values share those of keys evenly."""
    k_heads, v_heads = config.integer("linear_num_key_heads"), config.integer("linear_num_value_heads")
    if v_heads % k_heads:
        raise config.contradicts(
            "linear_num_value_heads", "linear_num_key_heads", why=f"{v_heads} heads cannot share {k_heads} evenly"
        )
    return GatedDeltaNet(
        k_heads=k_heads,
        v_heads=v_heads,
        k_dim=config.integer("linear_key_head_dim"),
        v_dim=config.integer("linear_value_head_dim"),
        kernel=kernel_of(config, "linear_conv_kernel_dim"),
    )


def kimi_delta(heads: int, head_dim: int, kernel: int) -> Layer:
    """Return a layer of Kimi delta attention, whose state vLLM keeps in float32 whatever the model's dtype."""
    return state(KimiDelta(heads, head_dim, heads, head_dim, kernel), "float32")


def kernel_of(config: Fields, *names: str) -> int:
    """Return the width of a causal convolution in tokens: its state holds one input less."""
    return config.integer(*names, high=1024)
