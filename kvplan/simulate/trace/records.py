"""JSONL traces: Mooncake, records with lengths, OpenAI-like request logs, ShareGPT-like conversations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvplan.simulate.request import Request, Span
from kvplan.simulate.trace.chats import Conversations, messages_of, turns_of
from kvplan.simulate.trace.layout import Layout, find_roles
from kvplan.simulate.trace.lines import MAX_LINE
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trace.rows import NOT_GIVEN, Rows
from kvplan.simulate.trace.values import tokens

MAX_TURNS = 1000  # of one conversation; each repeats all before it, so that the work grows with the square
HASH_TOKENS = 512  # a hash id of the Mooncake traces stands for so many tokens of the prompt (FAST'25 release, README)


def read_records(lines: Iterable[str], layout: Layout, problems: Problems) -> Iterator[Request]:
    """Yield the requests of a file with one JSON object a line."""
    reader: _Reader | None = None
    row = -1
    for line in lines:
        if not line.strip():
            continue
        row += 1
        record = _object(line)
        if record is None:
            problems.note("unreadable_row", row, "no JSON object" if len(line) < MAX_LINE else "a line of 16 MiB")
            continue
        if reader is None:
            unit = layout.unit or ("ms" if "hash_ids" in record else "s")
            reader = _Reader(layout, Rows(problems, unit), Conversations(layout.counter()))
        yield from reader.requests(row, record)


class _Reader:
    def __init__(self, layout: Layout, rows: Rows, conversations: Conversations) -> None:
        self._layout = layout
        self._rows = rows
        self._conversations = conversations

    def requests(self, row: int, record: Mapping[str, Any]) -> Iterator[Request]:
        turns = turns_of(record)
        if turns is not None:
            yield from self._conversation(row, record, turns)
            return
        flat = _flat(record)
        found = _Found(find_roles(flat) | dict(self._layout.columns), flat)
        prompt, output = found.value("prompt"), found.value("output")
        spans: tuple[Span, ...] = ()
        answer = None
        messages = messages_of(flat)
        if isinstance(prompt, str) and messages:
            prompt = None  # the field `prompt` of a completion request is its text
        if messages:
            text = _answer(record)
            spans = self._conversations.spans(messages, tokens(prompt)) or ()
            covered = sum(span[1] for span in spans)
            lacking = (tokens(prompt) or 0) - covered
            if spans and lacking > 0:
                spans += ((("row", row), lacking),)
            prompt = max(covered, covered + lacking) or prompt
            output = self._conversations.length(text) if text and output is None else output
            if text and (length := tokens(output)):
                answer = self._conversations.answer(text, length)
        elif isinstance(record.get("hash_ids"), list):
            spans = self._hashed(row, record["hash_ids"], tokens(prompt) or 0)
        request = self._rows.request(row, prompt, output, **found.rest(), spans=spans, answer=answer)
        if request is not None:
            yield request

    def _conversation(self, row: int, record: Mapping[str, Any], turns: list[tuple[str, str]]) -> Iterator[Request]:
        """Every answer is a request whose prompt is all before it."""
        found = _Found(find_roles(record) | dict(self._layout.columns), record)
        if len(turns) > MAX_TURNS:
            self._rows.problems.note("too_many_turns", row, f"{len(turns):,} turns")
        for at, (role, text) in enumerate(turns[:MAX_TURNS]):
            if role != "assistant" or not at:
                continue
            spans = self._conversations.spans(turns[:at], None) or ()
            prompt = sum(span[1] for span in spans) or None
            output = self._conversations.length(text)
            answer = self._conversations.answer(text, output) if output else None
            request = self._rows.request(row, prompt, output, **found.rest(), spans=spans, answer=answer)
            if request is not None:
                yield request

    def _hashed(self, row: int, ids: list[Any], prompt: int) -> tuple[Span, ...]:
        """Return the spans that the hash ids name; the last id covers what is left of the prompt."""
        whole, rest = divmod(prompt, HASH_TOKENS)
        lengths = [HASH_TOKENS] * min(whole, len(ids)) + ([rest] if rest and len(ids) > whole else [])
        known = [key for key in ids[: len(lengths)] if isinstance(key, int | str)]
        spans: list[Span] = list(zip(known, lengths, strict=False))
        lacking = prompt - sum(span[1] for span in spans)
        if lacking:
            self._rows.problems.note("short_hash_ids", row, f"{len(known)} hash_ids for a prompt of {prompt:,} tokens")
            spans.append((("row", row), lacking))
        return tuple(spans)


class _Found:
    """The values of a record by role."""

    def __init__(self, names: Mapping[str, str], record: Mapping[str, Any]) -> None:
        self._names = names
        self._record = record

    def value(self, role: str) -> Any:
        name = self._names.get(role)
        return None if name is None else _path(self._record, name)

    def rest(self) -> dict[str, Any]:
        return {
            "arrival": self.value("arrival") if "arrival" in self._names else NOT_GIVEN,
            "ident": self.value("id"),
            "priority": self.value("priority"),
            "salt": self.value("salt"),
        }


def _object(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _path(record: Mapping[str, Any], name: str) -> Any:
    """Return a field by its dotted path, by its own name where that has dots."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Bring up what logs wrap: the request and its body, and the usage of the response."""
    flat = dict(record)
    for outer in ("request", "body"):
        inner = flat.get(outer)
        if isinstance(inner, Mapping):
            flat |= inner
    for holder in (flat, _response(record)):
        if isinstance(holder.get("usage"), Mapping):
            flat |= holder["usage"]
    return flat


def _response(record: Mapping[str, Any]) -> Mapping[str, Any]:
    response = record.get("response")
    body = response.get("body", response) if isinstance(response, Mapping) else None
    return body if isinstance(body, Mapping) else record


def _answer(record: Mapping[str, Any]) -> str:
    """Return the text of the first choice, empty where the log keeps none."""
    choices = _response(record).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return ""
    message = first.get("message")
    text = message.get("content") if isinstance(message, Mapping) else first.get("text")
    return text if isinstance(text, str) else ""
