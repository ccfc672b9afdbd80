"""What no answer in the Hub's name may do: name a file outside of the library's cache, or go on without end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from kvplan.errors import HubUnreachable, UnreadableInput
from kvplan.units import binary

_ETAG = re.compile(r'(?:W/)?"?[0-9A-Za-z_-][0-9A-Za-z._=+-]{0,127}"?', re.ASCII)
MOST = 2**26  # bytes; a config ends at half of that
MOST_CODED = 2**21  # compressed: a byte may stand for a thousand


@contextmanager
def guarded() -> Iterator[None]:
    """Watch the answers that the Hub's library gets within the block; raises HubUnreachable or UnreadableInput."""
    from huggingface_hub import get_session  # noqa: PLC0415

    hooks = get_session().event_hooks["response"]
    watchers = [_plain_etag, _bounded]
    hooks.extend(watchers)
    try:
        yield
    finally:
        for watcher in watchers:
            hooks.remove(watcher)


def _plain_etag(response: Any) -> None:
    """Refuse an ETag that is no plain name: the library makes it a file's name, and `../` would leave its cache."""
    if response.request.method != "HEAD":  # where the library takes the name from
        return
    for header in ("ETag", "X-Linked-Etag"):
        value = response.headers.get(header)
        if value is not None and not _ETAG.fullmatch(value):
            raise HubUnreachable(
                "an answer for the Hub is not to be trusted: its ETag is no plain name", "check HF_ENDPOINT and proxies"
            )


def _bounded(response: Any) -> None:
    """Count what comes in, whatever length the answer's headers state."""
    stream = response.stream
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")
    response.stream = _counting(base)(stream, MOST_CODED if response.headers.get("Content-Encoding") else MOST)


@cache
def _counting(base: type[Any]) -> type[Any]:
    """Return a stream class of the library's kind that ends at a limit."""

    class Counting(base):  # type: ignore[misc]
        def __init__(self, stream: Any, limit: int) -> None:
            self._stream, self._limit = stream, limit

        def __iter__(self) -> Iterator[bytes]:
            left = self._limit
            for part in self._stream:
                left -= len(part)
                if left < 0:
                    hint = "check HF_ENDPOINT and proxies"
                    raise UnreadableInput(f"an answer for the Hub is larger than {binary(self._limit)}", hint)
                yield part

        def close(self) -> None:
            self._stream.close()

    return Counting
