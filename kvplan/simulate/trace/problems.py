"""What is wrong with rows: counted, with the first row that has it; refused at once where the user is strict."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvplan.errors import UnreadableInput

# Rows with one of these are left out of the replay; of the others the row is replayed as the words say
LEFT_OUT = frozenset({"unreadable_row", "open_quote", "no_lengths", "bad_lengths", "prompt_too_long", "never_fits"})
_GIVE_UP = 1000  # a file whose first thousand rows are none is no trace
WORDS = {
    "unreadable_row": "no row that can be read",
    "open_quote": "a quote that its line does not close",
    "no_lengths": "no lengths",
    "bad_lengths": "lengths that are no lengths",
    "bad_time": "no time that can be read: taken as at the time of the row before",
    "bad_priority": "a priority that is no whole number: taken as 0",
    "clock_backwards": "earlier than a row before: it joins behind that one",
    "duplicate_id": "an id that was there before: replayed as a request of its own",
    "short_hash_ids": "too few hash_ids for the prompt: the rest is taken as shared with nobody",
    "too_many_turns": "more turns than the 1,000 of one conversation that are replayed",
    "blank_lines": "too many blank lines in a row: what comes after them is not read",
    "truncated_gzip": "the end of the file is missing: what came before it is replayed",
    "prompt_too_long": "a prompt that leaves no room below max_model_len: the engine refuses it",
    "never_fits": "more blocks needed than the pool has: it would wait for ever, and is left out",
    "nothing_sampled": "an output of 0 tokens: replayed with 1",
}


@dataclass(slots=True)
class Seen:
    """How often a problem was met, and first where: the row, counted from 0 without a header."""

    count: int
    first_row: int
    example: str


@dataclass(slots=True)
class Problems:
    """The problems met so far, by code."""

    strict: bool = False
    seen: dict[str, Seen] = field(default_factory=dict)
    found: int = 0  # requests so far

    def note(self, code: str, row: int, example: str) -> None:
        """Count a problem; raises UnreadableInput where the user is strict."""
        if self.strict:
            raise UnreadableInput(f"row {row}: {example}", f"{WORDS[code]}; without --strict such rows are counted")
        seen = self.seen.setdefault(code, Seen(0, row, example))
        seen.count += 1
        if not self.found and code in LEFT_OUT and seen.count == _GIVE_UP:
            raise UnreadableInput(f"no request in {_GIVE_UP:,} rows", f"row {seen.first_row}: {seen.example}")
