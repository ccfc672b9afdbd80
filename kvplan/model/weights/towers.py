"""Vision towers in the layout of CLIP and SigLIP, and what every multimodal wrapper needs: its language model, renamed.

An encoder's layers are no layers of the decoder: pipeline parallelism keeps the whole tower on the first stage. vLLM
0.33 splits most towers over the ranks as it splits decoders; those that it does not have the role `tower`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kvplan.model.families import architecture_of, readers
from kvplan.model.fields import Fields
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Linear, Part, Role, Stage
from kvplan.model.weights.text import Text

QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


def tower(prefix: str) -> Scope:
    """Return the place of an encoder."""
    return Scope(f"{prefix}." if prefix else "", stage=Stage.FIRST)


def section(text: Text, name: str = "vision_config") -> Fields:
    """Return a nested section of the whole config, with the defaults of its class; empty where it is missing."""
    root = text.config.root
    thinker = root.maybe_section("thinker_config")
    found = (thinker or root).maybe_section(name)
    if found is None:
        return Fields({}, where=name, root=root).as_type(root.section_type(name))
    return found if found.model_type else found.as_type(root.section_type(name))


# -- the language model inside ----------------------------------------------------------------------------------------

NESTED = {"model.": "language_model.model.", "lm_head": "language_model.lm_head"}


def language_model(
    text: Text, architecture: str | None = None, *, otherwise: str = "", names: Mapping[str, str] = NESTED
) -> list[Part]:
    """Return the parts of the nested language model under the wrapper's names.

    `architecture` is the one that the wrapper fixes; else the section's own counts, else that of its model type, else
    `otherwise`.
    """
    from kvplan.model.weights.families import NoRule, rule_of  # noqa: PLC0415  # the families import this module

    inner = architecture or _named(text.config) or otherwise
    rule = rule_of(inner)
    if rule is None:
        raise NoRule(inner)
    return renamed(rule(replace(text, architecture=inner, nested=True)), names)


def _named(config: Fields) -> str:
    flat = config.mapping() is config.root.mapping()
    named = None if flat else config.maybe_texts("architectures")
    if named:
        return named[0]
    implied = architecture_of(config.model_type)
    return implied if implied is not None and implied in readers() else ""


def renamed(parts: Iterable[Part], names: Mapping[str, str]) -> list[Part]:
    """Return the parts with the beginnings of their names exchanged."""

    def name(old: str) -> str:
        for start, new in names.items():
            if old.startswith(start):
                return new + old.removeprefix(start)
        return old

    return [replace(part, name=name(part.name)) for part in parts]


def unquantised(parts: Iterable[Part]) -> list[Part]:
    """Return the parts of a tower that no quantisation method touches, whatever the section says."""
    return [replace(part, kind="plain") if isinstance(part, Linear) else part for part in parts]


# -- encoders ---------------------------------------------------------------------------------------------------------


def encoder_layer(
    at: Scope,
    hidden: int,
    width: int,
    *,
    bias: bool = True,
    names: tuple[str, str, str] = QKV,
    out: str = "self_attn.out_proj",
    forward: tuple[str, ...] = ("mlp.fc1", "mlp.fc2"),
    norms: tuple[str, str] = ("layer_norm1", "layer_norm2"),
    norm_bias: bool = True,
    split: bool = True,
) -> list[Part]:
    """Return one kind of encoder layer; `at` counts how many there are. `forward` has three names where it is gated."""
    column, row = (Role.COLUMN, Role.ROW) if split else (Role.TOWER, Role.TOWER)
    *ups, down = forward
    return [
        *(at.linear(name, hidden, hidden, column, bias=bias, leads=name == names[0]) for name in names),
        at.linear(out, hidden, hidden, row, bias=bias),
        *(at.linear(up, width, hidden, column, bias=bias, leads=up == ups[0]) for up in ups),
        at.linear(down, hidden, width, row, bias=bias),
        *at.norms(hidden, *norms, bias=norm_bias),
    ]


def position_ids(at: Scope, count: int) -> Part:
    """Return the buffer of position numbers."""
    return at.table("position_ids", 1, count, dtype="int64")


def clip(prefix: str, config: Fields, depth: int | None = None, *, last_norm: bool = True) -> list[Part]:
    """Return a CLIP vision tower; `depth` layers of it where a wrapper reads an earlier layer's output."""
    hidden, count = config.integer("hidden_size"), config.integer("num_hidden_layers")
    at, kept = tower(prefix), count if depth is None else depth
    patch = config.integer("patch_size")
    positions = (config.integer("image_size") // patch) ** 2 + 1
    layers = at.under("encoder.layers.{}").copies(kept)
    parts: list[Part] = [
        at.tensor("embeddings.class_embedding", hidden),
        at.tensor("embeddings.patch_embedding.weight", hidden, config.integer("num_channels", default=3), patch, patch),
        at.tensor("embeddings.position_embedding.weight", positions, hidden),
        position_ids(at.under("embeddings"), positions),
        *at.norm("pre_layrnorm", hidden, bias=True),
        *encoder_layer(layers, hidden, config.integer("intermediate_size")),
    ]
    return parts if kept < count or not last_norm else [*parts, *at.norm("post_layernorm", hidden, bias=True)]


def siglip(
    prefix: str,
    config: Fields,
    depth: int | None = None,
    *,
    positions: int | None = None,
    ids: bool = True,
    last_norm: bool = True,
) -> list[Part]:
    """Return a SigLIP vision tower."""
    hidden, count = config.integer("hidden_size"), config.integer("num_hidden_layers")
    at, kept = tower(prefix), count if depth is None else depth
    patch = config.integer("patch_size")
    positions = positions or (config.integer("image_size") // patch) ** 2
    layers = at.under("encoder.layers.{}").copies(kept)
    parts: list[Part] = [
        at.tensor("embeddings.patch_embedding.weight", hidden, config.integer("num_channels", default=3), patch, patch),
        at.tensor("embeddings.patch_embedding.bias", hidden),
        at.tensor("embeddings.position_embedding.weight", positions, hidden),
        *([position_ids(at.under("embeddings"), positions)] if ids else []),
        *encoder_layer(layers, hidden, config.integer("intermediate_size")),
    ]
    return parts if kept < count or not last_norm else [*parts, *at.norm("post_layernorm", hidden, bias=True)]


def any_vit(prefix: str, config: Fields, depth: int | None = None) -> list[Part]:
    """Return the tower that a LLaVA's vision section names (CLIP, SigLIP or Pixtral), without its last norm."""
    match config.model_type:
        case "siglip_vision_model":
            return siglip(prefix, config, depth, last_norm=False)
        case "pixtral":
            return pixtral(prefix.removesuffix(".vision_model"), config, depth)
        case _:
            return clip(prefix, config, depth, last_norm=False)


def pixtral(prefix: str, config: Fields, depth: int | None = None) -> list[Part]:
    """Return a Pixtral vision tower: gated feed-forward layers, no biases, rotary positions."""
    hidden, count = config.integer("hidden_size"), config.integer("num_hidden_layers")
    at, patch = tower(prefix), config.integer("patch_size")
    layers = at.under("transformer.layers.{}").copies(count if depth is None else depth)
    head_dim = config.maybe_integer("head_dim") or hidden // config.integer("num_attention_heads")
    return [
        at.tensor("patch_conv.weight", hidden, config.integer("num_channels", default=3), patch, patch),
        *at.norm("ln_pre", hidden),
        *encoder_layer(
            layers,
            hidden,
            config.integer("intermediate_size"),
            bias=False,
            names=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
            out="attention.o_proj",
            forward=("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"),
            norms=("attention_norm", "ffn_norm"),
            norm_bias=False,
        ),
        *(at.table(f"patch_positional_embedding.{name}", head_dim // 2) for name in ("inv_freq", "original_inv_freq")),
    ]


def feature_depth(text: Text, vision: Fields) -> int:
    """Return how many layers a wrapper builds that reads the output of vision_feature_layer; the deepest of several."""
    count = vision.integer("num_hidden_layers")
    raw = text.config.root.raw("vision_feature_layer")
    one = text.config.root.integer("vision_feature_layer", low=-count, default=-2) if raw is None else raw
    chosen = one if isinstance(one, list) else [one]
    depths = [count + layer + 1 if layer < 0 else layer for layer in chosen if isinstance(layer, int)]
    return max((depth for depth in depths if 0 < depth <= count), default=count)


def rotary(prefix: str, positions: int, width: int) -> Part:
    """Return the rope table of a tower in the model's dtype."""
    return tower(prefix).table("rotary_pos_emb.cos_sin_cache", positions, width, dtype=MODEL)
