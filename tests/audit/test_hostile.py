"""A log of a stranger costs its length: every wording of every engine beside long runs, and long ordinary logs."""

from __future__ import annotations

import time

import pytest
from audit.test_log import V1

from kvplan.audit import log as vllm
from kvplan.audit import sglang, tensorrt_llm
from kvplan.audit.engines import read_start, words_of
from kvplan.audit.lines import MAX_LINE
from kvplan.audit.log import read_log

ENGINES = {
    "vllm": ("", vllm.WORDS),
    "sglang": ("ServerArgs(\n", words_of(sglang.WORDING)),
    "tensorrt-llm": ("[TRT-LLM]\n", words_of(tensorrt_llm.WORDING)),
}
RUNS = ("9", " ", ",", ".", "a", "9,", "9.", "-9", "v", "=", "9 ", "'", "/", "(", "{", "\x1b[", "_", "-")
SECONDS = 1.0  # of CPU for a line of 32 KiB; one takes 0.01, and 16,000 digits once took 13


def seconds(text: str) -> float:
    start = time.process_time()
    read_start(text)
    return time.process_time() - start


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", RUNS)
def test_no_line_costs_more_than_its_length(engine, run):
    mark, words = ENGINES[engine]
    long = (run * MAX_LINE)[:MAX_LINE]
    for word in words:
        short = word + run * 7
        for line in (word + long, f"{long[: MAX_LINE - len(word)]}{word}", short * (MAX_LINE // len(short))):
            assert seconds(mark + line) < SECONDS, (word, line[:40])


def test_a_run_of_digits_before_the_words_of_a_figure():
    for words in (" tokens", " GiB for peak activation", " GiB for non-torch memory", " GiB for CUDAGraph memory"):
        assert seconds(f"{V1}{'9' * 65_000}{words}\n") < SECONDS


def test_an_ordinary_log_is_read_at_some_mib_a_second():
    """50 MB take 1.5 s here, and took 17 where each line met a pattern."""
    line = '(APIServer pid=1) INFO: 10.0.0.7:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    text = V1 + line * 60_000
    start = time.process_time()
    assert read_log(text).figures == read_log(V1).figures
    assert time.process_time() - start < 3


def test_what_lies_beyond_a_line_s_limit_is_not_read():
    assert read_log("x" * MAX_LINE + "Available KV cache memory: 10 GiB").figures == {}
