"""Folders and files on this disk, kind and hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvplan.errors import UnknownModel, UnreadableInput
from kvplan.sources import load
from kvplan.sources.document import DEPTH, LIMIT, parse_object, shown, tokenizer_limit

CONFIG = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4}


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(exist_ok=True)
    for name, value in files.items():
        path = folder / f"{name}.json"
        if isinstance(value, bytes):
            path.write_bytes(value)
        else:
            path.write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_a_folder_is_read_with_what_lies_beside_its_config(tmp_path):
    quant = {"quantization": {"quant_algo": "NVFP4"}}
    folder = write(tmp_path, config=CONFIG, hf_quant_config=quant, tokenizer_config={"model_max_length": 4096})
    for model in (str(folder), folder):
        found = load(model)
        assert (found.config, found.quant_config, found.tokenizer_max_length) == (CONFIG, quant, 4096)
        assert (found.id, found.source, found.revision) == (str(folder), "folder", None)


def test_a_config_file_is_its_folder(tmp_path):
    folder = write(tmp_path, config=CONFIG, hf_quant_config={"quantization": {}})
    found = load(folder / "config.json")
    assert (found.source, found.config, found.quant_config) == ("file", CONFIG, {"quantization": {}})


def test_a_file_of_another_name_stands_alone(tmp_path):
    folder = write(tmp_path, llama=CONFIG, hf_quant_config={"quantization": {}})
    assert load(folder / "llama.json").quant_config is None


def test_a_folder_on_this_disk_wins_over_a_built_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meta-llama").mkdir()
    write(tmp_path / "meta-llama/Llama-3.1-8B", config=CONFIG)
    assert load("meta-llama/Llama-3.1-8B").source == "folder"
    assert load("meta-llama/Llama-3.1-8B", revision="main").source == "folder"
    assert load("meta-llama/Llama-3.1-70B").source == "built-in"


def test_home_is_expanded_and_links_are_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "blobs", config=CONFIG)
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/config.json").symlink_to(tmp_path / "blobs/config.json")
    assert load("~/snapshot").config == CONFIG


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": NaN, "b": Infinity, "c": -Infinity}', None),
        (b"\xef\xbb\xbf" + b'{"a": 1}', {"a": 1}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b' \r\n{"a": "\\ud800"}\n', {"a": "\ud800"}),
        (b'{"rms_norm_eps": 1e-06}', {"rms_norm_eps": 1e-06}),
        (b'{"a": 1e999}', {"a": float("inf")}),
        (b'{"a": %s}' % (b"[" * 90 + b"]" * 90), None),
        (b'{"a": [%s]}' % b",".join([b"{}"] * 5000), None),
    ],
)
def test_odd_json_is_read(text, value):
    found = parse_object(text, "config.json")
    assert value is None or found == value


def test_a_config_of_3_mb_is_read(tmp_path):
    ignored = [f"model.layers.{n}.mlp.experts.{n}.down_proj" for n in range(70_000)]
    folder = write(tmp_path, config={"quantization_config": {"ignore": ignored}})
    assert (folder / "config.json").stat().st_size > 3e6
    assert len(load(folder).config["quantization_config"]["ignore"]) == 70_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is not JSON: expecting property name enclosed in double quotes (line 1, column 2)"),
        (b'{"a": 1}{', "is not JSON: extra data"),
        (b"<!doctype html>", "is a web page"),
        (b"[]", "is JSON, but a list"),
        (b"null", "is JSON, but null"),
        (b'"x"', "is JSON, but a string"),
        (b"17", "is JSON, but a number"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 text (byte 0)"),
        (b'{"a": "\x80"}', "is not UTF-8 text (byte 7)"),
        (b'{"a": %s}' % (b"9" * 5000), "holds a value that is too large"),
        (b'{"a": %s}' % (b"[" * 100_000), "levels deep"),
        (b'{"a":' * 100_000, "levels deep"),
        (b'{"a": %s}' % (b"[" * DEPTH + b"]" * DEPTH), f"nests more than {DEPTH} levels deep"),
        (b"\x00" * 8, "is not JSON"),
    ],
)
@pytest.mark.parametrize("name", ["config", "hf_quant_config", "tokenizer_config"])
def test_what_is_not_a_json_object_is_refused_by_name(tmp_path, name, text, says):
    folder = write(tmp_path, **{"config": CONFIG, name: text})
    with pytest.raises(UnreadableInput) as refusal:
        load(folder)
    assert refusal.value.message.startswith(f"{folder}/{name}.json ")
    assert says in refusal.value.message


def test_a_file_above_the_limit_is_not_read(tmp_path):
    folder = write(tmp_path)
    with (folder / "config.json").open("wb") as file:
        file.truncate(LIMIT + 1)
    with pytest.raises(UnreadableInput, match="is larger than 32 MiB"):
        load(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_what_would_block_or_never_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    for model in (tmp_path, tmp_path / "config.json", "/dev/zero", "/dev/stdin/config.json"):
        with pytest.raises((UnreadableInput, UnknownModel)):
            load(model)


def test_a_config_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(UnreadableInput, match=r"config\.json: is a directory"):
        load(tmp_path)


def test_a_link_to_nothing_or_to_itself_is_refused(tmp_path):
    (tmp_path / "config.json").symlink_to("nowhere")
    with pytest.raises(UnreadableInput, match="no such file"):
        load(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnreadableInput, match="too many levels of symbolic links"):
        load(tmp_path / "loop")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    (write(tmp_path, config=CONFIG) / "config.json").chmod(0)
    with pytest.raises(UnreadableInput, match="permission denied"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["model-Q4_K_M.gguf", "README.md"], "GGUF"),
        (["params.json", "consolidated.safetensors"], "Mistral's own layout"),
        (["adapter_config.json"], "holds an adapter"),
        (["model_index.json"], "diffusion pipeline"),
        (["snapshots", "refs", "blobs"], "folder of the Hub's cache"),
        (["a", "b", "c", "d", "e", "f"], "it holds a, b, c, d and 2 more"),
        (["\x1b[31mred"], r"it holds '\x1b[31mred'"),
        ([], "it is empty"),
    ],
)
def test_a_folder_without_a_config_says_what_it_holds(tmp_path, names, says):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(UnreadableInput) as refusal:
        load(tmp_path)
    assert says in f"{refusal.value.message} {refusal.value.hint}"


@pytest.mark.parametrize("model", ["./model.gguf", "/models/x.GGUF", "org/x.gguf"])
def test_gguf_is_refused_in_clear_words(model):
    with pytest.raises(UnreadableInput, match="is GGUF, which kvplan does not read"):
        load(model)


def test_weights_are_not_a_config(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(8))
    with pytest.raises(UnreadableInput, match="file of weights"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("./nowhere", "no folder or file ./nowhere"),
        ("../nowhere", "no folder or file"),
        ("/nowhere", "no folder or file /nowhere"),
        ("~nobody-at-all/x", "no folder or file ~nobody-at-all/x"),
        ("nowhere.json", "no folder or file nowhere.json"),
        ("./nul\0", r"no folder or file './nul\x00'"),
        ("./" + "x" * 5000, "file name too long"),
        (Path("nowhere"), "no folder or file nowhere"),
        ("", "no model is named"),
        ("a b", "neither a path, a built-in nor a Hub id"),
        ("a/b/c", "neither a path"),
        ("a--b/c", "neither a path"),
        ("a/.b", "neither a path"),
        ("a/b-", "neither a path"),
        ("a/b.git", "neither a path"),
        ("a/" + "b" * 97, "neither a path"),
        ("\x1b[31m", r"'\x1b[31m' is neither a path"),
        ("x" * 5000, "x… is neither a path"),
    ],
)
def test_what_is_nothing_is_refused(model, says):
    with pytest.raises((UnknownModel, UnreadableInput)) as refusal:
        load(model)
    assert says in refusal.value.message
    assert refusal.value.message.isprintable()
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B", "give the id alone"),
        ("hf://Qwen/Qwen3-8B", "give the id alone"),
        ("Qwen/Qwen3-8B@main", "--revision"),
        ("Qwen/Qwen3-8B!", "did you mean Qwen/Qwen3-8B"),
    ],
)
def test_what_is_almost_an_id_gets_a_hint(model, hint):
    with pytest.raises(UnknownModel) as refusal:
        load(model)
    assert hint in refusal.value.hint


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (4096, 4096),
        (4096.0, 4096),
        (2**53, 2**53),
        (int(1e30), None),
        (1e30, None),
        (float("inf"), None),
        (float("nan"), None),
        (0, None),
        (-1, None),
        (True, None),
        ("4096", None),
        (None, None),
    ],
)
def test_the_tokenizer_s_limit(value, limit):
    assert tokenizer_limit({"model_max_length": value}) == limit
    assert tokenizer_limit({}) is None


def test_long_names_are_cut():
    assert len(shown("x" * 1000)) < 210
