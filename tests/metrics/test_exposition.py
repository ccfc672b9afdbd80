"""The text format, with what scrapers, proxies and strangers make of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.metrics import exposition
from kvplan.metrics.exposition import samples


@pytest.mark.parametrize(
    ("line", "labels", "value", "moment"),
    [
        ("vllm:x 1", {}, 1.0, None),
        ("  vllm:x   1.5e+03  ", {}, 1500.0, None),
        ("vllm:x{} 1", {}, 1.0, None),
        ('vllm:x{a="b",} 1', {"a": "b"}, 1.0, None),
        ('vllm:x{ a = "b" , c="d" } 1 1760000000123', {"a": "b", "c": "d"}, 1.0, 1760000000.123),
        ('vllm:x{a="}"} 2', {"a": "}"}, 2.0, None),
        (r'vllm:x{a="q\"\\\n"} 2', {"a": 'q"\\\n'}, 2.0, None),
        ('vllm:x_bucket{le="+Inf"} 3 # {trace_id="a"} 0.5', {"le": "+Inf"}, 3.0, None),
        ("vllm:x 3 1760000000.5", {}, 3.0, 1760000000.5),
        ("vllm:x +Inf", {}, math.inf, None),
    ],
)
def test_a_sample(line, labels, value, moment):
    (found,) = samples(line, ["vllm:"])
    assert (dict(found.labels), found.value, found.moment) == (labels, value, moment)


def test_nan_is_a_value():
    (found,) = samples("vllm:x NaN", ["vllm:"])
    assert math.isnan(found.value)


@pytest.mark.parametrize(
    "line",
    [
        "# TYPE vllm:x gauge", "vllm:x", "vllm:x{", 'vllm:x{a="b} 1', "vllm:x{a=b} 1", "vllm:x one", "vllm:x 1 2 3",
        "other:x 1", 'vllm:x{a="' + "y" * 20_000 + '"} 1', "vllm:x 1_0e", "",
    ],
)  # fmt: skip
def test_what_is_no_sample_is_passed_over(line):
    (found,) = samples(f"{line}\nvllm:good 1", ["vllm:"])
    assert found.name == "vllm:good"


def test_a_flood_is_cut_off(monkeypatch):
    monkeypatch.setattr(exposition, "MAX_SAMPLES", 10)
    assert len(list(samples("vllm:x 1\n" * 100, ["vllm:"]))) == 10


@given(st.text(alphabet='vllm:x{}="\\, 01.e+#\n\t\r', max_size=200))
def test_no_text_breaks_it(text):
    for found in samples(text, ["v"]):
        assert isinstance(found.value, float)
