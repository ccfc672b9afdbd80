"""What every reader does with a row: check its lengths, its time and its id, and make a request of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvplan.simulate.request import Request, Source, Span
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trace.values import MAX_TOKENS, nanoseconds, tokens, whole

MAX_IDS = 1_000_000  # as many ids are compared; a hash of each takes 60 bytes
_SHOWN = 40
NOT_GIVEN = object()


@dataclass(slots=True)
class Rows:
    """The rows of one trace in order; times come out in nanoseconds."""

    problems: Problems
    unit: str
    _latest: int | None = None
    _ids: set[int] = field(default_factory=set)

    def request(
        self,
        row: int,
        prompt: object,
        output: object,
        *,
        arrival: object = NOT_GIVEN,
        ident: object = None,
        priority: object = None,
        salt: object = None,
        spans: tuple[Span, ...] = (),
        answer: Source | None = None,
    ) -> Request | None:
        """Return the request of a row, None where its lengths are none."""
        lengths = self.lengths(row, prompt, output)
        if lengths is None:
            return None
        self.problems.found += 1
        self.identify(row, ident)
        return Request(
            row,
            self.time(row, arrival),
            *lengths,
            spans,
            answer,
            self.priority(row, priority),
            str(salt)[:_SHOWN] if salt else "",
        )

    def lengths(self, row: int, prompt: object, output: object) -> tuple[int, int] | None:
        """Return both lengths in tokens; a prompt has one at least."""
        if prompt is None or output is None or prompt == "" or output == "":
            self.problems.note("no_lengths", row, "it gives no tokens of prompt or output")
            return None
        read = (tokens(prompt), tokens(output))
        if read[0] is None or read[1] is None or read[0] == 0:
            wrong = output if read[0] else prompt
            self.problems.note("bad_lengths", row, f"{shorten(wrong)} is no length from 0 to {MAX_TOKENS:,} tokens")
            return None
        if read[1] == 0:
            self.problems.note("nothing_sampled", row, "an output of 0 tokens")
        return read[0], read[1]

    def time(self, row: int, value: object) -> int:
        """Return when a row arrives, which is with the latest so far where it does not say.

        A row that says it is earlier than one before keeps its time, as the engine is given the rows in their order.
        """
        latest = self._latest
        if value is NOT_GIVEN:
            return latest or 0
        read = nanoseconds(value, self.unit)
        if read is None:
            self.problems.note("bad_time", row, f"{shorten(value)} is no time")
            return latest or 0
        if latest is not None and read < latest:
            self.problems.note("clock_backwards", row, f"{shorten(value)} is before the row above")
        else:
            self._latest = read
        return read

    def priority(self, row: int, value: object) -> int:
        """Return how urgent a row is, 0 where it does not say; to vLLM the lower is the more urgent, below 0 too."""
        if value is None or value == "":
            return 0
        read = whole(value)
        if read is None:
            self.problems.note("bad_priority", row, f"{shorten(value)} is no whole number")
        return read or 0

    def identify(self, row: int, ident: object) -> None:
        """Note an id that was there before, among the first million."""
        if ident is None or ident == "" or len(self._ids) >= MAX_IDS:
            return
        key = hash(str(ident))
        if key in self._ids:
            self.problems.note("duplicate_id", row, f"id {shorten(ident)} again")
        self._ids.add(key)


def shorten(value: object) -> str:
    """Return a stranger's value for a message."""
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
