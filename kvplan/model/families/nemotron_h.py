"""Nemotron-H and Nemotron 3: Mamba-2, attention, MLP and expert layers by a pattern; and the wrappers around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kvplan.errors import UnknownArchitecture
from kvplan.model.families import Reader, reads
from kvplan.model.families._attention import GroupedQuery, grouped_query, sliding_window
from kvplan.model.families._latent import draft_count
from kvplan.model.families._state import FULL, LINEAR, block_types, kernel_of, state, state_dtype
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Layer, Mamba2, Shape

_OF_LETTER = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}


def _reader(dtype: Callable[[Fields], str | None], *, drafts: bool = True) -> Reader:
    """Return a reader that keeps the recurrent state in `dtype`; `drafts`: its prediction layers can be built."""

    def read(config: Fields) -> Shape:
        types = _types(config)
        heads = grouped_query(config)
        layers = _layers(types, state(_mamba(config), dtype(config)), _attention(config, heads))
        return heads.shape(layers, draft_layers=_drafts(config, heads) if drafts else ())

    return read


def _own(config: Fields) -> str | None:
    # vLLM takes the config's dtype, float32 without one; an explicit `auto` leaves the model's.
    given = state_dtype(config, "mamba_ssm_cache_dtype")
    return given if given is not None or config.has("mamba_ssm_cache_dtype") else "float32"


def _model(_config: Fields) -> str | None:
    return None


reads("NemotronHForCausalLM", model_types=("nemotron_h",))(_reader(_own))
# vLLM looks the dtype rule up by the architecture's name and knows this one wrapper (model_executor/models/config.py).
reads("NemotronH_Nano_VL_V2")(_reader(_own, drafts=False))
reads("NemotronH_Nano_Omni_Reasoning_V3")(_reader(_model, drafts=False))
reads("NemotronH_Super_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3", model_types=("nemotron_h_omni",))(
    _reader(_model)
)


@reads("Cosmos3EdgeForConditionalGeneration", model_types=("cosmos3_edge", "cosmos3_edge_text"))
def read_cosmos(config: Fields) -> Shape:
    """Return the shape of Cosmos 3 Edge, whose layers are a Nemotron-H attention and an MLP each, without states."""
    heads = grouped_query(config)
    return heads.shape([heads.full()] * config.layers())


@reads("NemotronHPuzzleForCausalLM", model_types=("nemotron_h_puzzle",))
def read_puzzle(config: Fields) -> Shape:
    """Return the shape of a pruned Nemotron-H, whose `block_configs` give each layer its own fields."""
    blocks = config.raw("block_configs")
    if not isinstance(blocks, list) or not 0 < len(blocks) <= MAX_LAYERS:
        raise config.bad("block_configs", f"a list of 1 to {MAX_LAYERS} objects", blocks)
    merged = [_merged(config, block, f"block_configs[{index}]") for index, block in enumerate(blocks)]
    types = [_block_type(block) for block in merged]
    if FULL not in types:
        raise UnknownArchitecture("kvplan does not read a Nemotron-H Puzzle without attention layers")
    heads = grouped_query(merged[types.index(FULL)])
    mamba = state(_mamba(config), _own(config)) if LINEAR in types else ()
    layers = [
        _attention(block, grouped_query(block)) if name == FULL else mamba if name == LINEAR else ()
        for block, name in zip(merged, types, strict=True)
    ]
    return heads.shape(layers)


def _merged(config: Fields, block: object, where: str) -> Fields:
    """Return the config as one layer sees it: its block's fields before the model's."""
    if not isinstance(block, Mapping):
        raise config.bad(where, "an object", block)
    given = {name: value for name, value in block.items() if value is not None}
    return Fields({**config.mapping(), **given}, where=where, root=config.root)


def _block_type(block: Fields) -> str:
    known = {"mamba": LINEAR, "attention": FULL, "moe": "moe", "mlp": "mlp"}
    name = block.maybe_text("block_type")
    if name is None:
        raise block.lacks("block_type")
    if name not in known:
        raise block.bad("block_type", f"one of {', '.join(known)}", name)
    return known[name]


def _types(config: Fields) -> list[str]:
    """Return the layer types, from a list of names or from a pattern string such as `M-M*-`."""
    names = ("layers_block_type", "layer_types")
    pattern = config.maybe_text("hybrid_override_pattern")
    given = next((config.maybe_texts(name) for name in names if config.has(name)), None)
    if given is not None:
        count = config.layers() if config.has("num_hidden_layers") else len(given)
        types = block_types(config, count, LINEAR, FULL, "mlp", "moe", names=names) or []
    elif pattern is None:
        raise config.lacks("hybrid_override_pattern", "layers_block_type")
    else:
        count = config.layers() if config.has("num_hidden_layers") else len(pattern)
        if len(pattern) != count or len(pattern) > MAX_LAYERS:
            why = f"{len(pattern)} letters for {count} layers"
            raise config.contradicts("hybrid_override_pattern", "num_hidden_layers", why=why)
        types = _spelled(config, pattern)
    return types


def _spelled(config: Fields, pattern: str) -> list[str]:
    for letter in pattern:
        if letter not in _OF_LETTER:
            raise config.bad("hybrid_override_pattern", f"made of {' '.join(_OF_LETTER)}", pattern)
    return [_OF_LETTER[letter] for letter in pattern]


def _layers(types: Sequence[str], mamba: Layer, attention: Layer) -> list[Layer]:
    kept = {LINEAR: mamba, FULL: attention}
    return [kept.get(name, ()) for name in types]


def _attention(config: Fields, heads: GroupedQuery) -> Layer:
    return heads.within(sliding_window(config))


def _mamba(config: Fields) -> Mamba2:
    heads, head_dim = config.integer("mamba_num_heads"), config.integer("mamba_head_dim")
    groups = config.integer("mamba_n_groups", "n_groups")
    kernel = kernel_of(config, "mamba_d_conv", "conv_kernel")
    return Mamba2(heads * head_dim, groups, heads, head_dim, config.integer("ssm_state_size"), kernel)


def _drafts(config: Fields, heads: GroupedQuery) -> tuple[Layer, ...]:
    """Return the prediction steps, each a short pattern of layers whose attention layers keep a cache."""
    count = draft_count(config, "num_nextn_predict_layers")
    types = config.maybe_texts("mtp_layers_block_type")
    pattern = config.maybe_text("mtp_hybrid_override_pattern") or "*E"  # the class's default
    attending = sum(name in (FULL, "attention") for name in types) if types is not None else pattern.count("*")
    return (_attention(config, heads) * attending,) * count
