"""What a config says of context length, under the names that checkpoints have used for it."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Length, Rope

_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
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
    ropes = _ropes(text)
    if any("gemma3" in (place.maybe_text("model_type") or "") for place in (text, text.root)):
        # Gemma 3 gives its length already stretched, and every engine leaves it so
        ropes = tuple(Rope(rope.kind, None, None) for rope in ropes)
    return Length(
        limit=limit,
        key=key,
        ropes=ropes,
        original=text.maybe_integer("original_max_position_embeddings", high=_HIGH),
        model_max_length=override,
        tokenizer=tokenizer,
    )


def _ropes(text: Fields) -> tuple[Rope, ...]:
    """Return the scalings. rope_parameters is the newer name of rope_scaling; either holds one, or one a layer type."""
    section = text.maybe_section("rope_parameters", "rope_scaling")
    if section is None:
        return ()
    nested = [inner for name in section.names() if (inner := _maybe(section, name)) is not None]
    found = []
    for one in nested if nested and not section.has("rope_type", "type") else [section]:
        factor = one.maybe_number("factor")
        if factor is not None and not 0 < factor < _LARGEST_FACTOR:
            raise one.bad("factor", f"a number above 0 and below {_LARGEST_FACTOR}", factor)
        original = one.maybe_integer("original_max_position_embeddings", high=_HIGH)
        found.append(Rope(one.maybe_text("rope_type", "type") or "default", factor, original))
    return tuple(found)


def _maybe(section: Fields, name: str) -> Fields | None:
    return section.maybe_section(name) if isinstance(section.raw(name), dict) else None
