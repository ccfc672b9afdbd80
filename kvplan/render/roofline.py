"""The bounds of a deployment in words, and as the JSON object of `kvplan size --roofline`."""

from __future__ import annotations

from typing import Any

from kvplan.render.table import table
from kvplan.roofline import Roofline, kv_computations
from kvplan.units import GB, quantity

_HEADER = ("requests", "reads", "step", "tokens/s", "each")
_RIGHT = frozenset(range(len(_HEADER)))


def roofline_text(bounds: Roofline) -> list[str]:
    """Return the bounds as lines: decode at each batch, then prefill."""
    rate = f"{quantity(bounds.bandwidth / 10**12, 2)} TB/s, {bounds.basis}"
    rows = [
        (
            f"{step.batch:,}",
            f"{quantity((step.weight_bytes + step.kv_bytes) / GB, 2)} GB",
            f"{quantity(step.seconds * 1000, 2)} ms",
            quantity(step.tokens_per_second, 0),
            quantity(1 / step.seconds, 1),
        )
        for step in bounds.decode
    ]
    lines = [
        f"at best, with requests of {bounds.context:,} tokens (a bound: what one GPU reads in a step,",
        f"at {rate})",
        *table(_HEADER, rows, right=_RIGHT),
    ]
    if bounds.prefill is not None:
        fill = bounds.prefill
        speed = f"{quantity(fill.flops / 10**12, 1)} TFLOP at {quantity(fill.flops_per_second / 10**12, 0)} TFLOP/s"
        lines.append(f"a prompt of {fill.tokens:,} tokens: {quantity(fill.seconds * 1000, 1)} ms at best ({speed})")
    tokens, without = bounds.context, kv_computations(bounds.context, cached=False)
    return [*lines, f"written without a cache, {tokens:,} tokens compute {without:,} keys and values a layer"]


def roofline_object(bounds: Roofline) -> dict[str, Any]:
    """Return the bounds as JSON."""
    prefill = bounds.prefill
    return {
        "bandwidth": bounds.bandwidth,
        "basis": bounds.basis,
        "context": bounds.context,
        "decode": [
            {
                "batch": step.batch,
                "weight_bytes": step.weight_bytes,
                "kv_bytes": step.kv_bytes,
                "step_seconds": step.seconds,
                "tokens_per_second": step.tokens_per_second,
            }
            for step in bounds.decode
        ],
        "prefill": None
        if prefill is None
        else {"tokens": prefill.tokens, "flops": prefill.flops, "seconds": prefill.seconds},
    }
