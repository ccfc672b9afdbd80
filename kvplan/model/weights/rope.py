"""The tables of rotary embeddings, which engines compute once for all positions and keep on every rank.

Rows by the rope's type (vLLM 0.33.0, model_executor/layers/rotary_embedding), columns are the rotated elements:

    default, llama3, dynamic, ntk     the config's longest length; M-RoPE keeps four times as many
    linear                            that times the factor
    yarn and DeepSeek's               the original length times the factor
    longrope                          the original length and the longest, one after the other
    proportional                      the longest length, over the whole head
"""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part

MAX_POSITIONS = 2**32
_DEFAULT_POSITIONS = 8192
_YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn"})
_MROPE_COPIES = 4


def rope_table(
    config: Fields,
    head_dim: int,
    *,
    name: str = "rotary_emb.cos_sin_cache",
    layer_type: str | None = None,
    partial: float | None = None,
    positions: int | None = None,
    dtype: str = MODEL,
    copies: int | None = None,
    scaled: bool = True,
) -> list[Part]:
    """Return the table for heads of `head_dim` elements.

    `layer_type` picks a nested section of rope_parameters; `partial` is the class's share of rotated elements, where
    the config gives none; `positions` stands in for the longest length; `copies` for M-RoPE's four; not `scaled`: the
    config's scaling is not this table's (the local layers of Gemma 3).
    """
    section = _section(config, layer_type) if scaled else None
    kind = _kind(section)
    longest = positions or config.maybe_integer("max_position_embeddings", "n_positions", high=MAX_POSITIONS)
    longest = longest or _DEFAULT_POSITIONS
    factor = (section.maybe_number("factor") if section is not None else None) or 1.0
    rows = longest
    if kind == "linear":
        rows = int(longest * factor)
    elif kind in _YARN:
        rows = int(_original(config, section, longest) * factor)
    elif kind == "longrope":
        rows = longest + _original(config, section, longest)
    if section is not None and (section.has("mrope_section") or kind == "mrope"):
        rows *= copies or _MROPE_COPIES
    if not 0 < rows <= MAX_POSITIONS:
        raise config.bad("rope_scaling", f"a table of at most {MAX_POSITIONS} positions", rows)
    width = head_dim if kind == "proportional" else rotated(config, section, head_dim, partial)
    return [Scope().table(name, rows, width, dtype=dtype)]


def tables_by_kind(config: Fields, head_dim: int) -> list[Part]:
    """Return a table for each kind of layer that has rotary parameters of its own; else the one that all share."""
    section = config.maybe_section("rope_parameters", "rope_scaling")
    own = {
        kind: None
        for kind in config.maybe_texts("layer_types") or []
        if section is not None and isinstance(section.raw(kind), dict)
    }
    return [part for kind in own or [None] for part in rope_table(config, head_dim, layer_type=kind)]


def rotated(config: Fields, section: Fields | None, head_dim: int, partial: float | None) -> int:
    """Return how many elements of a head are rotated."""
    given = section.maybe_number("partial_rotary_factor") if section is not None else None
    given = given or config.maybe_number("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
    if given is None and (width := config.maybe_integer("rotary_dim")) is not None:
        return width
    share = given or partial or 1.0
    if not 0 < share <= 1:
        raise config.bad("partial_rotary_factor", "a share of a head, above 0 and at most 1", share)
    return int(head_dim * share)


def _section(config: Fields, layer_type: str | None) -> Fields | None:
    section = config.maybe_section("rope_parameters", "rope_scaling")
    if section is None or layer_type is None or not isinstance(section.raw(layer_type), dict):
        return section
    return section.maybe_section(layer_type)


def _kind(section: Fields | None) -> str:
    kind = section.maybe_text("rope_type", "type") if section is not None else None
    return "longrope" if kind == "su" else kind or "default"


def _original(config: Fields, section: Fields | None, longest: int) -> int:
    """Return the length before scaling: the config's own field comes before the section's."""
    name = "original_max_position_embeddings"
    own = config.maybe_integer(name, high=MAX_POSITIONS)
    inner = section.maybe_integer(name, high=MAX_POSITIONS) if section is not None else None
    return own or inner or longest
