"""Methods that pack integers into words: GPTQ and AWQ; and bitsandbytes."""

from __future__ import annotations

from typing import Literal

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Int8, Nvfp4, Packed
from kvplan.model.weights.patterns import contained, exact_or_pattern, first_match
from kvplan.model.weights.schemes.scheme import PLAIN, Scheme, names_of, one_form
from kvplan.model.weights.tensors import Kind

_PLAIN_BITS = 16


def gptq(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of GPTQ: `dynamic` skips modules ("-:pattern") or gives them bits and a group of their own."""
    form = Packed(quantization.bits or 4, quantization.group, "gptq")
    only = section.raw("modules_in_block_to_quantize")
    wanted = contained(_flat(only)) if isinstance(only, list) and only else None
    changed = first_match(_rules(section, form), form)
    head = section.flag("lm_head")

    def choose(name: str, kind: Kind) -> Form:
        if kind == "embedding" or (kind == "head" and not head) or not (wanted is None or wanted(name)):
            return PLAIN
        return changed(name)

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
            changed = Packed(bits or form.bits, size if size is not None and size > 0 else None, "gptq")
        rules.append((rule.removeprefix("-:").removeprefix("+:"), changed))
    return rules


def _flat(names: list[object]) -> list[str]:
    flat = [inner for name in names for inner in (name if isinstance(name, list) else [name])]
    return [name for name in flat if isinstance(name, str)]


def awq(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of AWQ."""
    form = Packed(quantization.bits or 4, quantization.group, "awq")
    skip = contained(names_of(section, "modules_to_not_convert"))
    return Scheme(one_form(form, skip, head=section.flag("lm_head")))


def auto_round(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of AutoRound, which packs as GPTQ or AWQ do; `extra_config` keeps some modules plain."""
    layout: Literal["gptq", "awq"] = "awq" if "awq" in (section.maybe_text("packing_format") or "") else "gptq"
    form = Packed(quantization.bits or 4, quantization.group, layout)
    extra = section.maybe_section("extra_config")
    kept = [name for name in extra.names() if _is_plain(extra.maybe_section(name))] if extra is not None else []
    return Scheme(one_form(form, exact_or_pattern(kept)))


def _is_plain(change: Fields | None) -> bool:
    return change is not None and (change.maybe_integer("bits") or 0) >= _PLAIN_BITS


def bitsandbytes(section: Fields, _quantization: Quantization) -> Scheme:
    """Return the scheme of NF4 or LLM.int8: 4 or 8 bits an element, a scale a run of 64 inputs or an output."""
    skip = contained(names_of(section, "llm_int8_skip_modules"))
    form: Form = Int8("channel") if section.flag("load_in_8bit") else Nvfp4(64, None)
    return Scheme(one_form(form, skip), certain=False)
