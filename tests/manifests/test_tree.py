"""YAML as located values: places, aliases, merges, and the bounds that a hostile file meets."""

from __future__ import annotations

import pytest

from kvplan.manifests.tree import (
    BadYaml,
    Map,
    Scalar,
    at,
    entries,
    items,
    number,
    parse,
    plain_value,
    scalar,
    text,
    walk,
)

DOCUMENT = """\
name: &n llama
list:
  - one
  - {two: 2, three: *n}
base: &base {a: 1, b: 2}
merged:
  c: 3
  <<: *base
  b: 9
block: |
  line
"""


def place(node, *path):
    found = at(node, *path)
    assert found is not None
    return tuple(found.place)


def test_every_value_has_its_place():
    root = parse(DOCUMENT)[0]
    assert place(root, "name") == (1, 7)
    assert place(root, "list", 0) == (3, 5)
    assert place(root, "list", 1, "two") == (4, 11)
    assert place(root, "block") == (10, 8)
    assert isinstance(root, Map)
    assert tuple(root.keys["merged"].place) == (6, 1)


def test_lines_count_from_the_first_line_of_a_later_document():
    assert tuple(parse("a: 1", first_line=40)[0].place) == (40, 1)


def test_aliases_and_merges_are_filled_in_wherever_the_merge_stands():
    root = parse(DOCUMENT)[0]
    assert text(root, "list", 1, "three") == "llama"
    assert {key: text(value) for key, value in entries(root, "merged")} == {"a": "1", "b": "9", "c": "3"}


def test_the_first_of_several_merged_mappings_gives_a_key():
    root = parse("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}")[0]
    assert {key: text(value) for key, value in entries(root, "c")} == {"x": "1", "y": "2"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a: NO", "NO"), ("a: 1.10", 1.1), ("a: 08", 8), ("a: 1e3", 1000.0), ("a: 12:30:45", "12:30:45"),
        ("a: true", True),
        ("a: 'true'", "true"), ("a:", None), ("a: ~", None), ("a: [1, {b: x}]", [1, {"b": "x"}]), ("a: 0x10", "0x10"),
    ],
)  # fmt: skip
def test_words_are_typed_only_where_somebody_asks(written, value):
    found = at(parse(written)[0], "a")
    assert found is not None
    assert plain_value(found) == value
    if isinstance(found, Scalar):
        assert found.text == written.partition(":")[2].strip().strip("'")


def test_what_is_not_there_is_none():
    root = parse("a: {b: [1, x]}")[0]
    assert (text(root, "a", "c"), text(root, "a"), scalar(root, "a", "b", 9), number(root, "a", "b", 1)) == (None,) * 4
    assert (number(root, "a", "b", 0), items(root, "a"), entries(root, "a", "b")) == (1, (), [])


def test_a_key_that_is_no_scalar_is_left_out():
    assert text(parse("token: {{HF_TOKEN}}\nname: x")[0], "name") == "x"


def test_a_trailing_tab_and_crlf_are_taken_as_kubectl_takes_them():
    assert text(parse("a: x\t\nb: y\r\n")[0], "a") == "x"


@pytest.mark.parametrize(
    ("text_", "message", "line"),
    [
        ("[" * 70, "nests more than 60 levels deep", 1),
        ("{a: " * 70, "nests more than 60 levels deep", 1),
        ("x: 1\na: &a [*a]", "the anchor 'a' is used inside itself", 2),
        ("a: *b", "the anchor 'b' is not defined", 1),
        ("a: &a 1\n---\nb: *a", "the anchor 'a' is not defined", 3),
        ("a:\n  b: 1\n c: 2", "did not find expected key", 3),
        ("x: 1\ny: \x07", "a character that YAML does not allow", 2),
        ("[" + "x, " * 300_001 + "]", "holds more than 300,000 values", 1),
    ],
    ids=["lists", "maps", "cycle", "undefined", "other document", "indentation", "bell", "many"],
)
def test_what_is_refused_says_why_and_where(text_, message, line):
    with pytest.raises(BadYaml) as error:
        parse(text_)
    assert (error.value.message, error.value.place.line) == (message, line)


def test_bombs_of_aliases_and_merges_end():
    laughs = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    root = parse(laughs)[0]
    assert sum(1 for _ in walk(root)) < 100
    with pytest.raises(BadYaml, match="too many"):
        plain_value(root)
    merges = "a: &a {" + ", ".join(f"k{i}: v" for i in range(50_000)) + "}\n"
    with pytest.raises(BadYaml, match="300,000"):
        parse(merges + "".join(f"b{i}: {{<<: *a}}\n" for i in range(20)))
