"""The Hub's reader against a server on the loopback, in processes of its own: the library reads its variables once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sources.fakehub import COMMIT, CONFIG, GOOD, NO_ACCESS, REVOKED, serve

from kvplan.sources.patience import LONGEST_WAIT, Patience, _wait

ASK = """
import json, sys
from kvplan.errors import KvplanError
from kvplan.sources import load

for repo, revision in json.loads(sys.argv[1]):
    try:
        found = load(repo, revision=revision)
        keys = sorted(found.config)
        answer = [0, found.source, found.revision, keys, found.quant_config, found.tokenizer_max_length]
    except KvplanError as error:
        answer = [error.exit_code, type(error).__name__, error.message, error.hint]
    print(json.dumps(answer), flush=True)
"""
SECRET = "hf_sécret\x01"
SHORT = {"HF_HUB_ETAG_TIMEOUT": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "anonymous": {},
    "good token": {"HF_TOKEN": GOOD},
    "no access": {"HF_TOKEN": NO_ACCESS},
    "revoked": {"HF_TOKEN": REVOKED},
    "not a token": {"HF_TOKEN": SECRET},
    "offline": {"HF_HUB_OFFLINE": "1"},
    "short": SHORT,
    "cut": {},
    "failing": {},
    "resetting": {},
    "closed": {"HF_ENDPOINT": "http://127.0.0.1:9"},
    "no address": {"HF_ENDPOINT": "localhost:9"},
    "with password": {"HF_ENDPOINT": "http://user:hunter2@127.0.0.1:9"},
    "bad time-out": {"HF_HUB_ETAG_TIMEOUT": "soon"},
    "bad cache": {"HF_HOME": "/dev/null/home"},
}


class Refusal(NamedTuple):
    environment: str
    repo: str
    code: int
    kind: str
    says: str
    revision: str | None = None


REFUSALS = [
    Refusal("anonymous", "org/gated", 3, "HubUnreachable", "is gated, and no token is given"),
    Refusal("no access", "org/gated", 3, "HubUnreachable", "is gated, and this token has no access"),
    Refusal("revoked", "org/gated", 3, "HubUnreachable", "does not accept this token"),
    Refusal("revoked", "org/plain", 3, "HubUnreachable", "does not accept this token"),
    Refusal("not a token", "org/plain", 3, "HubUnreachable", "cannot be sent"),
    Refusal("anonymous", "org/nowhere", 2, "UnknownModel", "is not on the Hub, or is private or gated"),
    Refusal("anonymous", "nowhere", 2, "UnknownModel", "nowhere is not on the Hub"),
    Refusal("good token", "org/nowhere", 2, "UnknownModel", "this token may not see it"),
    Refusal("anonymous", "org/plain", 2, "UnknownModel", "has no revision v9", "v9"),
    Refusal("anonymous", "org/plain", 2, "UnknownModel", "is not a revision", "../../etc"),
    Refusal("offline", "org/plain", 3, "HubUnreachable", "not in the local cache, and the Hub is offline"),
    Refusal("short", "fault/silent", 3, "HubUnreachable", "in time (time-out)"),
    Refusal("closed", "org/plain", 3, "HubUnreachable", "cannot connect to the Hub at http://127.0.0.1:9"),
    Refusal("no address", "org/plain", 2, "UsageError", "HF_ENDPOINT is not a web address"),
    Refusal("with password", "org/plain", 3, "HubUnreachable", "cannot connect to the Hub at http://127.0.0.1:9"),
    Refusal("bad time-out", "org/plain", 2, "UsageError", "HF_ variable"),
    Refusal("bad cache", "org/plain", 2, "UnreadableInput", "cache of the Hub cannot be used"),
    Refusal("failing", "fault/503-always", 3, "HubUnreachable", "is failing (503)"),
    Refusal("failing", "fault/500-always", 3, "HubUnreachable", "is failing (500)"),
    Refusal("anonymous", "fault/429-always", 3, "HubUnreachable", "limits requests (429)"),
    Refusal("anonymous", "fault/451-always", 3, "HubUnreachable", "(HTTP 451)"),
    Refusal("anonymous", "fault/403-always", 3, "HubUnreachable", "forbids access to fault/403-always"),
    Refusal("resetting", "fault/reset", 3, "HubUnreachable", "dropped the connection"),
    Refusal("resetting", "fault/sidecar-503", 3, "HubUnreachable", "is failing (503)"),
    Refusal("anonymous", "fault/circle", 3, "HubUnreachable", "in a circle"),
    Refusal("anonymous", "fault/no-etag", 3, "HubUnreachable", "without a commit or an ETag"),
    Refusal("anonymous", "fault/climbing", 3, "HubUnreachable", "its ETag is no plain name"),
    Refusal("anonymous", "fault/climbing-link", 3, "HubUnreachable", "its ETag is no plain name"),
    Refusal("anonymous", "fault/flood", 2, "UnreadableInput", "is larger than 64 MiB"),
    Refusal("anonymous", "fault/flood-coded", 2, "UnreadableInput", "is larger than 2 MiB"),
    Refusal("cut", "fault/truncated", 2, "UnreadableInput", "config.json of fault/truncated stops short"),
    Refusal("anonymous", "fault/huge", 2, "UnreadableInput", "is larger than 32 MiB"),
    Refusal("anonymous", "org/html", 2, "UnreadableInput", "config.json of org/html is a web page, not JSON"),
    Refusal("anonymous", "org/half-json", 2, "UnreadableInput", "config.json of org/half-json is not JSON"),
    Refusal("anonymous", "org/list", 2, "UnreadableInput", "is JSON, but a list"),
    Refusal("anonymous", "org/null", 2, "UnreadableInput", "is JSON, but null"),
    Refusal("anonymous", "org/empty", 2, "UnreadableInput", "is empty"),
    Refusal(
        "anonymous", "org/bad-sidecar", 2, "UnreadableInput", "tokenizer_config.json of org/bad-sidecar is not JSON"
    ),
    Refusal("anonymous", "org/gguf", 2, "UnreadableInput", "is GGUF"),
    Refusal("anonymous", "org/mistral-layout", 2, "UnreadableInput", "has no config.json"),
    Refusal("anonymous", "org/without", 2, "UnreadableInput", "has no config.json"),
]
READ = [
    ("anonymous", "org/plain", "v1"),
    ("anonymous", "org/bom", None),
    ("anonymous", "fault/moved", None),
    ("good token", "org/gated", None),
    ("failing", "fault/503-once", None),
    ("anonymous", "fault/mended", None),
]


def ask(home: Path, asked: list[tuple[str, str | None]], **variables: str) -> list[list[Any]]:
    """Ask for repositories in one process; whatever it writes on stderr is a failure."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    run = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(asked)],
        env=base | {"HF_HOME": str(home)} | variables, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert run.stderr == ""
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Every row's answer, by environment, repository and revision; the environments wait beside each other."""
    asked: dict[str, list[tuple[str, str | None]]] = {name: [] for name in ENVIRONMENTS}
    for row in REFUSALS:
        asked[row.environment].append((row.repo, row.revision))
    for environment, repo, revision in READ:
        asked[environment].append((repo, revision))
    with serve() as (address, _), ThreadPoolExecutor(4) as pool:
        runs = {
            name: pool.submit(ask, tmp_path_factory.mktemp("home"), asked[name], **{"HF_ENDPOINT": address} | variables)
            for name, variables in ENVIRONMENTS.items()
        }
        return {
            (name, *key): answer
            for name, run in runs.items()
            for key, answer in zip(asked[name], run.result(), strict=True)
        }


