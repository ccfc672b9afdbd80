"""The page: well-formed, self-contained, with the plan's own figures; and as a browser sees it, where there is one."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser

import pytest
from render import chromium

from kvplan.cli import run
from kvplan.render.html import html_page
from kvplan.render.palette import DARK, LIGHT
from kvplan.render.picture import Bar, Curve, Fact, Part, Picture, Point
from kvplan.units import gib

MODEL = "meta-llama/Llama-3.1-8B"
ONE = ["size", MODEL, "--gpu", "h100-sxm", "--max-model-len", "8192"]
MANY = ["size", MODEL, "--gpu", "l4,h100-sxm,mi300x", "--kv-cache-dtype", "auto,fp8", "--max-model-len", "16384"]
ENGINES = ["size", MODEL, "--engine", "vllm,sglang", "--gpu", "h200-sxm", "-tp", "2", "--max-model-len", "20000"]
FIT = ["fit", MODEL, "--concurrency", "16", "--context", "32k", "--gpu", "l4,h100-sxm,mi300x", "--top", "3"]
REFUSED = ["size", "meta-llama/Llama-3.1-70B", "--gpu", "h100-sxm"]
_VOID = {"meta", "br", "hr"}


class Tree(HTMLParser):
    """Every element with its attributes and text; a tag that is left open, or closed twice, fails."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._texts: list[list[str]] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        texts: list[str] = []
        self.elements.append((tag, dict(attrs), texts))
        if tag not in _VOID:
            self.open.append(tag)
            self._texts.append(texts)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self._texts.pop()

    def handle_data(self, data):
        for texts in self._texts:
            texts.append(data)

    def all(self, tag: str, attribute: str = "") -> list[dict[str, str | None]]:
        return [attrs for name, attrs, _ in self.elements if name == tag and (not attribute or attribute in attrs)]

    def text(self, attribute: str, value: str) -> str:
        (found,) = ["".join(texts) for _, attrs, texts in self.elements if attrs.get(attribute) == value]
        return found


@pytest.fixture
def printed(capsys):
    def call(words: list[str], *more: str) -> str:
        run([*words, *more])
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize(
    "words", [ONE, MANY, ENGINES, REFUSED, FIT, ["size", MODEL], ["size", "state-spaces/mamba-130m-hf", "--gpu", "l4"]]
)
def test_nothing_is_fetched_and_nothing_runs(printed, words):
    page = printed(words, "--format", "html")
    tree = Tree(page)
    names = {name for name, _, _ in tree.elements}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "use", "image", "form"})
    assert "//" not in page
    assert "@import" not in page
    assert all(target.startswith("#") for target in re.findall(r"url\((.*?)\)", page))
    attributes = {name for _, attrs, _ in tree.elements for name in attrs}
    assert attributes.isdisjoint({"src", "href", "style", "xlink:href", "srcset"})
    assert not any(name.startswith("on") for name in attributes)


def test_the_figures_are_the_plans(printed):
    plan = json.loads(printed(ONE, "--format", "json"))
    tree = Tree(printed(ONE, "--format", "html"))
    assert tree.text("data-figure", "tokens") == f"{plan['kv']['tokens']:,}"
    assert tree.text("data-figure", "kv cache") == gib(plan["budget"]["kv_bytes"])
    parts = {attrs["data-part"]: int(attrs["data-bytes"]) for attrs in tree.all("g", "data-part")}
    assert parts == {line["name"]: line["bytes"] for line in plan["budget"]["lines"] if line["bytes"] > 0}
    (bar,) = tree.all("g", "data-bar")
    assert int(bar["data-bytes"]) == plan["gpu"]["memory_bytes"]


def test_every_point_of_a_curve_is_a_plan_of_that_length(printed):
    tree = Tree(printed(ONE, "--format", "html"))
    points = {int(attrs["data-length"]): float(attrs["data-value"]) for attrs in tree.all("g", "data-length")[:8]}
    assert set(points) == {1024 * 2**step for step in range(8)}
    for length in (1024, 131072):
        plan = json.loads(printed([*ONE[:-1], str(length)], "--format", "json"))
        assert points[length] == plan["kv"]["max_concurrency"]


def test_the_parts_fill_the_bar_in_proportion():
    bar = Bar("a card", 1000, (Part("weights", 400, estimated=False), Part("kv_cache", 500, estimated=True)))
    page = html_page(Picture("m", "s", True, ("v",), bars=(bar,)))
    widths = [float(w) for w in re.findall(r'<rect x="[0-9.]+" y="18" width="([0-9.]+)" height="24" class="fill', page)]
    assert widths == [360 * 0.4 - 1.5, 360 * 0.5 - 1.5]
    assert page.count('fill="url(#estimated)"') == 1


def test_several_cards_are_side_by_side(printed):
    plans = json.loads(printed(MANY, "--format", "json"))["plans"]
    page = printed(MANY, "--format", "html")
    tree = Tree(page)
    labels = [attrs["data-bar"] for attrs in tree.all("g", "data-bar")]
    assert labels[:2] == ["L4 24 GB, bf16", "L4 24 GB, fp8"]
    assert len(set(labels)) == len(plans) == 6
    assert len({attrs["data-curve"] for attrs in tree.all("g", "data-curve")}) == 6
    assert all(f"{plan['kv']['tokens']:,}" in page for plan in plans if plan["verdict"] == "fits")


