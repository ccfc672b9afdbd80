"""AMD's Quark: FP8 per tensor or channel, and MXFP4, for all but the excluded modules."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Fp8, Microscaled
from kvplan.model.weights.patterns import exact_or_pattern
from kvplan.model.weights.schemes.scheme import KV_SCALES, Scheme, names_of, one_form


def quark(section: Fields, _quantization: Quantization) -> Scheme | None:
    """Return the scheme of one global config; None where its form, or one of a layer's own, is not known here."""
    whole = section.maybe_section("global_quant_config")
    weight = whole.maybe_section("weight") if whole is not None else None
    own = section.maybe_section("layer_quant_config")
    if whole is None or weight is None or (own is not None and own.names()):
        return None
    form = _form(weight, whole.maybe_section("input_tensors"))
    if form is None:
        return None
    return Scheme(one_form(form, exact_or_pattern(names_of(section, "exclude"))), scales=KV_SCALES)


def _form(weight: Fields, inputs: Fields | None) -> Form | None:
    dtype, scheme = weight.maybe_text("dtype"), weight.maybe_text("qscheme")
    static = inputs is not None and not inputs.flag("is_dynamic")
    if dtype == "fp8_e4m3" and scheme == "per_tensor":
        return Fp8("tensor", inputs=static)
    if dtype == "fp8_e4m3" and scheme == "per_channel":
        return Fp8("channel", inputs=static)
    if dtype == "fp4" and scheme == "per_group" and weight.maybe_integer("group_size") == 32:
        return Microscaled(4)
    return None