@pytest.mark.parametrize(
    "row", REFUSALS, ids=lambda row: f"{row.environment}-{row.repo}-{row.revision}".replace(" ", "_")
)
def test_each_failure_has_its_code_its_words_and_a_hint(answers, row):
    code, kind, message, hint = answers[row.environment, row.repo, row.revision]
    assert (code, kind) == (row.code, row.kind)
    assert row.says in message
    assert hint
    assert "\n" not in message + hint


def test_failures_of_different_kinds_never_share_their_words(answers):
    told = {answers[row.environment, row.repo, row.revision][2] for row in REFUSALS}
    shared = 4  # a revoked token twice, 503 twice, a closed port twice, and two revisions have words of their own
    assert len(told) >= len(REFUSALS) - shared


def test_no_secret_is_ever_told(answers):
    told = json.dumps(list(answers.values()), ensure_ascii=False)
    assert not [secret for secret in (GOOD, NO_ACCESS, REVOKED, SECRET, "sécret", "hunter2") if secret in told]


@pytest.mark.parametrize(("environment", "repo", "revision"), READ)
def test_what_can_be_read_is_read_at_its_commit(answers, environment, repo, revision):
    assert answers[environment, repo, revision] == [0, "hub", COMMIT, sorted(CONFIG), None, None]


