"""Requests out of conversations: what a turn's prompt repeats of the turns before it, message by message.

A message is a source of its own, named by a digest of its role and text, so that equal beginnings of two conversations
share tokens up to the first message that differs. The tokens that chat templates put around messages are not counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from kvplan.simulate.request import Source, Span

MAX_MESSAGES = 200_000  # that are remembered; the oldest are forgotten
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant", "bing": "assistant"}


class Conversations:
    """Names and lengths of messages: equal ones are one source, as long as it was when it was first met.

    An answer is the source of its own tokens, once: who repeats its text repeats those.
    """

    def __init__(self, count: Callable[[str], int] | None) -> None:
        self._count = count
        self._known: OrderedDict[str, Span] = OrderedDict()
        self._answers = 0

    def spans(self, messages: Sequence[tuple[str, str]], prompt: int | None) -> tuple[Span, ...] | None:
        """Return the spans of a prompt; None where neither its length nor a way to measure its texts is known.

        A given length is spread over the messages that were not met before by their characters; what is left over goes
        to the last of them.
        """
        if self._count is None and prompt is None:
            return None
        names = [digest(*message) for message in messages]
        spans = {name: self._known[name] for name in names if name in self._known}
        new = {name: text for name, (_, text) in zip(names, messages, strict=True) if name not in spans}
        if self._count is not None:
            lengths = [self._count(text) for text in new.values()]
        else:
            left = (prompt or 0) - sum(spans[name][1] for name in names if name in spans)
            lengths = _spread(max(0, left), [len(text) for text in new.values()])
        for name, tokens in zip(new, lengths, strict=True):
            spans[name] = (name, tokens)
            self._learn(name, spans[name])
        return tuple(_cut([spans[name] for name in names], prompt if self._count is None else None))

    def answer(self, text: str, tokens: int) -> Source:
        """Give the tokens of an answer a source, and remember whose text it is."""
        self._answers += 1
        source: Source = ("answer", self._answers)
        if text:
            self._learn(digest("assistant", text), (source, tokens))
        return source

    def length(self, text: str) -> int | None:
        """Return the tokens of a text, where they can be measured."""
        return None if self._count is None else self._count(text)

    def _learn(self, name: str, span: Span) -> None:
        self._known.setdefault(name, span)
        self._known.move_to_end(name)
        if len(self._known) > MAX_MESSAGES:
            self._known.popitem(last=False)


def _spread(tokens: int, sizes: Sequence[int]) -> list[int]:
    """Spread tokens over texts by their sizes; the last takes what is left over."""
    shares = [tokens * size // max(1, sum(sizes)) for size in sizes]
    return [*shares[:-1], tokens - sum(shares[:-1])] if shares else []


def _cut(spans: Iterable[Span], prompt: int | None) -> Iterator[Span]:
    """Yield what of the spans lies inside a prompt, all of them where its length was not given."""
    left = prompt
    for source, tokens in spans:
        taken = tokens if left is None else min(tokens, left)
        if taken:
            yield source, taken
        if left is not None:
            left -= taken


def digest(role: str, text: str) -> str:
    """Name a message by what it says."""
    return blake2b(f"{role}\n{text}".encode(errors="surrogatepass"), digest_size=12).hexdigest()


def messages_of(record: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return the messages of an OpenAI-like request as (role, text); None where it has none."""
    messages = record.get("messages")
    if not isinstance(messages, list):
        prompt = record.get("prompt")
        return [("user", prompt)] if isinstance(prompt, str) else None
    return [
        (str(message.get("role"))[:40], _text(message.get("content")))
        for message in messages
        if isinstance(message, Mapping)
    ] or None


def turns_of(record: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Return the turns of a ShareGPT-like record as (role, text); None where it has none."""
    turns = record.get("conversations", record.get("conversation"))
    if not isinstance(turns, list):
        return None
    found = []
    for turn in turns:
        if isinstance(turn, Mapping):
            role = str(turn.get("from", turn.get("role")))[:40]
            found.append((_ROLES.get(role, role), _text(turn.get("value", turn.get("content")))))
    return found


def _text(content: Any) -> str:
    """Return what a message says: a text, or the texts among its parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
