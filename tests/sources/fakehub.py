"""A Hub on the loopback: the routes that reading a config.json needs, and a fault for each repository of `fault/`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "5f0b02c75b57c5855da9ae460ce51323ea669d8a"
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 4, "rms_norm_eps": 1e-06}
GOOD, NO_ACCESS, REVOKED = "hf_goodgoodgood", "hf_noaccessnoaccess", "hf_revokedsecret"

KINDS = [
    "403-always", "429-always", "451-always", "500-always", "503-always", "503-once", "circle", "climbing",
    "climbing-link", "flood", "flood-coded", "huge", "mended", "moved", "no-etag", "reset",
    "sidecar-503", "silent", "truncated",
]  # fmt: skip
_BODY = json.dumps(CONFIG).encode()
_FLOOD = bytes(1 << 20)
FILES: dict[str, dict[str, bytes]] = {
    "org/plain": {"config.json": _BODY},
    "org/quantized": {
        "config.json": _BODY,
        "hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8"}}',
        "tokenizer_config.json": b'{"model_max_length": 4096}',
    },
    "org/gguf": {"model-Q4_K_M.gguf": b"GGUF", "README.md": b"#"},
    "org/mistral-layout": {"params.json": b"{}", "consolidated.safetensors": b""},
    "org/without": {"README.md": b"#"},
    "org/odd-numbers": {"config.json": b'{"a": NaN, "b": -Infinity, "c": Infinity}'},
    "org/bom": {"config.json": b"\xef\xbb\xbf" + _BODY},
    "org/html": {"config.json": b"<!doctype html><title>log in</title>"},
    "org/half-json": {"config.json": _BODY[:40]},
    "org/list": {"config.json": b"[]"},
    "org/null": {"config.json": b"null"},
    "org/empty": {"config.json": b""},
    "org/bad-sidecar": {"config.json": _BODY, "tokenizer_config.json": b"{"},
    "org/gated": {"config.json": _BODY},
    **{f"fault/{kind}": {"config.json": _BODY} for kind in KINDS},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: set[str]  # what was asked before, for faults that pass
    log: list[str]

    def log_message(self, *_: object) -> None:
        """Keep stderr for the code under test."""

    def do_GET(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.route()

    do_HEAD = do_GET  # noqa: N815  # the base class looks for this name

    def answer(self, status: int, body: bytes = b"", *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        if length is None or length >= 0:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str = "", message: str = "", **headers: str) -> None:
        named = {"X_Error_Code": code, "X_Error_Message": message}
        self.answer(status, b'{"error": "no"}', **{k: v for k, v in named.items() if v}, **headers)

    def route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.log.append(f"{self.command} {path}")
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in (GOOD, NO_ACCESS):
            self.refuse(401, message="Invalid credentials in Authorization header")
            return
        found = re.fullmatch(
            r"/(?:api/models/)?([^/]+/[^/]+)(?:/(resolve|revision)/(refs/[^/]+/\d+|[^/]+)(?:/(.+))?)?", path
        )
        repo, kind, revision, filename = found.groups() if found else ("", "", "", "")
        files = FILES.get(repo)
        if files is None:
            self.refuse(404 if token else 401, "RepoNotFound")
        elif repo == "org/gated" and token != GOOD:
            self.refuse(403 if token else 401, "GatedRepo")
        elif revision and revision not in ("main", "v1", COMMIT):
            self.refuse(404, "RevisionNotFound")
        elif kind != "resolve":
            siblings = [{"rfilename": name} for name in files]
            self.answer(200, json.dumps({"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings}).encode())
        elif repo.startswith("fault/") and self.fault(repo.removeprefix("fault/"), filename, revision):
            return
        elif filename not in files:
            self.refuse(404, "EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            self.file(files[filename])

    def file(self, body: bytes, **more: str) -> None:
        etag = hashlib.sha1(body, usedforsecurity=False).hexdigest()
        self.answer(200, body, ETag=f'"{etag}"', X_Repo_Commit=COMMIT, **more)

    def fault(self, kind: str, filename: str, revision: str) -> bool:  # noqa: C901, PLR0912  # one case a kind
        """Misbehave; True where that was the answer."""
        first = f"{self.command} {self.path}" not in self.seen
        self.seen.add(f"{self.command} {self.path}")
        status = kind.partition("-")[0]
        match kind:
            case "503-once" if first:
                self.refuse(503)
            case "503-always" | "500-always" | "451-always" | "403-always":
                self.refuse(int(status))
            case "429-always":
                self.refuse(429, Retry_After="0")
            case "sidecar-503" if filename != "config.json":
                self.refuse(503)
            case "reset":
                self.close_connection = True
                self.connection.close()
            case "silent":
                time.sleep(3)  # above the time-out of 1 s that the tests set
                self.close_connection = True
            case "truncated" if self.command == "GET":
                self.answer(200, _BODY[:30], length=len(_BODY), ETag='"cut"', X_Repo_Commit=COMMIT)
                self.wfile.flush()
                self.close_connection = True
            case "huge":
                self.answer(200, length=33 << 20, ETag='"huge"', X_Repo_Commit=COMMIT)
                self.close_connection = True
            case "no-etag":
                self.answer(200, _BODY)
            case "climbing":
                self.answer(200, _BODY, ETag='"../../../../climbed"', X_Repo_Commit=COMMIT)
            case "climbing-link":
                self.answer(200, _BODY, ETag='"a"', X_Linked_Etag='"../../../../climbed"', X_Repo_Commit=COMMIT)
            case "flood" | "flood-coded" if self.command == "GET":  # no length, and no end
                coded = {"Content_Encoding": "gzip"} if kind == "flood-coded" else {}
                gzip = zlib.compressobj(wbits=31)
                self.close_connection = True
                self.answer(200, length=-1, ETag='"flood"', X_Repo_Commit=COMMIT, **coded)
                with contextlib.suppress(OSError):
                    while True:
                        self.wfile.write(gzip.compress(os.urandom(1 << 18)) if coded else _FLOOD)
            case "circle":
                self.answer(302, Location=self.path)
            case "moved":
                self.answer(307, Location=f"/org/plain/resolve/{revision}/{filename}")
            case "mended" if self.command == "GET" and first:  # a proxy's page under the file's own ETag, once
                etag = hashlib.sha1(_BODY, usedforsecurity=False).hexdigest()
                page = b"<html>".ljust(len(_BODY))
                self.answer(200, page, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)
            case _:
                return False
        return True


@contextlib.contextmanager
def serve() -> Iterator[tuple[str, list[str]]]:
    """Serve until the block ends; the address, and the list that requests are noted in."""
    log: list[str] = []
    handler = type("Handler", (_Handler,), {"seen": set(), "log": log})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()