def test_files_beside_the_config_are_read(tmp_path):
    with serve() as (address, _):
        (answer,) = ask(tmp_path, [("org/quantized", None)], HF_ENDPOINT=address)
    assert answer == [0, "hub", COMMIT, sorted(CONFIG), {"quantization": {"quant_algo": "FP8"}}, 4096]


def test_numbers_that_json_does_not_have_are_read(tmp_path):
    with serve() as (address, _):
        (answer,) = ask(tmp_path, [("org/odd-numbers", None)], HF_ENDPOINT=address)
    assert answer[3] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("variables", "revision"),
    [
        ({"HF_HUB_OFFLINE": "1"}, None),
        ({"HF_HUB_OFFLINE": "1"}, COMMIT),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, None),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, COMMIT),
    ],
)
def test_the_cache_answers_where_the_hub_does_not(tmp_path, variables, revision):
    with serve() as (address, _):
        online = ask(tmp_path, [("org/quantized", None)], HF_ENDPOINT=address)
    assert ask(tmp_path, [("org/quantized", revision)], **variables) == online


def test_a_known_commit_costs_no_second_download(tmp_path):
    with serve() as (address, log):
        ask(tmp_path, [("org/quantized", None)], HF_ENDPOINT=address)
        first = len(log)
        ask(tmp_path, [("org/quantized", COMMIT)], HF_ENDPOINT=address)
        assert log[first:] == []
        ask(tmp_path, [("org/quantized", None)], HF_ENDPOINT=address)
        assert {line.split()[0] for line in log[first:] if "/resolve/" in line} == {"HEAD"}


def test_the_library_waits_for_a_hub_id(tmp_path):
    code = (
        "import sys; from kvplan.sources import load; load(sys.argv[1]);"
        "print({'huggingface_hub', 'yaml', 'rich', 'pydantic'} & {*sys.modules})"
    )
    (tmp_path / "config.json").write_text("{}")
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is POSIX's")
def test_ctrl_c_ends_a_wait_at_once(tmp_path):
    with serve() as (address, log):
        variables = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": address}
        process = subprocess.Popen(
            [sys.executable, "-c", ASK, '[["fault/silent", null]]'], env=os.environ | variables, stderr=subprocess.PIPE
        )
        while not log:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=2)  # the server stays silent for 3 s
    assert b"KeyboardInterrupt" in stderr


class AnswerError(Exception):
    def __init__(self, **headers):
        super().__init__()
        self.response = type("Response", (), {"headers": headers})


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (AnswerError(), 0.5),
        (AnswerError(**{"Retry-After": "2"}), 2.0),
        (AnswerError(**{"Retry-After": "86400"}), LONGEST_WAIT),
        (AnswerError(**{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), 0.5),
        (AnswerError(**{"Retry-After": "-1"}), 0.5),
        (AnswerError(**{"Retry-After": "²"}), 0.5),
        (ConnectionError(), 0.5),
    ],
)
def test_a_wait_between_attempts_is_short(error, seconds):
    assert _wait(error, 1) == seconds


def test_a_visit_is_bounded_and_hands_on_what_ends_it():
    with pytest.raises(TimeoutError):
        Patience(0.05).bound(lambda: signal.sigtimedwait([], 1))
    with pytest.raises(KeyboardInterrupt):
        Patience(1).bound(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert Patience(1).bound(lambda: None) is None


def test_no_attempt_is_begun_in_the_second_half_of_a_visit():
    calls = []

    def fail() -> None:
        calls.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        Patience(0.9).attempt(fail, lambda _: True)
    assert len(calls) == 1
