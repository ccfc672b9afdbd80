"""Which kernel runs packed experts, and so how they are packed: Marlin's as they are stored, else WNA16's.

Marlin's wants whole groups of inputs on every rank. Where a rank's share of an expert's width is no whole number of
them, the engine takes a kernel that halves the groups until they fit, repeats the scales, and keeps no more than it
uses. Source: vLLM 0.33.0, check_moe_marlin_supports_config of layers/quantization/utils/marlin_utils, and
MoeWNA16Method of layers/quantization/moe_wna16.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.weights.forms import Form, Packed
from kvplan.model.weights.placement import Ranks, cut
from kvplan.model.weights.tensors import Linear

_MARLIN_GROUPS = (None, 32, 64, 128)
_MARLIN_HIDDEN = 128  # the hidden size is whole runs of these
_SMALLEST_GROUP = 32
_BITS = (4, 8)


def packed_for(matrix: Linear, form: Form, ranks: Ranks) -> Form:
    """Return the form in which the engine makes room for a matrix on such ranks."""
    if matrix.kind != "experts" or not isinstance(form, Packed) or form.layout not in ("gptq", "awq"):
        return form
    width, hidden = (matrix.columns, matrix.rows) if matrix.axis else (matrix.rows, matrix.columns)
    share = width if ranks.expert_parallel else cut(width, matrix, ranks)
    if form.bits not in _BITS or _runs_in_marlin(form, share, hidden):
        return form
    group = form.group or 0
    while group and (share % group or hidden % group):
        group //= 2
    return form if group < _SMALLEST_GROUP else replace(form, layout="wna16", group=group)


def _runs_in_marlin(form: Packed, share: int, hidden: int) -> bool:
    whole = share % max(form.group or 1, form.tile) == 0 and hidden % _MARLIN_HIDDEN == 0
    return whole and form.group in _MARLIN_GROUPS and not (form.layout == "gptq" and form.zero_points)
