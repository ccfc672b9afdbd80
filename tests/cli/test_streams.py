"""What becomes of an answer that cannot be given: one line on stderr where there is one, and a documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan import cli
from kvplan.sources.whole import write_whole

ROOT = Path(__file__).parents[2]
KVPLAN = f"{sys.executable} -m kvplan"
SIZE = f"{KVPLAN} size meta-llama/Llama-3.1-8B --gpu h100-sxm"


def shell(line: str, folder: Path | None = None, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_no_verdict():
    assert shell(f"{SIZE} > /dev/full") == (2, "", "error: the answer could not be given: no space left on device\n")


def test_a_closed_stdout_is_no_verdict():
    code, out, err = shell(f"{SIZE} >&-")
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_a_closed_stdin_is_no_trace():
    code, out, err = shell(f"{KVPLAN} simulate --num-gpu-blocks-override 50 --trace - <&-")
    assert (code, out) == (2, "")
    assert err.startswith("error: stdin is closed\nhint: ")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_the_code_answers_where_stderr_cannot(closed):
    assert shell(f"{KVPLAN} bogus {closed}") == (2, "", "")


@pytest.mark.parametrize("command", [SIZE, f"{KVPLAN} models", f"{KVPLAN} --help"])
def test_a_reader_that_leaves_ends_it_quietly(command):
    code, out, err = shell(f"{command} | true; echo ${{PIPESTATUS[0]}}")
    assert (code, err) == (0, "")
    assert out in {"141\n", "0\n"}  # 0 where all of it was in the pipe before the reader left


def test_a_letter_that_the_terminal_lacks_is_escaped():
    code, out, err = shell(f"{SIZE} --format html", PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert out.endswith("</html>\n")


def test_a_current_folder_that_is_gone(tmp_path):
    code, out, err = shell(f"mkdir gone && cd gone && rmdir ../gone && {KVPLAN} check pod.yaml", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_mistake_of_ours_is_no_verdict(monkeypatch, capsys):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake\x1b[2J\nin kvplan")

    monkeypatch.setattr(cli, "app", broken)
    assert cli.run([]) == 70
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: a mistake\\x1b[2J\\nin kvplan\n"
        "hint: it is a mistake in kvplan; KVPLAN_DEBUG=1 shows where\n"
    )
    monkeypatch.setenv("KVPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run([])


def test_a_file_that_could_not_be_written_is_left_as_it_was(tmp_path):
    target = tmp_path / "kvplan.lock"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "new, but \udcff is no text")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_replaced_and_a_pipe_is_written_to(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "link").symlink_to("precious")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").read_text() == "new"
    assert (tmp_path / "precious").read_text() == "old"
    write_whole("/dev/null", "nothing")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("command", ["check -", "lock -", "diff -", "audit -", "audit --metrics -"])
def test_a_closed_stdin_is_one_line(command, tmp_path):
    code, out, err = shell(f"{KVPLAN} {command} <&-", tmp_path)
    assert code == 2
    assert "stdin is closed" in out + err
    assert "Traceback" not in err


def test_an_open_file_goes_on_where_it_is(tmp_path):
    """As /dev/stdout is a link to one: neither is the link replaced, nor the file opened anew from its beginning."""
    with (tmp_path / "out").open("wb", buffering=0) as out:
        out.write(b"first\n")
        link = tmp_path / "link"
        link.symlink_to(f"/dev/fd/{out.fileno()}")
        write_whole(link, "second\n")
        out.write(b"third\n")
        assert link.is_symlink()
    assert (tmp_path / "out").read_bytes() == b"first\nsecond\nthird\n"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "link"}


def test_a_link_to_what_is_no_file_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    write_whole(tmp_path / "link", "nothing")
    assert (tmp_path / "link").is_symlink()
