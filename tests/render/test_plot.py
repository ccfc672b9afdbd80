"""`--plot`: a page without matplotlib, SVG and PNG with it, and one line where it is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from xml.etree import ElementTree as ET

import pytest

from kvplan.cli import run
from kvplan.render import plot
from kvplan.render.picture import Bar, Curve, Part, Picture, Point
from kvplan.render.scale import LogScale, decades, doublings

ONE = ["size", "meta-llama/Llama-3.1-8B", "--gpu", "h100-sxm", "--max-model-len", "8192"]
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="no matplotlib here")


def test_a_page_needs_no_matplotlib_and_is_what_format_html_prints(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run([*ONE, "--plot", str(tmp_path / "a.html")]) == 0
    assert "fits:" in capsys.readouterr().out
    run([*ONE, "--format", "html"])
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == capsys.readouterr().out


def test_without_matplotlib_one_line_says_so(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    assert run([*ONE, "--plot", str(tmp_path / "a.png")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "needs matplotlib, which is not installed" in told.err
    assert "hint: pip install matplotlib" in told.err


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.pdf", "a plot is .html, .png or .svg"), ("a", "a plot is"), ("no/such/folder/a.html", "cannot write")],
)
def test_a_file_that_cannot_be_drawn(capsys, tmp_path, name, message):
    assert run([*ONE, "--plot", str(tmp_path / name)]) == 2
    told = capsys.readouterr()
    assert (told.out, message in told.err) == ("", True)


def test_fit_draws_the_cards_that_hold_the_load(tmp_path):
    wish = ["fit", "meta-llama/Llama-3.1-70B", "--concurrency", "8", "--context", "16384", "--gpu", "h100-sxm,h200-sxm"]
    assert run([*wish, "--plot", str(tmp_path / "a.html")]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "2 cards hold 8 requests of 16,384 tokens" in page
    assert page.count("data-bar=") == 2
    assert page.count("data-curve=") == 4
    assert run([*wish[:3], "9999999", *wish[4:], "--plot", str(tmp_path / "b.html")]) == 2
    assert not (tmp_path / "b.html").exists()
    assert run([*wish[:3], "999999", *wish[4:], "--plot", str(tmp_path / "b.html")]) == 1
    assert "no card holds" in (tmp_path / "b.html").read_text(encoding="utf-8")


@needs_matplotlib
def test_an_svg_holds_the_words_and_is_the_same_twice(tmp_path):
    for name in ("a.svg", "b.svg"):
        assert run([*ONE, "--plot", str(tmp_path / name)]) == 0
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    words = " ".join(ET.fromstring(text).itertext())
    assert all(word in words for word in ("meta-llama/Llama-3.1-8B", "H100 SXM 80 GB", "KV cache", "requests at once"))


@needs_matplotlib
def test_a_png_from_plain_figures(tmp_path):
    bars = (
        Bar("a card", 80 * 2**30, (Part("weights", 20 * 2**30, estimated=False), Part("x", 2**30, estimated=True))),
    )
    curves = tuple(
        Curve(f"card {n}", (Point(1024, 9000 * n, 8.8 * n), Point(2048, 9000 * n, 4.4 * n))) for n in range(1, 9)
    )
    plot.write_plot(Picture("a model", "words", None, (), bars=bars, curves=curves), tmp_path / "a.png")
    plot.write_plot(Picture("only words", "", None, ()), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("low", "high", "bounds", "ticks"),
    [
        (30, 400, (20, 500), (20, 50, 100, 200, 500)),
        (1, 999, (1, 1000), (1, 10, 100, 1000)),
        (10, 10, (10, 50), (10, 20, 50)),
        (439_184, 439_184, (200_000, 500_000), (200_000, 500_000)),
        (1.2, 9e6, (1, 1e7), (1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7)),
    ],
)
def test_round_bounds_and_ticks(low, high, bounds, ticks):
    assert decades(low, high) == (*bounds, ticks)


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (1024, 131072, 8, (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)),
        (1024, 131072, 4, (1024, 4096, 16384, 65536)),
        (1000, 3000, 5, (1024, 2048)),
        (1024, 1024, 5, (1024,)),
        (1025, 2000, 5, ()),
    ],
)
def test_doublings(low, high, most, ticks):
    assert doublings(low, high, most) == ticks


def test_a_logarithmic_scale():
    scale = LogScale(1, 1000, 0, 300)
    assert [round(scale.at(value)) for value in (1, 10, 100, 1000)] == [0, 100, 200, 300]
