"""CUDA graphs: how many are captured, as public logs count them, and what is charged for them."""

from __future__ import annotations

import pytest

from kvplan.engine.vllm.graphs import captures, graph_memory
from kvplan.engine.vllm.releases import release
from kvplan.units import GIB


@pytest.mark.parametrize(
    ("sequences", "tokens", "speculative", "pieces", "whole"),
    [
        (1024, 8192, 0, 51, 51),  # an H100's defaults: "51/51" twice
        (256, 2048, 0, 51, 35),  # an RTX 4090's
        (1, 4096, 0, 2, 1),
        (4, 4096, 0, 4, 3),
        (128, 2048, 1, 51, 35),  # a draft token doubles what a decode step carries
        (1024, 100, 0, 15, 15),  # no graph is wider than a batch
    ],
)
def test_captures(sequences, tokens, speculative, pieces, whole):
    found = captures(sequences, tokens, speculative, (9, 0), release("0.19"))
    assert (found.pieces, found.whole) == (pieces, whole)


def test_blackwell_captures_wider_batches_since_0_28():
    old, new = (captures(1024, 8192, 0, (10, 0), release(version)).pieces for version in ("0.27", "0.28"))
    assert (old, new) == (51, 83)
    assert captures(1024, 8192, 0, (12, 0), release("0.28")).pieces == 51


def test_of_the_logs_that_were_fitted():
    count = captures(1024, 8192, 0, (9, 0), release("0.19"))
    found = graph_memory(release("0.19"), count, 32, mixture=False, v2=False)
    assert found.estimate == pytest.approx(0.84 * GIB, abs=0.1 * GIB)
    assert found.actual == pytest.approx(0.91 * GIB, abs=0.1 * GIB)
    assert found.actual_low < found.actual < found.actual_high
