"""The flag tables: what the engines' parsers have, and the script that asks them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from kvplan.assets import PROFILES
from kvplan.manifests.flag_history import history
from kvplan.manifests.flags import TABLES, table, value_of
from kvplan.profile import load, plain

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.mark.parametrize(("engine", "flags"), [("vllm", 320), ("sglang", 531), ("tensorrt-llm", 32)])
def test_the_tables_are_whole(engine, flags):
    known = table(engine)
    assert known is not None
    assert len({flag.dest for flag in known.flags.values()}) >= 0.95 * flags
    assert all(name.startswith("-") for name in known.flags)
    assert set(TABLES) == {"vllm", "sglang", "tensorrt-llm"}
    assert table("llama.cpp") is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "4", 4), ("int", "x", "x"), ("float", "0.9", 0.9), ("float", "1", 1.0), ("float", "a", "a"),
        ("bool", "True", True), ("bool", "off", False), ("bool", "maybe", "maybe"), ("json", '{"a": [1]}', {"a": [1]}),
        ("json", "3", "3"), ("json", "{" * 100_000, "{" * 100_000), ("unknown", "16", 16), ("unknown", "x", "x"),
        ("human_int", "2M", 2 * 2**20), ("human_int", "1.5", "1.5"), ("str", "08", "08"),
    ],
)  # fmt: skip
def test_values(kind, text, value):
    assert value_of(text, kind) == value


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import flag_tables

    yield flag_tables
    sys.modules.pop("flag_tables")


def test_an_argparse_parser_becomes_rows(script):
    class Toggle(argparse.Action):
        def __call__(self, _parser, namespace, _values, option_string=None):
            setattr(namespace, self.dest, not str(option_string).startswith("--no-"))

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=7)
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--caching", "--no-caching", action=Toggle, nargs=0)
    rows = dict(script.of_argparse(parser))
    assert rows == {
        "--tensor-parallel-size": {"dest": "tensor_parallel_size", "type": "int", "aliases": ["-tp"]},
        "--names": {"dest": "names", "words": "+"},
        "--caching": {"dest": "caching", "type": "bool", "negatives": ["--no-caching"]},
    }
    text = script.table("vllm", "9.9.9", rows.items())
    assert plain(text)["flags"] == rows
    assert "7" not in text.partition("flags:")[2]  # no default of the engine comes along


def test_a_click_command_is_read_and_not_run(script):
    source = """
raise SystemExit("this is never run")
@click.command("serve")
@click.option("--tp_size", "--tensor_parallel_size", type=int, default=1)
@click.option("--trust_remote_code", is_flag=True)
@click.option("--config", "--extra_options", "extra_options", type=str)
def serve(): ...
"""
    assert dict(script.of_click(source, "serve")) == {
        "--tp-size": {"dest": "tp_size", "type": "int", "aliases": ["--tensor-parallel-size"]},
        "--trust-remote-code": {"dest": "trust_remote_code", "type": "bool"},
        "--config": {"dest": "extra_options", "aliases": ["--extra-options"]},
    }


@pytest.fixture
def flag_history(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import flag_history

    yield flag_history
    sys.modules.pop("flag_history")


def test_a_history_of_flags_is_read_from_source_text(flag_history, tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "entrypoints/openai").mkdir(parents=True)
    (tmp_path / "engine/arg_utils.py").write_text(
        'p.add_argument("--model", "-m", type=str)\nimport nothing_of_the_kind\n'
    )
    (tmp_path / "entrypoints/openai/cli_args.py").write_text("class FrontendArgs:\n    root_path: str = ''\n")
    assert flag_history.flags_of(tmp_path) == {"--model", "--root-path"}


def test_a_history_grows_by_a_release(flag_history):
    history = {"releases": [], "flags": {}}
    for release, flags in [("1.0", {"--a", "--b"}), ("1.1", {"--b", "--c"}), ("1.2", {"--c"})]:
        history = flag_history.with_release(history, release, flags)
    assert history["releases"] == ["1.0", "1.1", "1.2"]
    assert history["flags"] == {"--a": ["1.0", "1.0"], "--b": ["1.0", "1.1"], "--c": ["1.1", None]}


def test_the_history_has_every_flag_of_the_table():
    names = {name for name in load(PROFILES / "engines/vllm.flags.yaml")["flags"] if name.startswith("--")}
    spans = history().spans
    assert names - spans.keys() == set()
    assert {name for name in names if spans[name][1] is not None} == set()
    assert history().releases[-1] == table("vllm").release
