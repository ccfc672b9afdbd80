"""A server on the loopback interface that answers, hangs, trickles, redirects or lies; and the command around it."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from metrics.scrapes import vllm

from kvplan.cli import run
from kvplan.metrics import fetch, report


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        self.server.answer(self)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    found.paths = []
    found.over = threading.Event()
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    found.url = f"http://127.0.0.1:{found.server_address[1]}"
    yield found
    found.over.set()
    found.shutdown()
    found.server_close()


def text(body: str):
    def answer(request):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(body.encode())

    return answer


def audit(capsys, *words: str) -> tuple[int, str, str]:
    code = run(["audit", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_server_that_answers(server, capsys):
    server.answer = text(vllm(running=48, waiting=12, usage=0.97))
    code, out, err = audit(capsys, "--metrics", server.url)
    assert (code, err) == (1, "")
    assert "saturated: the pool is full, and requests wait for it" in out
    assert server.paths == ["/metrics"]


def test_two_visits_give_rates(server, capsys, monkeypatch):
    bodies = iter([vllm(usage=0.97, waiting=3), vllm(usage=0.97, waiting=3, preemptions=40)])

    def answer(request):
        text(next(bodies))(request)

    server.answer = answer
    slept = []
    monkeypatch.setattr(report.time, "sleep", slept.append)
    url = f"{server.url}/metrics"
    code, out, _ = audit(capsys, "--metrics", url, "--metrics", url, "--interval", "2", "--format", "json")
    found = json.loads(out)
    assert (code, found["verdict"], slept) == (1, "over_admission", [2])
    assert found["flow"]["preemptions"] == 40
    assert found["flow"]["preemptions_a_minute"] > 1


def hang(request):
    request.server.over.wait(20)


def trickle(request):
    request.send_response(200)
    request.end_headers()
    while not request.server.over.wait(0.05):
        request.wfile.write(b"vllm:x 1\n")
        request.wfile.flush()


@pytest.mark.parametrize("answer", [hang, trickle])
def test_a_server_that_hangs_is_left(server, capsys, answer):
    server.answer = answer
    start = time.monotonic()
    code, out, err = audit(capsys, "--metrics", server.url, "--timeout", "0.4")
    assert (code, out) == (3, "")
    assert err.startswith(f"error: {server.url}/metrics did not answer within 0.4 s")
    assert time.monotonic() - start < 3


def refuse(status: int):
    return lambda request: request.send_error(status)


def redirect(target: str, status: int = 307):
    def answer(request):
        if request.path == "/metrics":
            request.send_response(status)
            request.send_header("Location", target)
            request.end_headers()
        else:
            text(vllm())(request)

    return answer


def broken(request):
    request.send_response(200)
    request.send_header("Content-Length", "5000")
    request.end_headers()
    request.wfile.write(b"vllm:x 1\n")


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (refuse(404), 3, "answered 404"),
        (refuse(503), 3, "answered 503"),
        (redirect("file:///etc/hostname"), 3, "answered 307"),
        (redirect("ftp://127.0.0.1/x"), 3, "cannot reach"),
        (redirect("/metrics"), 3, "answered 307"),
        (broken, 3, "broke off its answer"),
        (text("<html>log in</html>"), 2, "is a web page"),
        (text(""), 2, "is empty"),
        (text("up 1\n"), 2, "holds no metrics"),
    ],
)
def test_an_answer_that_is_none(server, capsys, answer, code, message):
    server.answer = answer
    got, out, err = audit(capsys, "--metrics", server.url, "--timeout", "5")
    assert (got, out) == (code, "")
    assert message in err
    assert len(err.splitlines()) == 2


def test_a_redirect_on_the_same_server_is_followed(server, capsys):
    server.answer = redirect("/metrics/")
    assert audit(capsys, "--metrics", server.url)[0] == 0
    assert server.paths == ["/metrics", "/metrics/"]


def test_more_than_a_scrape_ever_holds_is_refused(server, capsys, monkeypatch):
    monkeypatch.setattr(fetch, "LIMIT", 1000)
    server.answer = text(vllm() * 3)
    code, _, err = audit(capsys, "--metrics", server.url)
    assert code == 2
    assert "is larger than" in err


def test_a_closed_port(server, capsys):
    server.answer = text(vllm())
    url = server.url
    server.shutdown()
    server.server_close()
    code, _, err = audit(capsys, "--metrics", url)
    assert code == 3
    assert "cannot reach" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metrics", "file:///etc/passwd"], "is no http or https address"),
        (["--metrics", "ftp://127.0.0.1/metrics"], "is no http or https address"),
        (["--metrics", "http://"], "is no http or https address"),
        (["--metrics", "http://me:secret@127.0.0.1/metrics"], "ends up in process lists"),
        (["--metrics", "http://127.0.0.1:99999999/metrics"], "is no address"),
        (["--metrics", "http://127.0.0.1/a b"], "holds characters that no address has"),
        (["--metrics", "/no/such/file"], "cannot read /no/such/file"),
        (["--metrics", "http://127.0.0.1:1/a", "--metrics", "http://127.0.0.1:1/b"], "the two addresses differ"),
        (["--metrics", "-", "--metrics", "-"], "stdin can be read once"),
    ],
)
def test_a_source_that_is_none(capsys, words, message):
    code, out, err = audit(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "secret" not in err


def test_a_fifo_is_not_waited_for(capsys, tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    code, _, err = audit(capsys, "--metrics", str(tmp_path / "pipe"))
    assert code == 2
    assert "is not a regular file" in err


def test_figures_that_are_missing_exit_with_two(capsys, tmp_path):
    (tmp_path / "a").write_text(vllm(usage="NaN"))
    code, out, _ = audit(capsys, "--metrics", str(tmp_path / "a"))
    assert code == 2
    assert "note: vllm:kv_cache_usage_perc is nan" in out
