"""How vLLM puts layers into groups that share one pool of block ids.

One group where all pages are alike; one mixed group where all layers need the same blocks; packed groups for
DeepSeek-V4's block-outermost layout; else pages are made equal and layers are split into groups of one size. A block
id costs the widest group's pages, whichever group takes it. Source: the engine's planner, re-derived; layers are named
by their position.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from kvplan.engine.vllm.pages import LOCAL, WHOLE_LENGTH, Kind, Page, Scheduling, blocks_per_request
from kvplan.record import dataclass


class CannotGroup(Exception):
    """The engine would fail at start-up: these pages share no layout. The message says why."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table: their positions and pages, in order, each page once, and the bytes of all."""

    layers: tuple[int, ...]
    pages: tuple[Page, ...]
    distinct: tuple[Page, ...]
    bytes: int

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return self.pages[0].block_size

    def blocks(self, length: int, scheduling: Scheduling) -> int:
        """Return the blocks that one request of `length` tokens claims."""
        return max(blocks_per_request(page, length, scheduling) for page in self.distinct)


def group_layers(
    pages: Sequence[Page], *, packed: bool = False, hybrid: bool = True, ratio: float = 1.5
) -> tuple[Group, ...]:
    """Group the pages of all layers of a model; raises CannotGroup where the engine would fail.

    `packed`: the layout has the block dimension outermost (DeepSeek-V4). `hybrid`: False treats windows and chunks as
    whole-length attention, as --disable-hybrid-kv-cache-manager does. `ratio`: buckets of layers whose counts differ
    by less are padded to the larger (1.5 in 0.33).
    """
    pages = list(pages) if hybrid else _promoted(pages)
    if not pages:
        return ()
    everything = list(enumerate(pages))
    if _mergeable(pages) or _same_blocks(pages):
        return (_group(everything),)
    if packed and len({page.bytes for page in pages}) > 1:
        return _packed(everything)
    unified = _unified(pages)
    if unified is None:
        promoted = _fallback(pages)
        if promoted is None:
            raise CannotGroup("page sizes cannot be made equal: a latent page does not divide the largest page")
        return (_group(list(enumerate(promoted))),)
    return _split(list(enumerate(unified)), ratio)


def bytes_per_block(groups: Sequence[Group]) -> int:
    """Return what one block id costs: the widest group."""
    return max(group.bytes for group in groups)


def _group(members: Sequence[tuple[int, Page]]) -> Group:
    pages = tuple(page for _, page in members)
    layers, distinct = tuple(layer for layer, _ in members), tuple(dict.fromkeys(pages))
    return Group(layers, pages, distinct, sum(page.bytes for page in pages))


def _mergeable(pages: Sequence[Page]) -> bool:
    """Whether the engine merges them into one specification.

    Whole-length pages merge whatever window they were promoted from, as long as there is only one such window.
    """
    distinct = set(pages)
    if pages[0].kind in WHOLE_LENGTH:
        spans = {page.span for page in distinct if page.span}
        return len(spans) <= 1 and len({replace(page, span=0) for page in distinct}) == 1
    return len(distinct) == 1


def _same_blocks(pages: Sequence[Page]) -> bool:
    """Whether all need the same number of blocks for any request, so that one block table serves them."""
    first = pages[0]
    if len({(page.block_size, page.sharded) for page in pages}) > 1:
        return False
    if first.kind in WHOLE_LENGTH:
        return all(page.kind in WHOLE_LENGTH for page in pages)
    if first.kind is Kind.STATE:
        return all(page.kind is Kind.STATE and page.bytes == first.bytes for page in pages)
    if first.kind is Kind.CROSS:
        return all(page.kind is Kind.CROSS for page in pages)
    windows = (Kind.WINDOW, Kind.LATENT_WINDOW) if first.kind is Kind.WINDOW else (first.kind,)
    return all(page.kind in windows and page.span == first.span for page in pages)


def _promoted(pages: Sequence[Page]) -> list[Page]:
    """Treat windows and chunks as whole-length attention, which then must all fit one group."""
    found = list(pages)
    if not found or _mergeable(found) or _same_blocks(found):
        return found
    whole = [page for page in found if page.kind in WHOLE_LENGTH]
    if whole and any(page.kind in LOCAL for page in found):
        sizes = {page.block_size for page in whole}
        size = sizes.pop() if len(sizes) == 1 else None
        found = [_as_whole(page, size or page.block_size) if page.kind in LOCAL else page for page in found]
    if not (_mergeable(found) or _same_blocks(found)):
        raise CannotGroup("without the hybrid KV cache manager, all layers must be of one attention type")
    return found


