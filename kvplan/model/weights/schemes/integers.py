"""Methods that pack integers into words: GPTQ and AWQ; and bitsandbytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from kvplan.errors import InvalidConfig
from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Int8, Nvfp4, Packed
from kvplan.model.weights.patterns import compiled, contained, first_match, in_time, spellings
from kvplan.model.weights.schemes.scheme import PLAIN, Scheme, names_of, one_form, routed
from kvplan.model.weights.tensors import Kind

PACKING = frozenset({"gptq", "gptq_marlin", "auto_gptq", "awq", "awq_marlin", "auto_awq", "auto-round", "inc"})
_PLAIN_BITS = 16
_MARLIN_BITS = (4, 8)
_MAX_PATTERNS = 512
_ROUND_TILE = 64  # AutoRound's experts are not padded to Marlin's tile
_SPECIAL = re.compile(r"[*+?^$()\[\]{}|\\]")  # in a key of extra_config that is a pattern


def gptq(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of GPTQ: `dynamic` skips modules ("-:pattern") or gives them bits and a group of their own."""
    symmetric = section.flag("sym", default=True)
    form = Packed(quantization.bits or 4, quantization.group, "gptq", zero_points=not symmetric)
    only = section.raw("modules_in_block_to_quantize")
    wanted = contained(_flat(only)) if isinstance(only, list) and only else None
    changed = first_match(_rules(section, form), form)
    head = section.flag("lm_head")

    def choose(name: str, kind: Kind) -> Form:
        if kind == "experts":
            return changed(routed(name))
        if kind == "embedding" or (kind == "head" and not head) or not (wanted is None or wanted(name)):
            return PLAIN
        return PLAIN if changed(_merged(name)) is PLAIN else changed(name)

    return Scheme(choose)


def _rules(section: Fields, form: Packed) -> list[tuple[str, Form]]:
    """Return GPTQModel's overrides: a pattern of names, and the form of the modules that it matches."""
    overrides = section.maybe_section("dynamic")
    if overrides is None:
        return []
    rules: list[tuple[str, Form]] = []
    for rule in overrides.names():
        change = overrides.maybe_section(rule)
        changed: Form = form
        if rule.startswith("-:"):
            changed = PLAIN
        elif change is not None:
            bits, group = change.maybe_integer("bits", high=8), change.maybe_integer("group_size", low=-1)
            size = form.group if group is None else group
            changed = replace(form, bits=bits or form.bits, group=size if size is not None and size > 0 else None)
        rules.append((rule.removeprefix("-:").removeprefix("+:"), changed))
    return rules


def _flat(names: list[object]) -> list[str]:
    flat = [inner for name in names for inner in (name if isinstance(name, list) else [name])]
    return [name for name in flat if isinstance(name, str)]


def awq(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of AWQ."""
    zero_points = section.flag("zero_point", default=True)
    form = Packed(quantization.bits or 4, quantization.group, "awq", zero_points)
    skip = contained(names_of(section, "modules_to_not_convert"))
    choose = one_form(form, lambda name: skip(name) or skip(_merged(name)), head=section.flag("lm_head"))
    return Scheme(lambda name, kind: choose(routed(name) if kind == "experts" else name, kind))


_MERGED = {
    "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj",
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj",
}  # fmt: skip


def _merged(name: str) -> str:
    """Return the name of the matrix that the engine merges this one into, which a listed text may be found in too."""
    place, _, last = name.rpartition(".")
    return f"{place}.{_MERGED.get(last, last)}"


def auto_round(section: Fields, quantization: Quantization) -> Scheme | None:
    """Return the scheme of AutoRound, which packs as GPTQ or AWQ do; `extra_config` gives modules bits of their own.

    None: floats, and widths that no kernel but Humming's takes.
    """
    if (section.maybe_text("data_type") or "int") != "int" or quantization.bits not in _MARLIN_BITS:
        return None
    formats = [section.maybe_text(name) or "" for name in ("packing_format", "backend", "vllm_backend")]
    gptq_like = not formats[0] or any("gptq" in text for text in formats)
    layout: Literal["gptq", "awq"] = "gptq" if gptq_like else "awq"
    zero_points = not section.flag("sym", default=True)
    form = Packed(quantization.bits, quantization.group, layout, zero_points, _ROUND_TILE)
    blocks = _texts(section, "block_name_to_quantize") or _texts(section, "to_quant_block_names")
    change = _changes(section, form)

    def choose(name: str, kind: Kind) -> Form:
        if kind == "embedding":
            return PLAIN
        module = routed(name) if kind == "experts" else name
        inside = any(spelling.startswith(block) for block in blocks for spelling in spellings(module))
        return change(module, form if (inside if blocks else kind != "head") else PLAIN)

    return Scheme(choose)


def _texts(section: Fields, name: str) -> list[str]:
    """Return a list that may be written as one text with commas."""
    return (
        (section.maybe_text(name) or "").split(",") if isinstance(section.raw(name), str) else names_of(section, name)
    )


def _changes(section: Fields, form: Packed) -> Callable[[str, Form], Form]:
    """Return what `extra_config` makes of a module's form: by its name, the end of it, or a pattern found in it."""
    extra = section.maybe_section("extra_config")
    named: dict[str, Form] = {}
    patterns: list[tuple[re.Pattern[str], Form]] = []
    for key in extra.names() if extra is not None else []:
        change = extra.maybe_section(key) if extra is not None else None
        if change is None:
            continue
        bits, group = change.maybe_integer("bits", high=64), change.maybe_integer("group_size", low=-1)
        size = form.group if group is None else group if group > 0 else None
        zero_points = not change.flag("sym", default=not form.zero_points)
        changed: Form = replace(form, bits=bits or form.bits, group=size, zero_points=zero_points)
        if (bits or form.bits) >= _PLAIN_BITS:
            changed = PLAIN
        if _SPECIAL.search(key):
            patterns.append((compiled(key), changed))
        else:
            named[key] = changed
    if len(patterns) > _MAX_PATTERNS:
        raise InvalidConfig(f"the quantization section has {len(patterns)} patterns in extra_config")

    def change_of(name: str) -> Form | None:
        for spelling in spellings(name):
            parts = spelling.split(".")
            found = next((named[end] for i in range(len(parts)) if (end := ".".join(parts[i:])) in named), None)
            if found is None:
                found = next((changed for pattern, changed in patterns if pattern.search(spelling)), None)
            if found is not None:
                return found
        return None

    timed = in_time(change_of)
    return lambda name, otherwise: timed(name) or otherwise


def bitsandbytes(section: Fields, _quantization: Quantization) -> Scheme:
    """Return the scheme of NF4 or LLM.int8: 4 or 8 bits an element, a scale a run of 64 inputs or an output."""
    skip = contained(names_of(section, "llm_int8_skip_modules"))
    form: Form = Int8("channel") if section.flag("load_in_8bit") else Nvfp4(64, None)
    return Scheme(one_form(form, skip), certain=False)
