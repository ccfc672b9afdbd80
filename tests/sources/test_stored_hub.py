"""Headers by ranges of the Hub's answers, against a server on the loopback: never more than a header is sent."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from sources.test_headers import file_of, tensor

COMMIT = "5f0b02c75b57c5855da9ae460ce51323ea669d8a"
ASK = """
import json, sys
from kvplan.errors import KvplanError
from kvplan.sources.stored_hub import stored_on_hub

for repo in sys.argv[1:]:
    try:
        found = stored_on_hub(repo, None)
        answer = None if found is None else [found.files, found.total_bytes]
    except KvplanError as error:
        answer = [error.exit_code, error.message]
    print(json.dumps(answer), flush=True)
"""
BIG = 1 << 30  # bytes of data that no file really has
ONE = file_of({"a": tensor("U8", [BIG], 0, BIG)}, size=0)
LONG = file_of({f"model.layers.{i}.mlp.up.weight": tensor("U8", [4], 4 * i, 4 * i + 4) for i in range(9000)}, size=0)
NAMES = [f"model-{i:05d}-of-00003.safetensors" for i in range(3)]
SHARDS = {name: file_of({f"t{i}": tensor("U8", [BIG], 0, BIG)}, size=0) for i, name in enumerate(NAMES)}
INDEX = json.dumps({"weight_map": {f"t{i}": name for i, name in enumerate(SHARDS)}}).encode()
REPOS = {
    "org/single": {"model.safetensors": ONE},
    "org/sharded": {"model.safetensors.index.json": INDEX, **SHARDS},
    "org/long": {"model.safetensors": LONG},
    "org/no-ranges": {"model.safetensors": ONE},
    "org/no-length": {"model.safetensors": ONE},
    "org/bin-only": {"pytorch_model.bin": b"x"},
    "org/claims": {"model.safetensors": file_of({"a": tensor("U8", [1], 0, 1)}, length=2**60)},
    "org/missing-shard": {"model.safetensors.index.json": INDEX, **dict(list(SHARDS.items())[:2])},
    "org/failing": {},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sent: Counter[str]

    def log_message(self, *_: object) -> None:
        """Keep stderr for the code under test."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        body = REPOS.get(repo, {}).get(rest.partition("/")[2])
        if repo == "org/failing" or body is None:
            self.send_response(503 if repo == "org/failing" else 404)
            if repo != "org/failing":
                self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        whole = len(body) + (BIG if rest.endswith(".safetensors") else 0)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        ranged = asked is not None and repo not in ("org/no-ranges", "org/no-length")
        start, end = (int(asked[1]), min(int(asked[2]) + 1, whole)) if ranged else (0, whole)
        self.send_response(206 if ranged else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        if repo != "org/no-length":
            self.send_header("Content-Length", str(end - start))
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{whole}")
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            while start < end:
                piece = body[start : min(end, start + 65536)] or b"\0" * min(65536, end - start)
                self.wfile.write(piece)
                self.sent[repo] += len(piece)
                start += len(piece)
        self.close_connection = True


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Each repository's answer, and the bytes that the server sent for it."""
    handler = type("Handler", (_Handler,), {"sent": Counter()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    home = str(tmp_path_factory.mktemp("hub"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": home}
    environment |= {"HF_HUB_DOWNLOAD_TIMEOUT": "5"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, *REPOS], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    server.shutdown()
    server.server_close()
    assert not done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(REPOS, lines, strict=True)), handler.sent


@pytest.mark.parametrize(
    ("repo", "answer"),
    [
        ("org/single", [1, BIG]),
        ("org/sharded", [3, 3 * BIG]),
        ("org/long", [1, 36_000]),
        ("org/no-ranges", [1, BIG]),
        ("org/no-length", [1, BIG]),
        ("org/bin-only", None),
    ],
)
def test_headers_are_read(answers, repo, answer):
    assert answers[0][repo] == answer


@pytest.mark.parametrize(
    ("repo", "code", "says"),
    [
        ("org/claims", 2, "header claims 1,152,921,504,606,846,976 bytes"),
        ("org/missing-shard", 2, "names files that are not there: model-00002-of-00003.safetensors"),
        ("org/failing", 3, "is failing (503)"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(answers, repo, code, says):
    have = answers[0][repo]
    assert have[0] == code
    assert says in have[1]


def test_never_more_than_a_header_is_downloaded(answers):
    """Of a gigabyte of tensors: what fits the first read, or the sockets' buffers where ranges are not known."""
    sent = answers[1]
    assert sent["org/single"] <= 300_000
    assert sent["org/sharded"] <= 1_000_000
    assert sent["org/long"] <= len(LONG) + 300_000
    assert max(sent["org/no-ranges"], sent["org/no-length"]) <= 16 << 20
