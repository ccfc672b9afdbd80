"""A random walk over shapes, lengths, windows and page orders: every draw against float64, row by row."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from decode_cases import Case, check
from hypothesis import given, settings
from hypothesis import strategies as st
from kvplan.kernels.tiling import Tiling

CACHES = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


@st.composite
def cases(draw):
    kv_heads = draw(st.sampled_from([1, 2]))
    key = draw(st.sampled_from([32, 64, 80, 96, 112, 128]))
    latent = kv_heads == 1 and key in (80, 96) and draw(st.booleans())
    cache = draw(st.sampled_from(CACHES))
    if cache.itemsize == 1 and key == 112:
        key = 64
    window = draw(st.none() | st.integers(1, 90))
    return Case(
        lengths=tuple(draw(st.lists(st.integers(1, 90), min_size=1, max_size=3))),
        heads=kv_heads * draw(st.sampled_from([1, 2, 3, 8, 17])),
        kv_heads=kv_heads,
        key=key,
        value=64 if latent else draw(st.sampled_from([32, 64, 96])),
        cache=cache,
        page=draw(st.sampled_from([16, 24, 32, 64])),
        hnd=draw(st.booleans()),
        latent=latent,
        window=window,
        chunked=window is not None and draw(st.booleans()),
        sinks=draw(st.booleans()),
        softcap=draw(st.none() | st.floats(1, 50)),
        head_scales=draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=cases(), tile=st.sampled_from([16, 32]), steps=st.integers(1, 4))
def test_any_case(case, tile, steps):
    check(case, cut=Tiling(tile, 4, 3, 16), chunk=tile * steps)