def _as_whole(page: Page, block_size: int) -> Page:
    kind = Kind.LATENT if page.kind is Kind.LATENT_WINDOW else Kind.FULL
    grown = replace(page, kind=kind, block_size=block_size, padded=None)
    return grown if page.padded is None else replace(grown, padded=max(page.padded, grown.natural_bytes))


def _fallback(pages: Sequence[Page]) -> list[Page] | None:
    """A latent model beside ordinary windows (a draft's): windows are allocated as whole-length attention."""
    if any(page.kind in (Kind.LATENT_WINDOW, Kind.CHUNKED) for page in pages):
        return None
    kinds = {page.kind for page in pages}
    if not {Kind.LATENT, Kind.WINDOW} <= kinds:
        return None
    try:
        promoted = _promoted(pages)
    except CannotGroup:
        return None
    return promoted if _same_blocks(promoted) else None


def _unified(pages: Sequence[Page]) -> list[Page] | None:
    """Make all pages as large as the largest: by longer blocks where the ratio is whole, else by padding."""
    largest = max(page.bytes for page in pages)
    found = []
    for page in pages:
        if page.bytes == largest:
            found.append(page)
        elif page.kind is Kind.STATE:
            found.append(replace(page, padded=largest))
        elif largest % page.bytes == 0:
            found.append(replace(page, block_size=page.block_size * (largest // page.bytes)))
        elif page.kind is Kind.LATENT:
            return None
        else:
            found.append(replace(page, padded=largest))
    return found


def _split(members: Sequence[tuple[int, Page]], ratio: float) -> tuple[Group, ...]:
    """Bucket equal pages, then cut each bucket into groups of one size; a short last group wastes pages."""
    buckets: list[list[tuple[int, Page]]] = []
    for page, alike in _alike(members).items():
        for bucket in buckets:
            if _mergeable([*{page for _, page in bucket}, page]):
                bucket.extend(alike)
                break
        else:
            buckets.append(list(alike))
    sizes = [len(bucket) for bucket in buckets]
    # The smallest bucket is the repeating unit of an n:1 pattern; buckets of nearly one size are padded to the largest
    size = max(sizes) if max(sizes) < min(sizes) * ratio else min(sizes)
    groups = []
    for bucket in buckets:
        count = -(-len(bucket) // size)
        groups += [_padded_group(bucket[start::count], size) for start in range(count)]
    return tuple(groups)


def _alike(members: Sequence[tuple[int, Page]]) -> dict[Page, list[tuple[int, Page]]]:
    alike: dict[Page, list[tuple[int, Page]]] = defaultdict(list)
    for layer, page in members:
        alike[page].append((layer, page))
    return alike


def _padded_group(members: Sequence[tuple[int, Page]], size: int) -> Group:
    assert 0 < len(members) <= size
    return _group(members)


def _packed(members: Sequence[tuple[int, Page]]) -> tuple[Group, ...]:
    """Pack pages of several sizes side by side in a block (DeepSeek-V4).

    Layers that need the same blocks form a bucket. A bucket with as many layers of each page size is a repeating
    pattern; the largest such mixed bucket stays whole and sets how many repeats a group holds; larger buckets are split
    down towards it, so that padding is least.
    """
    buckets: list[list[tuple[int, Page]]] = []
    for member in members:
        for bucket in buckets:
            if _same_blocks([*(page for _, page in bucket), member[1]]):
                bucket.append(member)
                break
        else:
            buckets.append([member])
    balanced, repeats, mixed = [], [], []
    for bucket in buckets:
        counts = Counter(page.bytes for _, page in bucket)
        balanced.append(len(set(counts.values())) == 1)
        repeats.append(max(counts.values()))
        mixed.append(len(counts) > 1)
    floor = max((r for r, even, mix in zip(repeats, balanced, mixed, strict=True) if even and mix), default=0)
    per_group = _least_padding([r for r, even in zip(repeats, balanced, strict=True) if even], floor) if floor else None
    groups: list[Group] = []
    for bucket, even, count in zip(buckets, balanced, repeats, strict=True):
        parts = -(-count // per_group) if even and per_group else 1
        by_size: dict[int, list[tuple[int, Page]]] = defaultdict(list)
        for member in bucket:
            by_size[member[1].bytes].append(member)
        if parts == 1:
            groups.append(_group(bucket))
            continue
        patterns = list(zip(*by_size.values(), strict=True))
        groups += [_group([m for pattern in patterns[i::parts] for m in pattern]) for i in range(parts)]
    return tuple(groups)


def _least_padding(counts: Sequence[int], floor: int) -> int:
    """Return the group size from `floor` up that pads the counts least; of equals, the larger."""
    return min(range(floor, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))
