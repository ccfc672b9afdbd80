"""What follows the forward pass on the last pipeline stage: logits for one row a request, and the sampler's copies.

None of it is divided over tensor-parallel ranks, nor does it depend on lengths or on the weights' format. Figures are
bytes. Source: vLLM's own dummy sampler pass on pretend tensors; what each release adds to a logit is in
profiles/engines/vllm.yaml.
"""

from __future__ import annotations

from kvplan.record import dataclass

_FLOAT = 4
_ROW_UNIT = 64  # logits come in rows padded to this


@dataclass(frozen=True, slots=True)
class Rows:
    """`rows` requests of `vocabulary` logits; `copies` of each row's hidden state are alive beside the batch's."""

    rows: int
    vocabulary: int
    hidden: int
    tokens: int
    item: int
    tp: int
    copies: int

    @property
    def held_bytes(self) -> int:
        """The hidden states of all tokens, and of the tokens that are sampled."""
        return (self.tokens + self.copies * self.rows) * self.hidden * self.item

    @property
    def logits_bytes(self) -> int:
        """The logits themselves."""
        return self.rows * -(-self.vocabulary // _ROW_UNIT) * _ROW_UNIT * self.item


def gathering_bytes(rows: Rows, *, softcap: bool) -> int:
    """Return the peak while logits are computed: two copies; with ranks the local part, the gathered, a reordered."""
    own = rows.logits_bytes
    if rows.tp > 1:
        return rows.held_bytes + 2 * own + own // rows.tp
    return rows.held_bytes + (2 if softcap else 1) * own


def sampling_bytes(rows: Rows, added: int, kept: int) -> int:
    """Return the sampler's peak: the logits, `added` bytes for each of them, and what it keeps."""
    return rows.held_bytes + rows.logits_bytes + added * rows.rows * rows.vocabulary + kept


def kept_rows_bytes(rows: Rows, multiprocessors: int) -> int:
    """Return the buffer of the Triton top-k: a row of float32 logits for each multiprocessor that is used."""
    used = 1 << (min(multiprocessors, rows.rows) - 1).bit_length() if rows.rows > 0 else 0
    return min(used, multiprocessors) * rows.vocabulary * _FLOAT
