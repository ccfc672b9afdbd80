"""NVIDIA's ModelOpt: one algorithm for a checkpoint, or one for each module."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Fp8, Microscaled, Nvfp4
from kvplan.model.weights.patterns import Matcher, excluded, spellings
from kvplan.model.weights.schemes.scheme import KV_SCALES, PLAIN, Choose, Scheme, names_of
from kvplan.model.weights.tensors import MODEL, Kind

_MODELOPT: dict[str, Form] = {
    "FP8": Fp8("tensor", inputs=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Fp8("channel"),
    "FP8_PB_WO": Fp8((128, 128)),
    "FP8_BLOCK_SCALES": Fp8((128, 128)),
    "NVFP4": Nvfp4(),
    "W4A16_NVFP4": Nvfp4(inputs=MODEL),
    "MXFP8": Microscaled(8),
}
_EXPERTS = Fp8("tensor", inputs=True)  # whatever the scales of the other matrices
_UNTOUCHED = ("vision_tower", "vision_model", "vit_large_projector")


def modelopt(section: Fields, quantization: Quantization) -> Scheme | None:
    """Return the scheme of ModelOpt: one algorithm for all but the excluded modules, or the one listed for each."""
    inner = section.maybe_section("quantization") or section
    algorithm = (inner.maybe_text("quant_algo") or "").upper()
    skip = excluded(names_of(inner, "exclude_modules") or names_of(section, "ignore", "exclude_modules"))
    scales = KV_SCALES if quantization.kv_dtype is not None or algorithm != "MIXED_PRECISION" else ()
    if algorithm == "MIXED_PRECISION":
        return Scheme(_mixed(inner, skip), scales, latent=True)
    form = _MODELOPT.get(algorithm)
    if form is None:
        return None
    if isinstance(form, Nvfp4) and quantization.group is not None:
        form = Nvfp4(quantization.group, form.inputs)

    def choose(name: str, kind: Kind) -> Form:
        if kind == "embedding" or skip(name) or any(text in name for text in _UNTOUCHED):
            return PLAIN
        return _EXPERTS if kind == "experts" and isinstance(form, Fp8) else form

    return Scheme(choose, scales, latent=True)


def _mixed(section: Fields, skip: Matcher) -> Choose:
    layers = section.maybe_section("quantized_layers")
    forms: dict[str, Form] = {}
    for name in layers.names() if layers is not None else []:
        one = layers.maybe_section(name) if layers is not None else None
        algorithm = (one.maybe_text("quant_algo") or "").upper() if one is not None else ""
        forms[name] = _MODELOPT.get(algorithm, PLAIN)
    # Experts are asked for as one module; any child's entry answers for it, its own or its parent's.
    routed = {name.partition(".experts")[0] + ".experts": form for name, form in forms.items() if ".experts" in name}

    def choose(name: str, kind: Kind) -> Form:
        if kind == "embedding" or skip(name):
            return PLAIN
        known = forms if kind != "experts" else routed
        wanted = name if kind != "experts" else name.partition(".experts")[0] + ".experts"
        names = (*spellings(wanted), "lm_head") if kind == "head" else spellings(wanted)
        return next((known[spelling] for spelling in names if spelling in known), PLAIN)

    return choose
