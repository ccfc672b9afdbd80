"""Requests out of conversations: what a turn's prompt repeats of the turns before it, message by message.

A message is a source of its own, named by a digest of its role and text, so that equal beginnings of two conversations
share tokens up to the first message that differs. The tokens that chat templates put around messages are not counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from kvplan.simulate.request import Source, Span

MAX_ANSWERS = 200_000  # answers that later prompts may repeat; the oldest are forgotten
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant", "bing": "assistant"}


class Conversations:
    """Names for messages. An answer is the source of its own tokens, once: who repeats its text repeats those."""

    def __init__(self, count: Callable[[str], int] | None) -> None:
        self._count = count
        self._answers: OrderedDict[str, Span] = OrderedDict()
        self._given = 0

    def spans(self, messages: Sequence[tuple[str, str]], prompt: int | None) -> tuple[Span, ...] | None:
        """Return the spans of a prompt; None where neither its length nor a way to measure its texts is known.

        A given length is spread over the messages by their characters, what is left over goes to the last.
        """
        if self._count is not None:
            measured = [self._answers.get(digest(*m)) or (digest(*m), self._count(m[1])) for m in messages]
            return tuple(span for span in measured if span[1])
        if prompt is None:
            return None
        return self._spread(messages, prompt)

    def answer(self, text: str, tokens: int) -> Source:
        """Give the tokens of an answer a source, and remember whose text it is."""
        self._given += 1
        source: Source = ("answer", self._given)
        name = digest("assistant", text)
        if text and name not in self._answers:
            self._answers[name] = (source, tokens)
            if len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)
        return source

    def length(self, text: str) -> int | None:
        """Return the tokens of a text, where they can be measured."""
        return None if self._count is None else self._count(text)

    def _spread(self, messages: Sequence[tuple[str, str]], prompt: int) -> tuple[Span, ...]:
        characters = sum(len(text) for _, text in messages)
        left = prompt
        spans: list[Span] = []
        for message in messages[:-1]:
            known = self._answers.get(digest(*message))
            source, tokens = known or (digest(*message), prompt * len(message[1]) // max(1, characters))
            tokens = min(tokens, left)
            if tokens:
                spans.append((source, tokens))
                left -= tokens
        if left:
            spans.append((digest(*messages[-1]) if messages else ("text", prompt), left))
        return tuple(spans)


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
