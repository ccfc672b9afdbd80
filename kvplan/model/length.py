"""What a config says of context length, under the names that checkpoints have used for it."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Length

_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
# Rope types whose factor is already part of the length that the config gives.
_SCALED = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope", "default"})
_HIGH = 2**40
_LARGEST_FACTOR = 2**20


def read_length(text: Fields, tokenizer: int | None) -> Length:
    """Read the length fields of the text section; the smallest given one is the limit."""
    override = text.maybe_integer("model_max_length", high=_HIGH)
    # an override decides: what the class would have assumed is not read, and so not told as assumed
    keys = _KEYS if override is None else [key for key in _KEYS if text.has(key)]
    given = {key: value for key in keys if (value := text.maybe_integer(key, high=_HIGH)) is not None}
    key = min(given, key=given.__getitem__) if given else None
    limit = given[key] if key is not None else None
    if override is not None:
        key, limit = "model_max_length", override
    types, factor = _rope(text)
    if any("gemma3" in (place.maybe_text("model_type") or "") for place in (text, text.root)):
        factor = 1.0  # Gemma 3 gives its length already stretched, and every engine leaves it so
    return Length(
        limit=limit,
        key=key,
        rope_types=types,
        factor=factor,
        original=text.maybe_integer("original_max_position_embeddings", high=_HIGH),
        model_max_length=override,
        tokenizer=tokenizer,
    )


def _rope(text: Fields) -> tuple[tuple[str, ...], float]:
    """Return the rope types met and the factor by which they stretch the given length.

    rope_parameters is the newer name of rope_scaling; either may hold one section, or one a layer type.
    """
    section = text.maybe_section("rope_parameters", "rope_scaling")
    if section is None:
        return (), 1.0
    nested = [inner for name in section.names() if (inner := _maybe(section, name)) is not None]
    sections = nested if nested and not section.has("rope_type", "type") else [section]
    types, factor = [], 1.0
    for one in sections:
        kind = one.maybe_text("rope_type", "type") or "default"
        types.append(kind)
        if kind not in _SCALED:
            factor = one.maybe_number("factor") or factor
            if not 0 < factor < _LARGEST_FACTOR:
                raise one.bad("factor", f"a number above 0 and below {_LARGEST_FACTOR}", factor)
    return tuple(types), factor


def _maybe(section: Fields, name: str) -> Fields | None:
    return section.maybe_section(name) if isinstance(section.raw(name), dict) else None
