"""`kvplan fit` and `kvplan size … --fit` as a person or a script meets them."""

from __future__ import annotations

import json
import shlex

import pytest

from kvplan.cli import run
from kvplan.schemas import SCHEMAS

MODEL = "meta-llama/Llama-3.1-8B"
LOAD = ["--concurrency", "16", "--context", "8192"]
CARDS = ["--gpu", "l4,l40s", "--gpu", "h100-sxm"]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_text_has_the_best_card_first_and_the_command_that_plans_it(capsys):
    code, out, err = call(capsys, "fit", MODEL, *LOAD, *CARDS)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[2].split() == ["gpus", "card", "kv", "dtype", "tp", "dp", "requests", "left", "a", "GPU"]
    assert [line.split()[:2] for line in lines[3:6]] == [["1", "l40s"], ["1", "h100-sxm"], ["2", "l4"]]
    assert "  fits: 16 requests of 8,192 tokens at once on 3 of 3 cards, on up to 16 GPUs" in lines
    command = next(line for line in lines if line.startswith("  next: kvplan "))
    assert run(shlex.split(command.removeprefix("  next: kvplan "))) == 0


@pytest.mark.parametrize(
    "words", [[], ["--engine", "vllm,sglang"], ["--kv-cache-dtype", "auto,fp8_e4m3"], ["--max-gpus", "1"]]
)
def test_json_is_one_object_that_its_schema_describes(capsys, words):
    code, out, _ = call(capsys, "fit", MODEL, *LOAD, *CARDS, *words, "--format", "json")
    found = json.loads(out)
    SCHEMAS["fit"].model_validate(found)
    assert (code, found["verdict"]) == (0, "fits")
    options = [option for answer in found["found"] for option in answer["options"]]
    assert all(option["meets"] and option["requests"] >= 16 for option in options)


def test_markdown_and_prices(capsys, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nl4: 0.80\nh100: 2.50\n")
    code, out, _ = call(capsys, "fit", MODEL, *LOAD, "--price", str(prices), "--format", "markdown")
    assert code == 0
    assert "| gpus | card | an hour | kv dtype | tp | dp | requests | left a GPU |" in out
    assert out.index("| 2 | l4 | 1.60 EUR |") < out.index("| 1 | h100-sxm | 2.50 EUR |")
    assert "- note: 191 cards have no price and were left out" in out


def test_no_is_an_answer_with_the_closest(capsys):
    code, out, _ = call(capsys, "fit", MODEL, "--concurrency", "100000", "--context", "100k", *CARDS)
    assert code == 1
    assert "refused: none of 3 cards holds 100,000 requests of 100,000 tokens at once on up to 16 GPUs" in out
    assert "closest: 16 x h100-sxm (fp8, TP " in out


def test_a_card_that_cannot_be_planned_is_named_beside_the_answer(capsys):
    code, out, err = call(capsys, "fit", MODEL, *LOAD, "--gpu", "h100,max-1550")
    assert (code, err) == (0, "")
    assert "  fits: 16 requests of 8,192 tokens at once on 1 of 1 cards" in out
    assert "not planned: max-1550: the engines' worker on " in out
    code, out, err = call(capsys, "fit", MODEL, *LOAD, "--gpu", "max-1550")
    assert (code, out) == (2, "")
    assert "hint: NVIDIA and AMD cards are planned" in err


def test_a_context_beyond_the_model_is_told_once(capsys):
    code, out, _ = call(capsys, "fit", MODEL, "--concurrency", "1", "--context", "200000", "--gpu", "h100-sxm")
    assert code == 1
    assert "refused by vllm: --max-model-len 200000 is above the model's max_position_embeddings of 131072" in out
    code, out, _ = call(
        capsys, "fit", MODEL, "--concurrency", "1", "--context", "200000", "--gpu", "h100-sxm", "--format", "json"
    )
    assert code == 1
    SCHEMAS["fit"].model_validate(json.loads(out))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", MODEL], "error: Missing option"),
        (["fit", MODEL, "--concurrency", "0", "--context", "1k"], "error: --concurrency takes a whole number"),
        (["fit", MODEL, "--concurrency", "1", "--context", "auto"], "error: --context takes a number of tokens"),
        (["fit", MODEL, "--concurrency", "1", "--context", "-5"], "error: "),
        (["fit", MODEL, *LOAD, "--gpu", "h1000"], "error: unknown GPU"),
        (["fit", MODEL, *LOAD, "--max-gpus", "1000"], "error: --max-gpus 1000"),
        (["fit", MODEL, *LOAD, "--engine", "vllm,llama.cpp"], "error: kvplan does not plan"),
        (["fit", MODEL, *LOAD, "--price", "no/such/file"], "error: no/such/file is not a file"),
        (["fit", MODEL, *LOAD, "--kv-cache-dtype", "fp8,"], "error: an empty value between commas"),
        (
            ["fit", MODEL, *LOAD, "--gpu", "l4", "--kv-cache-dtype", "x" * 100],
            "error: --kv-cache-dtype takes a short name",
        ),
        (["size", MODEL, "--fit"], "error: --fit needs a card"),
        (["size", MODEL, "--fit", "--gpu", "l4,h100"], "error: --fit answers for one deployment"),
        (["size", MODEL, "--fit", "--gpu", "l4", "--engine", "vllm,sglang"], "error: --fit answers for one deployment"),
    ],
)
def test_bad_input_gets_one_line_and_an_exit_code(capsys, words, message):
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert len(err.splitlines()) <= 2


def test_an_unknown_card_among_the_prices_is_refused_with_near_names(capsys, tmp_path):
    (tmp_path / "prices.yaml").write_text("l4: 0.8\nh100-smx: 2\n")
    code, _, err = call(capsys, "fit", MODEL, *LOAD, "--price", str(tmp_path / "prices.yaml"))
    assert code == 2
    assert "prices.yaml:2: unknown GPU 'h100-smx'" in err
    assert "did you mean h100-sxm" in err


def test_size_fit_says_what_to_change(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "rtx-4090", "--fit")
    told = [line.strip() for line in out.splitlines()]
    assert code == 1
    assert any(line.startswith("fit: --kv-cache-dtype auto -> ") for line in told)
    assert any(line.startswith("or: --max-model-len 131072 -> ") for line in told)
    assert any(line.startswith("as it stands: --max-model-len up to ") for line in told)


def test_size_fit_in_json_and_markdown(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "rtx-4090", "--fit", "--format", "json")
    told = json.loads(out)
    SCHEMAS["size-fit"].model_validate(told)
    assert (code, told["verdict"], told["fit"]["change"]["verdict"]) == (1, "refused", "fits")
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "h100-sxm", "--fit", "--format", "markdown")
    assert code == 0
    assert "- fit: nothing has to change" in out


@pytest.mark.parametrize(
    ("engine", "length", "size"),
    [("sglang", "--context-length", "--tp-size"), ("tensorrt-llm", "--max-seq-len", "--tp-size")],
)
def test_an_engine_that_starts_and_turns_requests_away_has_its_own_names(capsys, engine, length, size):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "rtx-4090", "--engine", engine, "--fit")
    told = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert any(line.startswith(("fit:", "or:")) and f"{length} 131072 -> " in line for line in told)
    assert any(line.startswith(("fit:", "or:")) and f"{size} 1 -> " in line for line in told)
