"""DeepSeek-V4's pages: latents of compressed tokens beside a short window, and the compressors' own running states.

Everything is packed into blocks of 256 tokens with 576-byte alignment, whatever the KV dtype flag says. Source: the
engine's own classes; the sizes are those of its rows in tests/golden.
"""

from __future__ import annotations

from kvplan.engine.vllm.pages import Kind, Page
from kvplan.model.spec import CompressedLatent

_ALIGN = 576
_STATE_BYTES = 584  # 448 latent bytes in fp8, 64 rope elements in bf16, 8 bytes of scales
_WINDOW_BLOCK = 64
# A compressor's running state shares pages with latents, which fixes its block: 4 tokens at ratio 4, 8 at ratio 128
_COMPRESSOR_BLOCK = {4: 4, 128: 8}
RATIOS = frozenset({0, 1, *_COMPRESSOR_BLOCK})


def compressed_pages(cache: CompressedLatent, block_size: int) -> list[Page]:
    """Return the pages of one layer: the window, the compressed latents, the indexer, and the compressors' states."""
    pages = [
        Page(Kind.LATENT_WINDOW, _WINDOW_BLOCK, _STATE_BYTES, span=cache.window, align=_ALIGN, form=("window",)),
    ]
    if cache.ratio <= 1:
        return pages
    pages.append(
        Page(Kind.LATENT, block_size, _STATE_BYTES, tokens_per_state=cache.ratio, align=_ALIGN, form=("compressed",))
    )
    pages.append(_compressor(cache.head_dim, cache.ratio))
    if cache.index_head_dim is not None:
        key = cache.index_head_dim + -(-cache.index_head_dim // 128) * 4
        pages.append(Page(Kind.LATENT, block_size, key, tokens_per_state=cache.ratio, align=_ALIGN, form=("indexer",)))
        pages.append(_compressor(cache.index_head_dim, cache.ratio))
    return pages


def _compressor(head_dim: int, ratio: int) -> Page:
    """Return the page of a compressor: keys and scores in float32, twice over at ratio 4 whose windows overlap."""
    overlap = 2 if ratio == 4 else 1
    return Page(
        Kind.LATENT_WINDOW,
        _COMPRESSOR_BLOCK[ratio],
        2 * overlap * head_dim * 4,
        span=overlap * ratio,
        align=_ALIGN,
        form=("compressor", head_dim),
    )
