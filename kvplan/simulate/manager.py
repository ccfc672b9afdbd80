"""The blocks of requests: what one can hit, whether it fits, what it takes, what it drops, and what gets a key."""

from __future__ import annotations

from itertools import islice

from kvplan.simulate.blocks import NULL, Pool
from kvplan.simulate.content import Chain
from kvplan.simulate.live import Live
from kvplan.simulate.settings import Settings
from kvplan.simulate.tables import admission_cap, blocks_for, dropped, keyed_positions, longest_hit


class CacheManager:
    """One pool, and the block tables of all requests in it, a table a KV group.

    Groups are always visited in their order: hits of all groups are referenced before anything is taken, then blocks
    are taken group by group, and freed group by group.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings.num_blocks)
        self._chain = Chain()
        self._caps = [admission_cap(window, settings) for window in settings.groups]

    def lookup(self, live: Live) -> tuple[list[list[int]], int]:
        """Return what the request can hit, a table a group, and how many tokens that is.

        The last token is never hit, as its output is wanted: a prompt that is cached whole computes its last block.
        """
        settings = self.settings
        if not settings.prefix_caching:
            return [[] for _ in settings.groups], 0
        limit = (live.known - 1) // settings.block_size
        hits, blocks, junction = longest_hit(
            self.pool, settings.groups, self._known_chain(live), limit, settings.block_size
        )
        live.junction = junction * settings.block_size
        return hits, blocks * settings.block_size

    def fits(self, live: Live, hits: list[list[int]], hit_tokens: int, tokens: int, *, keep: int) -> bool:
        """Whether the whole sequence, as far as it is known, fits now, and the first chunk of it.

        `keep` are the blocks that stay free. Only the chunk is taken and nothing is remembered: what running prompts
        still need is not kept for them.
        """
        settings = self.settings
        room = self.pool.free - keep
        if settings.reserve_full_isl:
            whole = min(live.known, settings.max_model_len)
            if self._lacking(hits, hit_tokens, whole, self._caps) > room:
                return False
        return self._lacking(hits, hit_tokens, hit_tokens + tokens, [None] * len(hits)) <= room

    def admit(self, live: Live, hits: list[list[int]], hit_tokens: int, tokens: int) -> None:
        """Give a request what it hits, and blocks for its first chunk."""
        for group, (window, table) in enumerate(zip(self.settings.groups, hits, strict=True)):
            gone = dropped(window, hit_tokens, self.settings.block_size)
            self.pool.hold(table[gone:])
            live.tables[group] = [NULL] * gone + table[gone:]
            live.keyed[group] = len(live.tables[group])
        live.computed = hit_tokens
        self._fill(live, hit_tokens + tokens)

    def grow(self, live: Live, tokens: int) -> bool:
        """Give a running request blocks for more tokens; False if they lack.

        It may use the last block: no gate, no watermark. What fell out of its window is freed also where blocks lack.
        """
        self._drop(live)
        held = blocks_for(live.computed + tokens, self.settings.block_size)
        # the tables of all groups are as long as each other, null blocks counted
        if len(live.tables) * (held - len(live.tables[0])) > self.pool.free:
            return False
        self._fill(live, live.computed + tokens)
        return True

    def free(self, live: Live) -> None:
        """Free a request's blocks group by group, each from its tail: the tail is evicted before the head."""
        for group, table in enumerate(live.tables):
            self.pool.release(reversed(table))
            live.tables[group] = []
            live.keyed[group] = 0

    def give_keys(self, live: Live, tokens: int) -> None:
        """Key the full blocks of the first `tokens` tokens that have no key yet."""
        if not self.settings.prefix_caching:
            return
        full = tokens // self.settings.block_size
        if full <= min(live.keyed):
            return
        chain = self._known_chain(live)
        boundaries = [live.prompt - 1, *([live.junction] if live.junction else [])]
        for group, window in enumerate(self.settings.groups):
            start, table = live.keyed[group], live.tables[group]
            if start >= full:
                continue
            for position in keyed_positions(window, start, full, self.settings, boundaries):
                if table[position] != NULL:
                    self.pool.give_key(table[position], (group, chain[position]))
            live.keyed[group] = full

    def _lacking(self, hits: list[list[int]], hit_tokens: int, upto: int, caps: list[int | None]) -> int:
        """Return the free blocks that it takes to hold `upto` tokens: new ones, and hit ones that nobody holds."""
        size = self.settings.block_size
        lacking = 0
        for window, table, cap in zip(self.settings.groups, hits, caps, strict=True):
            held = blocks_for(upto, size)
            if cap is not None:
                held = min(held, cap)
            gone = dropped(window, hit_tokens, size)
            lacking += max(0, held - max(gone, len(table)))
            lacking += sum(block != NULL and self.pool.refs[block] == 0 for block in table[gone:])
        return lacking

    def _fill(self, live: Live, upto: int) -> None:
        """Take the blocks for `upto` tokens and key those that become full.

        They can be hit from now on, before the GPU has written them: by the next request of this very step, too.
        """
        held = blocks_for(upto, self.settings.block_size)
        for table in live.tables:
            if held > len(table):
                table.extend(self.pool.take(held - len(table)))
        self.give_keys(live, min(upto, live.known))

    def _drop(self, live: Live) -> None:
        """Free what no later token can see, counting only delivered tokens: steps in flight still read the rest."""
        for window, table in zip(self.settings.groups, live.tables, strict=True):
            last = min(dropped(window, live.computed - live.in_flight, self.settings.block_size), len(table))
            if last == 0 or table[last - 1] == NULL:
                continue
            freed = []
            for position in range(last - 1, -1, -1):
                if table[position] == NULL:
                    break
                freed.append(table[position])
                table[position] = NULL
            self.pool.release(freed)

    def _known_chain(self, live: Live) -> list[int]:
        """Return the chain's numbers for the full blocks of the known tokens."""
        lacking = live.known // self.settings.block_size - len(live.chain)
        for content in islice(live.contents, max(0, lacking)):
            parent = live.chain[-1] if live.chain else live.request.salt
            live.chain.append(self._chain.number(parent, content))
        return live.chain
