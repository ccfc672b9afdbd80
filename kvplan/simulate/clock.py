"""How long a step lasts on the virtual clock: integer arithmetic, so that every run gives the same series."""

from __future__ import annotations

from dataclasses import dataclass

PS = 1000  # picoseconds in a nanosecond: at 8 TB/s a token of 16 KiB is read in 2 ns, which must not be rounded


@dataclass(frozen=True, slots=True)
class Clock:
    """A step that schedules T tokens of R requests lasts `step_ps + token_ps * T + kv_token_ps * K + request_ps * R`.

    In picoseconds, cut to whole nanoseconds. K is the tokens in the KV cache that the step reads: over the scheduled
    requests, their computed tokens after the step. A step that schedules nothing takes no time. The defaults are a
    convention of the published replays, roughly Llama-3.1-8B in bf16 on an H100, not a measurement.
    """

    step_ps: int = 5_000_000 * PS
    token_ps: int = 25_000 * PS
    kv_token_ps: int = 40 * PS
    request_ps: int = 0

    def duration_ns(self, tokens: int, kv_tokens: int, requests: int) -> int:
        """Return how long a step lasts, in nanoseconds."""
        if not tokens:
            return 0
        return (self.step_ps + self.token_ps * tokens + self.kv_token_ps * kv_tokens + self.request_ps * requests) // PS


CONVENTION = Clock()
