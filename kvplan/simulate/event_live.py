"""A request inside the event engine, and what is counted of a step."""

from __future__ import annotations

from kvplan.simulate.replay import Job
from kvplan.simulate.series import RequestRow
from kvplan.simulate.settings import Settings
from kvplan.simulate.tree import Node, Place, plan_steps


class EventLive:
    """A request inside the engine. `computed`, `held` and `keyed` (blocks) are up to date while it does not decode.

    While it decodes it has computed `base` + t tokens before step t; `last` is the last step that it takes part in, and
    `known` stays what it was when it began. Its text is keyed along `place` for the first `shared` blocks; behind them
    come tokens that no other request repeats, keyed in a `tail` of its own. One that `writes` has no tail: later
    prompts may repeat its answer.
    """

    __slots__ = (
        "arrival_step", "base", "computed", "decoding", "first_sched_ns", "first_sched_step", "first_token_ns",
        "first_token_step", "held", "hit_first", "job", "keyed", "known", "last", "place", "preemptions", "prompt",
        "rank", "shared", "tail", "writes",
    )  # fmt: skip

    def __init__(self, job: Job, settings: Settings, arrival_step: int) -> None:
        request = job.request
        self.job = job
        self.prompt = self.known = request.prompt
        self.computed = self.held = self.keyed = self.base = self.rank = self.preemptions = 0
        self.last = -1
        self.decoding = False
        spans = request.spans if settings.prefix_caching else ()
        self.writes = False
        if request.answer is not None and settings.prefix_caching:
            self.writes = True
            spans = (*(spans or ((("row", request.row), request.prompt),)), (request.answer, job.max_tokens))
        self.place = Place(plan_steps(spans, settings.block_size, request.salt))
        self.shared = sum(blocks for _, blocks in self.place.steps)
        self.tail = Node()
        self.arrival_step = arrival_step
        self.first_sched_step: int | None = None
        self.first_sched_ns: int | None = None
        self.first_token_step: int | None = None
        self.first_token_ns: int | None = None
        self.hit_first: int | None = None

    def row(self, finish_step: int | None, now: int) -> RequestRow:
        """Return what became of it; `finish_step` None: it did not finish."""
        seq, child, request, max_tokens = self.job
        return RequestRow(
            seq, request.row, child, self.prompt, max_tokens, request.arrival_ns, self.arrival_step,
            self.first_sched_step, self.first_token_step, finish_step, None if finish_step is None else now,
            self.preemptions, self.hit_first, self.known - self.prompt,
        )  # fmt: skip


class Counts:
    """What happens in one step, beside the decodes that are merely counted."""

    __slots__ = ("admitted", "again", "chunks", "decodes", "first", "hit", "pre_asked", "pre_hit", "preempted",
                 "queried", "read", "tokens")  # fmt: skip

    def __init__(self) -> None:
        self.chunks = self.tokens = self.read = self.decodes = self.preempted = 0
        self.first = self.queried = self.hit = 0
        self.again = self.pre_asked = self.pre_hit = 0
