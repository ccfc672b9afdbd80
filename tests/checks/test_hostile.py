"""Hostile files: whatever they hold, the check ends in time, with an exit code and no traceback."""

from __future__ import annotations

import os
import random
import time

import pytest
from checks.checking import kvplan, pod
from manifests.kind_cases import CASES

from kvplan.checks.run import Settings, report, run
from kvplan.render.report import rendered

FORMATS = ("text", "json", "markdown", "github", "gitlab", "sarif", "junit")
NAMES = ("m.yaml", "run.sh", "Dockerfile", "-")
PIECES = (
    '"', "'", "\\", "$", "${", "}", "$(", "((", "))", "`", "{{", "}}", "&a ", "*a", "<<: *a", "\n---\n", "- ", "\t",
    "\r\n", "[", "]", "{", "|", ">-", "#", "; ", "&&", "<<EOF\n", "if ", "then ", "fi", "case ", "esac", "() {", "--",
    " -tp ", "=", "--model ", "\u2028", "\ufeff", "\x07", "1e999", "9" * 30, "-1", "null", "!!python/object:os.system",
    "%TAG ! x\n", "? ", "vllm serve ", "docker run ", "bash -c ", "set -- ", "eval ", "${1:-${2:-$3}}", '"$@"',
    "$((1/0))", "--x.y.z ", "-O", "<<<<<<< HEAD\n", ">>>>>>> x\n", "\U0001f600",
)  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    for _ in range(chance.choice((1, 3, 12))):
        at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        match chance.randrange(3):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[min(end, at + 40) :]
            case 2:
                text = text[:at] + text[at:end][:200] + text[at:]
    return text


@pytest.mark.parametrize("seed", range(12))
def test_mutations(seed):
    chance = random.Random(seed)
    sources = [text for text, _ in CASES.values()] + [
        pod(),
        "export A=1\nvllm serve org/m -tp $A --max-model-len ${L:-4k}\n",
    ]
    for number in range(40):
        text = mutated(chance.choice(sources), chance)
        settings = Settings(
            paths=("-",), no_config=True, stdin=lambda t=text: t.encode(), stdin_name=chance.choice(NAMES)
        )
        told = report(run(settings))
        rendered(FORMATS[number % len(FORMATS)], told)


BIG = {
    "x.yaml": ("lists", "[" * 3_000_000),
    "y.yaml": ("many values", "a: [" + "x, " * 400_000 + "]"),
    "z.yaml": ("many documents", "vllm: 1\n---\n" * 50_000),
    "a.yaml": ("many conflicts", "<<<<<<< HEAD\n---\n" * 50_000),
    "run.sh": ("branches", "vllm\n" + "".join(f"if x; then V{i}=1; fi\n" for i in range(20_000))),
    "b.sh": ("nesting", "vllm serve " + "${a:-" * 90_000),
    "Dockerfile": ("variables", "FROM vllm/vllm-openai\n" + "ENV A=$A$A\n" * 40_000 + 'CMD ["--model", "x"]'),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (_, text) in BIG.items()], ids=[what for what, _ in BIG.values()]
)
def test_large_files_end_in_time(capsys, folder, name, text):
    (folder / name).write_text(text)
    begin = time.monotonic()
    told = kvplan(capsys, f"check {name}")
    assert told.code in (0, 2)
    assert time.monotonic() - begin < 30  # seconds; 3 on a quiet machine


def test_a_file_of_ten_megabytes_is_refused_when_named_and_passed_over_in_a_walk(capsys, folder):
    (folder / "big.yaml").write_text("# vllm\n" * 1_500_000)
    told = kvplan(capsys, "check big.yaml")
    assert told.code == 2
    assert "big.yaml:1:1: error: larger than 4 MiB" in told.out
    assert kvplan(capsys, "check").code == 0


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", 1),
        (b"a: 1\nb: \0\n", 2),
        (b"a: \xff\n", 1),
        (b"a: 'x\n\n\n", 4),
        (b"a: 1\n b: 2\n", 2),
    ],
    ids=["picture", "NUL", "Latin-1", "open quote", "indentation"],
)
def test_a_named_file_that_cannot_be_read_is_told_with_its_line(capsys, folder, data, line):
    (folder / "m.yaml").write_bytes(data)
    told = kvplan(capsys, "check m.yaml --format github")
    assert told.code == 2
    assert told.out.startswith(f"::error file=m.yaml,line={line},")


def test_windows_line_ends_keep_their_lines(capsys, folder):
    (folder / "m.yaml").write_bytes(pod("-tp, '4', --max-model-len=8192").replace("\n", "\r\n").encode())
    assert "m.yaml:9:" in kvplan(capsys, "check -q").out


def test_loops_of_links_and_odd_files_end(capsys, folder):
    (folder / "self").symlink_to(folder)
    (folder / "dangling.yaml").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "deep").mkdir()
    (folder / "m.yaml").write_text(pod())
    assert kvplan(capsys, "check").code == 0
    assert kvplan(capsys, "check pipe.yaml").code == 2
    assert kvplan(capsys, "check dangling.yaml").code == 2


def test_what_a_manifest_says_reaches_no_terminal_as_it_is(capsys, folder):
    (folder / "m.yaml").write_text(pod("-tp, '4', --max-model-len=8192").replace("name: llm", 'name: "a\\e[31mb"'))
    assert "\x1b" not in kvplan(capsys, "check").out


def test_a_manifest_gets_no_secret_out_of_the_environment(folder, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    monkeypatch.setenv("MAX_TOKENS", "2048")
    (folder / "a.sh").write_text("vllm serve x/$HF_TOKEN --max-model-len $HF_TOKEN --max-num-seqs $MAX_TOKENS\n")
    told = kvplan(capsys, "check a.sh --env --format json")
    assert "verysecret" not in told.out + told.err
    assert "2048" in told.out
