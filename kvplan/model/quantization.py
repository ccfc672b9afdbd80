"""The quantization section of a checkpoint: which method, and which KV-cache dtype it declares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.model.fields import Fields
from kvplan.model.spec import ModelSpec, Quantization

_MODELOPT = {
    "FP8": "modelopt", "FP8_PER_CHANNEL_PER_TOKEN": "modelopt", "FP8_PB_WO": "modelopt", "NVFP4": "modelopt_fp4",
    "MXFP8": "modelopt_mxfp8", "MIXED_PRECISION": "modelopt_mixed",
}  # fmt: skip
_KV_ALGORITHMS = {"fp8": "fp8", "fp8_e4m3": "fp8", "nvfp4": "nvfp4"}

_QUANTISED_NAME = re.compile(r"[-_.](FP8|NVFP4|MXFP4|AWQ|GPTQ|INT4|INT8|W4A16|W8A8)\b", re.ASCII | re.IGNORECASE)


def missing_quantization(model: ModelSpec) -> str | None:
    """Return the format that a checkpoint's name says and its files do not: hf_quant_config.json was left behind."""
    named = _QUANTISED_NAME.search(model.id)
    return named[1] if named is not None and model.quantization is None else None


def read_quantization(root: Fields, text: Fields, side_file: Mapping[str, Any] | None) -> Quantization | None:
    """Read quantization_config (or compression_config) of the root, of the text section, or hf_quant_config.json.

    Engines read the side file only where config.json has no section, so the order here is theirs.
    """
    section = None
    for place in (root, text):
        section = place.maybe_section("quantization_config", "compression_config")
        if section is not None:
            break
    if section is None and side_file is not None:
        section = Fields(side_file, where="hf_quant_config.json", root=root)
    if section is None or not section.names():
        return None
    inner = section.maybe_section("quantization") or section
    side = Fields(side_file, where="hf_quant_config.json", root=root) if side_file is not None else None
    return Quantization(
        method=_method(section),
        bits=section.maybe_integer("bits", "w_bit", high=64),
        block=_block(section),
        group=_group(section),
        kv_dtype=_kv_dtype(section, inner),
        section=section.mapping(),
        side_kv_dtype=None if side is None else _kv_dtype(side, side.maybe_section("quantization") or side),
    )


def _method(section: Fields) -> str:
    """Return the method's name; ModelOpt names its algorithm one level down instead.

    A ModelOpt section that lies flat, without quant_method, is not recognised by engines, so it names no method here.
    """
    inner = section.maybe_section("quantization")
    algorithm = inner.maybe_text("quant_algo") if inner is not None else None
    if algorithm is not None:
        return _MODELOPT.get(algorithm.upper(), "modelopt")
    return (section.maybe_text("quant_method") or "").lower().replace("_tensors", "-tensors")


def _block(section: Fields) -> tuple[int, int] | None:
    sizes = section.maybe_integers("weight_block_size", low=1)
    return (sizes[0], sizes[1]) if sizes is not None and len(sizes) == 2 else None


def _group(section: Fields) -> int | None:
    """Return the group size of 4-bit formats; -1 there means one group for the whole row."""
    found = section.maybe_integer("group_size", "q_group_size", low=-1)
    return found if found is not None and found > 0 else None


def _kv_dtype(section: Fields, inner: Fields) -> str | None:
    """Return the KV-cache dtype that the checkpoint declares: `fp8` or `nvfp4`; None where it declares none.

    ModelOpt writes a scheme or an algorithm's name, at either level; compressed-tensors writes a scheme.
    """
    for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for place in (inner, section):
            if isinstance(place.raw(name), str):
                return _KV_ALGORITHMS.get((place.maybe_text(name) or "").lower())
            scheme = place.maybe_section(name)
            if scheme is not None:
                return {4: "nvfp4", 8: "fp8"}.get(scheme.maybe_integer("num_bits", high=32) or 8)
    return None
