"""Methods that store floats of 8 or 4 bits: FP8, FBGEMM's, MXFP4, MXFP8, and what --quantization makes of others."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Fp8, Int8, Microscaled, Nvfp4
from kvplan.model.weights.patterns import contained, excluded, holding, listed
from kvplan.model.weights.schemes.scheme import KV_SCALES, PLAIN, Capability, Choose, Scheme, names_of, one_form
from kvplan.model.weights.tensors import Kind

# What the MXFP4 kernel of a card rounds an expert's width on one rank and the hidden size up to, by the major compute
# capability; Marlin's runs on the others. Source: vLLM 0.33.0, fused_moe/oracle/mxfp4.py.
_MXFP4_TILES = {9: (64, 1), 10: (128, 256)}
_MARLIN_TILE = (128, 256)


def fp8(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of FP8 per tensor or per block."""
    static = section.maybe_text("activation_scheme") == "static"
    if quantization.block is None:
        form = Fp8("tensor", inputs=static)
    else:
        form = Fp8(quantization.block, scale_name="weight_scale_inv")
    return Scheme(_fp8_choice(section, form, form), scales=KV_SCALES)


def deepseek_v4(section: Fields, quantization: Quantization) -> Scheme:
    """Return DeepSeek-V4's own: block FP8 with power-of-two scales, and experts in MXFP4, NVFP4 or FP8."""
    dense = Fp8(quantization.block or (128, 128), scale_dtype="float8_e8m0fnu", scale_name="weight_scale_inv")
    experts: Form = Nvfp4() if section.maybe_text("moe_quant_algo") == "NVFP4" else Microscaled(4)
    if section.root.maybe_text("expert_dtype") == "fp8":
        experts = dense
    return Scheme(_fp8_choice(section, dense, experts))


def _fp8_choice(section: Fields, dense: Form, experts: Form) -> Choose:
    """Return the choice by an FP8 section's lists; experts are one module, which any listed child of it keeps plain."""
    ignored = names_of(section, "ignored_layers") or names_of(section, "modules_to_not_convert")
    skip, routed = listed(ignored), holding([name for name in ignored if "experts" in name])

    def choose(name: str, kind: Kind) -> Form:
        if kind == "experts":
            return PLAIN if routed(name.partition(".experts")[0] + ".experts") else experts
        return dense if kind == "linear" and not skip(name) else PLAIN

    return choose


def fbgemm(section: Fields, _quantization: Quantization) -> Scheme:
    """Return the scheme of FBGEMM's FP8 per channel, which leaves experts alone."""
    choose = one_form(Fp8("channel", upper_bound=True), listed(names_of(section, "modules_to_not_convert")))
    return Scheme(lambda name, kind: PLAIN if kind == "experts" else choose(name, kind))


def mxfp4(section: Fields, capability: Capability | None) -> Scheme:
    """Return the scheme of MXFP4 experts; linear layers are left alone."""
    skip = contained(names_of(section, "modules_to_not_convert"))
    tile = (1, 1) if capability is None else _MXFP4_TILES.get(capability[0], _MARLIN_TILE)
    form = Microscaled(4, ("weight", "weight_scale"), tile)
    return Scheme(lambda name, kind: form if kind == "experts" and not skip(name) else PLAIN)


def mxfp8(section: Fields, _quantization: Quantization) -> Scheme:
    """Return the scheme of MXFP8, which quantises the output head too."""
    skip = excluded(names_of(section, "ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules"))
    return Scheme(one_form(Microscaled(8), skip, head=True), scales=KV_SCALES)


_ONLINE: dict[str, Form] = {
    "fp8": Fp8("tensor"), "fp8_per_tensor": Fp8("tensor"), "fp8_per_channel": Fp8("channel"),
    "fp8_per_block": Fp8((128, 128)), "mxfp8": Microscaled(8), "mxfp4": Microscaled(4),
}  # fmt: skip
_ONLINE_EXPERTS: dict[str, Form] = {
    "int8_per_channel_weight_only": Int8("channel"), "experts_int8": Int8("channel"), "nvfp4_per_token": Nvfp4(),
}  # fmt: skip


def online(asked: str) -> Scheme:
    """Return the scheme of --quantization for a checkpoint that is not quantised: it is, as it is loaded."""
    if asked in _ONLINE_EXPERTS:
        experts = _ONLINE_EXPERTS[asked]
        return Scheme(lambda _name, kind: experts if kind == "experts" else PLAIN)
    form = _ONLINE.get(asked)
    return Scheme(one_form(form or Fp8("channel")), certain=form is not None)
