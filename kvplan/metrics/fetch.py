"""A snapshot from a file, stdin or a URL: bounded in size and in time, http and https only."""

from __future__ import annotations

import http.client
import os
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from kvplan.errors import UnreadableInput, UrlUnreachable, UsageError
from kvplan.sources.document import reason, shown
from kvplan.sources.patience import Patience
from kvplan.units import MIB, binary

LIMIT = 8 * MIB  # 20,000 lines, which is a large deployment, take 3 MB
SECONDS = 10.0
_HINT = "give a saved scrape, - for stdin, or the address of the server, as in http://localhost:8000/metrics"
_SILENT = "is the server up, and is this its port?"
_PIPE = "fetch it with curl and pipe it in: curl … | kvplan audit --metrics -"


@dataclass(frozen=True, slots=True)
class Body:
    """A scrape: its text, its name in messages, and when it was fetched (a URL only), in seconds since 1970."""

    text: str
    name: str
    moment: float | None


def is_url(source: str) -> bool:
    """Say whether a source is an address and no path: a scheme of two letters or more, so that `C:` stays a drive."""
    return len(source.partition("://")[0]) > 1 and "://" in source


def read(source: str, *, seconds: float = SECONDS) -> Body:
    """Read one snapshot; raise UnreadableInput for what is no scrape, UrlUnreachable for a server that is silent."""
    if is_url(source):
        name, moment = shown(source), time.time()
        return Body(_decoded(_fetched(source, seconds), name), name, moment)
    name = "stdin" if source == "-" else shown(source)
    try:
        data = sys.stdin.buffer.read(LIMIT + 1) if source == "-" else _file(Path(source), name)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else "not a path"
        raise UnreadableInput(f"cannot read {name}: {why}", _HINT) from error
    return Body(_decoded(data, name), name, None)


def _file(path: Path, name: str) -> bytes:
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableInput(f"{name} is not a regular file", _HINT)
        return file.read(LIMIT + 1)


def _fetched(source: str, seconds: float) -> bytes:
    address = _address(source)
    where = shown(address.geturl())
    request = urllib.request.Request(  # noqa: S310  # the scheme is checked in _address, and the opener knows no other
        address.geturl(), headers={"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": "kvplan"}
    )

    def call() -> bytes:
        with _opener().open(request, timeout=seconds) as answer:
            data: bytes = answer.read(LIMIT + 1)
            if answer.length and len(data) <= LIMIT:  # read(n) says nothing of an answer that ends before its length
                raise http.client.IncompleteRead(data, answer.length)
            return data

    try:
        # the socket's own time-out starts anew with every byte: a server that trickles is bounded from outside
        return Patience(seconds).bound(call)
    except TimeoutError as error:
        raise UrlUnreachable(f"{where} did not answer within {seconds:g} s", _SILENT) from error
    except urllib.error.HTTPError as error:
        hint = "vLLM serves /metrics beside its API, SGLang with --enable-metrics" if error.code == 404 else _PIPE
        raise UrlUnreachable(f"{where} answered {error.code}", hint) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise UrlUnreachable(f"{where} did not answer within {seconds:g} s", _SILENT) from error
        why = reason(error.reason) if isinstance(error.reason, OSError) else shown(str(error.reason))
        raise UrlUnreachable(f"cannot reach {where}: {why}", _SILENT) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UrlUnreachable(f"{where} broke off its answer ({type(error).__name__})", _PIPE) from error


def _address(source: str) -> urllib.parse.SplitResult:
    try:
        address = urllib.parse.urlsplit(source)
        host, _ = address.hostname, address.port
    except ValueError as error:
        raise UsageError(f"--metrics: {shown(source)} is no address", _HINT) from error
    if address.scheme.lower() not in ("http", "https") or not host:
        raise UsageError(f"--metrics: {shown(source)} is no http or https address", _HINT)
    if address.username is not None:
        raise UsageError("--metrics: an address with a password in it ends up in process lists", _PIPE)
    if any(not " " < character < "\x7f" for character in source):
        raise UsageError(f"--metrics: {shown(source)} holds characters that no address has", _HINT)
    return address if address.path not in ("", "/") else address._replace(path="/metrics")


def _opener() -> urllib.request.OpenerDirector:
    """An opener without the file:, ftp: and data: handlers, which a redirect could ask for."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _decoded(data: bytes, name: str) -> str:
    if len(data) > LIMIT:
        raise UnreadableInput(f"{name} is larger than {binary(LIMIT)}", "a scrape holds a few megabytes at most")
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise UnreadableInput(f"{name} is empty", _HINT)
    first = text.lstrip()[0]
    if first == "<":
        raise UnreadableInput(f"{name} is a web page, not metrics", "a proxy or a login page may have answered")
    if first == "[" or (first == "{" and text.rstrip().endswith("}")):
        raise UnreadableInput(f"{name} is JSON, not Prometheus' text format", _HINT)
    return text
