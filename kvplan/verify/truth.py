"""The true output of one (request, query head) row: keys and values recomputed from the hash, attention in float64.

Nothing is read from the pool, so a pool that lies about its memory cannot agree with itself.
"""

from __future__ import annotations

import torch

from kvplan.kernels.fill import PATTERNS
from kvplan.kernels.reference import decode, pattern, worst_row
from kvplan.verify.device import Attention, Row

SLAB = 8192  # tokens recomputed at a time: 50 MB of indices


def error(work: Row, q: torch.Tensor, out: torch.Tensor, sinks: torch.Tensor | None) -> float:
    """Return the relative error of one output row; q and out are those of its request and head, sink logits too."""
    layer = work.step.layers[work.layer]
    length = work.step.batch.lengths[layer.group][work.request]
    blocks = torch.tensor(work.step.batch.blocks[layer.group][work.request], dtype=torch.int64)
    first = length - layer.seen(length)
    kept = _rows(layer, blocks, work.head // (layer.heads // layer.kv_heads), first, length, work.salt)[None, :, None]
    truth = decode(
        q.cpu()[None, None],
        kept[..., : layer.key],
        None if layer.latent else kept[..., layer.key :],
        torch.zeros(1, 1, dtype=torch.int32),
        torch.tensor([length - first], dtype=torch.int32),
        scale=layer.key**-0.5,
        latent=layer.value if layer.latent else 0,
        sinks=None if sinks is None else sinks.cpu()[None],
        softcap=SOFTCAP if layer.softcap else None,
    )
    return float(worst_row(out.cpu()[None, None], truth))


SOFTCAP = 50.0  # Gemma-2's; any model that caps its logits at all does so at 30 or 50


def _rows(layer: Attention, blocks: torch.Tensor, kv_head: int, first: int, last: int, salt: int) -> torch.Tensor:
    """Return one KV head's rows [tokens, key and value] of the tokens [first, last) as the fill left them."""
    dtype = getattr(torch, layer.dtype)
    width = layer.key if layer.latent else layer.key + layer.value
    words = width * dtype.itemsize // 4
    found = []
    for start in range(first, last, SLAB):
        token = torch.arange(start, min(start + SLAB, last))
        place = blocks[token // layer.page] * (layer.page_bytes // 4)
        place += (kv_head * layer.page + token % layer.page) * words
        raw = pattern(place[:, None] + torch.arange(words), salt, *PATTERNS[dtype])
        found.append(raw.view(dtype))
    return torch.cat(found)