def test_the_cards_of_a_fit_are_side_by_side(printed):
    answers = json.loads(printed(FIT, "--format", "json"))["found"]
    page = printed(FIT, "--format", "html")
    assert len(Tree(page).all("g", "data-bar")) == len(answers) == 3
    assert "hold 16 requests of 32,000 tokens" in page


def test_each_figure_has_a_title_and_a_description(printed):
    for page in (printed(ONE, "--format", "html"), printed(MANY, "--format", "html")):
        figures = re.findall(r'<svg[^>]*role="img"[^>]*><title>([^<]+)</title><desc>([^<]+)</desc>', page)
        assert [title for title, _ in figures] == [
            "Memory of one GPU",
            "Requests at once, by context length",
            "Tokens in the pool, by context length",
        ]


def test_what_a_stranger_wrote_stays_text():
    evil = "</title><script>alert(1)</script>\"' \x1b[2J\u202e\x00&amp;"
    bar = Bar(evil, 10, (Part(evil, 5, estimated=True, why=evil), Part("kv_cache", 90, estimated=False)))
    curve = Curve(evil, (Point(1024, 5000, 4.5),))
    picture = Picture(
        evil,
        evil,
        False,
        (evil,),
        (Fact(evil, evil, evil),),
        (bar,),
        (curve,),
        ((evil, (evil,), ((evil,),)),),
        (evil,),
        (evil,),
    )
    page = html_page(picture)
    assert not Tree(page).all("script")
    assert not {"\x1b", "\u202e", "\x00"} & set(page)


def test_an_empty_picture_is_a_page():
    assert Tree(html_page(Picture("m", "s", None, ()))).all("h1")


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_the_contrast_that_they_claim(theme):
    for fill in theme.fills.values():
        assert contrast(fill, theme.ink) >= 4.5
    for shape in (*theme.fills.values(), *theme.curves):
        assert contrast(shape, theme.page) >= 3
    for words, ground in itertools.product((theme.text, theme.quiet, theme.good, theme.bad), (theme.page, theme.panel)):
        assert contrast(words, ground) >= 4.5


CUT_OFF = """[...document.querySelectorAll('svg text')].filter(t => {
    const [word, figure] = [t.getBoundingClientRect(), t.ownerSVGElement.getBoundingClientRect()];
    return word.left < figure.left - 0.5 || word.right > figure.right + 0.5;
}).map(t => t.textContent)"""
OVERLAPS = """[...document.querySelectorAll('svg[role=img]')].flatMap(figure => {
    const words = [...figure.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    return words.flatMap(([one, a], index) => words.slice(index + 1).filter(([other, b]) =>
        a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 3 && b.top < a.bottom - 3
    ).map(([other]) => [one, other]));
})"""
needs_a_browser = pytest.mark.skipif(chromium.BROWSER is None, reason="no Chromium here")


@needs_a_browser
def test_the_browser_would_tell(tmp_path):
    file = tmp_path / "bad.html"
    file.write_text(
        '<!doctype html><img src="http://127.0.0.1:9/x.png"><script>console.error("no"); undefined.x</script>'
    )
    with chromium.page(file.as_uri(), str(tmp_path / "profile")) as page:
        assert page.value("1 + 1") == 2
        assert len(page.complaints()) >= 2
        assert "http://127.0.0.1:9/x.png" in page.requests()


@needs_a_browser
@pytest.mark.parametrize("words", [ONE, MANY, ENGINES, REFUSED], ids=["one", "many", "engines", "refused"])
def test_a_browser_shows_it_without_a_complaint(printed, tmp_path, words):
    file = tmp_path / "plan.html"
    file.write_text(printed(words, "--format", "html"), encoding="utf-8")
    url = file.as_uri()
    with chromium.page(url, str(tmp_path / "profile")) as page:
        grounds = set()
        for width, dark in itertools.product((360, 1280), (False, True)):
            page.screen(width, dark=dark)
            assert page.value("document.documentElement.scrollWidth") <= width
            grounds.add(page.value("getComputedStyle(document.body).backgroundColor"))
            letters = "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect())"
            assert page.value(f"Math.min(...{letters}.map(r => r.height))") >= 9
            assert page.value(CUT_OFF) == []
            assert page.value(OVERLAPS) == []
        assert grounds == {"rgb(255, 255, 255)", "rgb(20, 23, 27)"}
        drawn = page.value("[...document.querySelectorAll('[data-part] rect')].map(r => r.getBBox().width)")
        assert drawn
        assert all(width > 0 for width in drawn)
        if words is ONE:
            shown = page.value("document.querySelector('[data-figure=tokens]').innerText")
            assert shown == f"{json.loads(printed(ONE, '--format', 'json'))['kv']['tokens']:,}"
        assert page.complaints() == []
        assert page.requests() == [url]
