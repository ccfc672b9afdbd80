"""Which files are read, and what happens to those that are no text."""

from __future__ import annotations

import os

import pytest

from kvplan.errors import UnreadableInput
from kvplan.manifests.files import LIMIT, Form, decode, find, form_of, read_text


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in (
        "b/deploy.yaml", "a.yml", "compose.YAML", "serve.sh", "Dockerfile", "docker/Dockerfile.gpu", "x.dockerfile",
        "job.sbatch",
        ".github/values.yaml", ".hidden/no.yaml", "node_modules/no.yaml", "package.json", "README.md", "b/.hidden.yaml",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a: 1\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a.yml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(paths, **options) -> list[str]:
    return [found.name for found in find(paths, **options)]


@pytest.mark.usefixtures("tree")
def test_a_walk_finds_what_may_hold_manifests_and_follows_no_link():
    assert names(["."]) == [
        ".github/values.yaml", "Dockerfile", "a.yml", "b/.hidden.yaml", "b/deploy.yaml", "compose.YAML",
        "docker/Dockerfile.gpu", "job.sbatch", "serve.sh", "x.dockerfile",
    ]  # fmt: skip


@pytest.mark.usefixtures("tree")
def test_what_is_named_is_read_whatever_it_is_called():
    assert names(["package.json", "link.yaml", ".hidden"]) == ["package.json", "a.yml", ".hidden/no.yaml"]
    assert [found.named for found in find(["a.yml", "b"])] == [True, False, False]


@pytest.mark.usefixtures("tree")
def test_each_file_is_read_once():
    assert names(["a.yml", ".", "a.yml"]).count("a.yml") == 1


@pytest.mark.usefixtures("tree")
def test_exclusions_are_of_a_walk():
    assert "a.yml" not in names(["."], excluded=lambda name: name.endswith(".yml"))
    assert names(["a.yml"], excluded=lambda _: True) == ["a.yml"]


@pytest.mark.usefixtures("tree")
def test_a_path_that_is_not_there_is_refused():
    with pytest.raises(UnreadableInput, match="no file or folder"):
        names(["nothing.yaml"])


@pytest.mark.usefixtures("tree")
def test_a_path_outside_of_the_current_folder_stays_as_it_is_given(tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "m.yaml"
    other.write_text("a: 1")
    assert names([str(other)]) == [other.as_posix()]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe", "not UTF-8 text"),
        (b"a\nb\0c", "a NUL in line 2"),
        (b"x" * (LIMIT + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_text_is_refused(data, message):
    with pytest.raises(UnreadableInput, match=message):
        decode(data)


def test_line_ends_and_a_byte_order_mark_are_taken_off():
    assert decode(b"\xef\xbb\xbfa: 1\r\nb: 2\rc") == "a: 1\nb: 2\nc"


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UnreadableInput, match="not a regular file"):
        read_text(tmp_path / "pipe.yaml")
    with pytest.raises(UnreadableInput, match=r"is a directory|not a regular file"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("m.yaml", "", Form.YAML), ("run.sh", "", Form.SHELL), ("Dockerfile", "", Form.DOCKERFILE),
        ("Dockerfile.rocm", "", Form.DOCKERFILE), ("-", "vllm serve m --a '{\"b\": 1}'", Form.SHELL),
        ("-", "\n# said\napiVersion: v1", Form.YAML), ("-", "---\nkind: Pod", Form.YAML),
        ("-", "#!/bin/sh\nexec x", Form.SHELL),
        ("-", "FROM vllm/vllm-openai", Form.DOCKERFILE), ("-", '{"kind": "Pod"}', Form.YAML),
        ("-", "- a\n- b", Form.YAML),
        ("entrypoint", "#!/usr/bin/env bash\n", Form.SHELL), ("-", "services:\n  x: 1", Form.YAML),
    ],
)  # fmt: skip
def test_the_form_is_told_by_the_name_else_by_the_beginning(name, text, form):
    assert form_of(name, text) is form
