"""Which form each matrix has: what a quantization section, or --quantization, says about a module by its name.

Sources: the get_quant_method of each method's class in vLLM 0.33.0, model_executor/layers/quantization. What a method
never touches there: embeddings; the output head, but for a few methods.
"""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Packed
from kvplan.model.weights.schemes import compressed, floats, integers, modelopt, quark
from kvplan.model.weights.schemes.scheme import UNQUANTISED, Capability, Reader, Scheme, one_form

_METHODS: dict[str, Reader] = {
    "fp8": floats.fp8,
    "fbgemm_fp8": floats.fbgemm,
    "mxfp8": floats.mxfp8,
    "gptq": integers.gptq,
    "gptq_marlin": integers.gptq,
    "awq": integers.awq,
    "awq_marlin": integers.awq,
    "auto-round": integers.auto_round,
    "inc": integers.auto_round,
    "bitsandbytes": integers.bitsandbytes,
    "compressed-tensors": compressed.compressed_tensors,
    "modelopt": modelopt.modelopt,
    "modelopt_fp4": modelopt.modelopt,
    "modelopt_mxfp8": modelopt.modelopt,
    "modelopt_mixed": modelopt.modelopt,
    "quark": quark.quark,
}


def scheme_of(
    quantization: Quantization | None, asked: str | None, root: Fields, *, capability: Capability | None = None
) -> Scheme:
    """Return the scheme of a checkpoint's own section, else that of the flag, which quantises while loading.

    `capability` is the card's; None stands for the checkpoint itself, which no kernel has padded.
    """
    if quantization is None or not quantization.method:
        return floats.online(asked) if asked else UNQUANTISED
    section = Fields(quantization.section, where="quantization_config", root=root)
    if quantization.method == "mxfp4":
        return floats.mxfp4(section, capability)
    if quantization.method == "fp8" and root.model_type == "deepseek_v4":
        return floats.deepseek_v4(section, quantization)
    reader = _METHODS.get(quantization.method)
    found = reader(section, quantization) if reader is not None else None
    return found if found is not None else _by_bits(quantization)


def _by_bits(quantization: Quantization) -> Scheme:
    """Return a guess for a method that is not known: packed integers of the section's bits, 8 where it has none."""
    bits = quantization.bits if quantization.bits in (2, 4, 8) else 8
    return Scheme(one_form(Packed(bits, quantization.group, "compressed-tensors")), certain=False)
