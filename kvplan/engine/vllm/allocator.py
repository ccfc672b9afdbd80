"""What torch's allocator adds to the weights: large matrices are rounded up to 2 MiB where no rest is split off.

"Model loading took" and the budget count the rounded blocks. A matrix of 10 MiB or more gets a segment of its own, a
multiple of 2 MiB; what is left over is split off for others if it is more than 1 MiB. Source: torch's caching
allocator; it explains what 19 public logs of 0.11 to 0.19 load beyond their parameters (up to 0.12 GiB) to 0.006 GiB.
"""

from __future__ import annotations

from kvplan.engine.vllm.activation.widths import Widths
from kvplan.engine.vllm.launch import Launch
from kvplan.ledger import Line
from kvplan.units import MIB

_LARGE = 10 * MIB
_SEGMENT = 2 * MIB
_WORTH_SPLITTING = MIB
_BYTE_FORMATS = frozenset({"fp8", "fbgemm_fp8", "deepseek_v4_fp8"})


def allocator_lines(launch: Launch) -> list[Line]:
    """Return the rounding of one rank's matrices as a line, where there is any or where it is not known."""
    item = launch.settings.item_size
    if launch.quantised:
        quantization = launch.model.quantization
        method = launch.args.quantization or (quantization.method if quantization is not None else "")
        if method not in _BYTE_FORMATS:
            return [Line("allocator", 0, 0, 64 * MIB, "modelled", "the rounding of packed weights is not known")]
        item = 1
    size = launch.layers * sum(_rounding(rows * columns * item) for rows, columns in _matrices(launch.widths()))
    if not size:
        return []
    return [Line("allocator", size, size // 2, size + 16 * MIB, "modelled", "large matrices rounded up to 2 MiB")]


def _matrices(widths: Widths) -> list[tuple[int, int]]:
    """Return the large matrices of one layer as the engine merges them: rows and columns."""
    hidden, found = widths.hidden, []
    if widths.attention is not None and widths.latent is None:
        query, key, value = widths.attention.query, widths.attention.key, widths.attention.value
        found += [(query + key + value, hidden), (query, hidden)]
    wide = widths.experts.shared if widths.experts is not None else widths.mlp
    return [*found, ((widths.matrices - 1) * wide, hidden), (wide, hidden)]


def _rounding(size: int) -> int:
    rest = -size % _SEGMENT
    return rest if size >= _LARGE and rest <= _WORTH_SPLITTING else 0
