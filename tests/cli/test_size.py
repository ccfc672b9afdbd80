"""`kvplan size` as a person or a script meets it: text, JSON, Markdown, exit codes, one line for each error."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.cli import run
from kvplan.render.explain import explain
from kvplan.render.text import plan_text
from kvplan.schemas import SCHEMAS
from kvplan.sources.builtin import builtin_ids

MODEL = "meta-llama/Llama-3.1-8B"
GIVEN = [
    "--weights",
    "16 GB",
    "--activations",
    "4 GB",
    "--cuda-graphs",
    "0",
    "--non-torch",
    "0",
    "--gpu-memory",
    "80 GB",
]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_text_of_a_plan_whose_terms_are_given(capsys):
    code, out, err = call(capsys, "size", MODEL, "--max-model-len", "8192", *GIVEN)
    assert (code, err) == (0, "")
    assert out == (
        "Llama-3.1-8B   bf16, 32 layers, GQA 8 x 128" + " " * 48 + "vLLM 0.33\n"
        "\n"
        "  budget         68.5 GiB     0.92 of 74.5 GiB a GPU\n"
        "  weights        14.9 GiB     --weights\n"
        "  activations     3.7 GiB     --activations\n"
        "  non-torch       0.0 GiB     --non-torch\n"
        "  cuda graphs     0.0 GiB     --cuda-graphs\n"
        "  kv cache       49.9 GiB     what is left\n"
        "\n"
        "  128 KiB of KV cache a token and GPU (bf16, 131,072 bytes)\n"
        "  one request of 8,192 tokens: 1 GiB a GPU\n"
        "\n"
        "  fits: 408,928 tokens in 25,558 blocks of 16, 49.92 requests of 8,192\n"
        "  next: --kv-cache-dtype fp8 holds about twice as many\n"
    )


def test_a_refusal_exits_with_one_and_says_what_fits(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "h100", "--kv-cache-memory-bytes", "1 GiB")
    assert code == 1
    assert "refused: one request of 131072 tokens needs 16.00 GiB of KV cache" in out
    assert "next: --max-model-len 8176 fits" in out


def test_json_is_one_object_that_its_schema_describes(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "h100-sxm", "--format", "json")
    plan = json.loads(out)
    SCHEMAS["size"].model_validate(plan)
    assert code == 0
    assert (plan["schema"], plan["verdict"], plan["gpu"]["name"]) == (1, "fits", "h100-sxm")
    assert plan["kv"]["bytes_per_token"] == 131_072


@pytest.mark.parametrize("more", [["-tp", "1,2"], ["--engine", "vllm,sglang"]])
def test_json_of_several_plans_has_a_schema_too(capsys, more):
    _, out, _ = call(capsys, "size", MODEL, "--gpu", "h100-sxm", "--format", "json", *more)
    told = json.loads(out)
    SCHEMAS["size-plans"].model_validate(told)
    assert len(told["plans"]) == 2
    assert ("differences" in told) == ("--engine" in more)


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (["--kv-cache-memory-bytes", "75GiB"], "runs out of memory"),
        (["--num-gpu-blocks-override", "38000"], "runs out of memory"),
        (["--kv-cache-memory-bytes", "50GiB"], "fits"),
    ],
)
def test_a_pool_that_has_no_room_beside_the_weights_is_no_yes(capsys, flags, verdict):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "h100-sxm", "--max-model-len", "8192", *flags)
    assert f"  {verdict}: " in out
    assert code == (verdict != "fits")


def test_slices_of_a_card_are_not_joined_and_old_cards_have_no_bfloat16(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--gpu", "b200-mig-2g.45gb", "-tp", "2", "--max-model-len", "8192")
    assert (code, "refused: no collective spans the slices" in out) == (1, True)
    words = ["size", "Qwen/Qwen2-7B", "--gpu", "v100-32gb-pcie", "--max-model-len", "4096"]
    code, out, _ = call(capsys, *words, "--dtype", "bfloat16")
    assert (code, "refused: bfloat16 needs compute capability 8.0" in out) == (1, True)
    assert call(capsys, *words)[0] == 0


def test_a_draft_that_attends_beside_states_alone_is_declined(capsys):
    draft = '{"model": "meta-llama/Llama-3.1-8B", "num_speculative_tokens": 3}'
    code, _, err = call(
        capsys, "size", "mistralai/Mamba-Codestral-7B-v0.1", "--gpu", "h100-sxm", "--speculative-config", draft
    )
    assert code == 2
    assert "kvplan does not know how a draft with attention" in err


def test_a_long_value_is_cut_in_an_error(capsys):
    code, _, err = call(capsys, "size", MODEL, "--max-num-seqs", "9" * 5000)
    assert code == 2
    assert len(err) < 1000
    code, _, err = call(capsys, "size", "x" * 5000)
    assert len(err) < 1000


def test_without_a_card_budget_and_verdict_are_null(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--format", "json")
    plan = json.loads(out)
    SCHEMAS["size"].model_validate(plan)
    assert code == 0
    assert (plan["gpu"], plan["verdict"], plan["budget"]["requested_bytes"], plan["budget"]["kv_bytes"]) == (None,) * 4
    assert plan["kv"]["max_model_len"] == 131_072
    assert plan["weights"]["bytes_per_rank"] > 0


def test_without_a_card_the_text_shows_common_ones(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--max-model-len", "8192")
    assert code == 0
    assert all(card in out for card in ("l4", "rtx-4090", "h100-sxm", "b200", "mi300x"))


def test_an_unreadable_architecture_is_refused_before_any_card(capsys):
    code, out, _ = call(capsys, "size", "tiiuae/falcon-7b")
    assert code == 1
    assert "refused: vLLM served RWForCausalLM up to 0.28.0 and dropped it" in out


def test_several_values_give_a_matrix(capsys):
    words = ["size", MODEL, "--gpu", "h100-sxm,h200-sxm", "-tp", "1", "--tp", "2", "--kv-cache-dtype", "auto,fp8"]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert len(out.splitlines()) == 1 + 8
    code, out, _ = call(capsys, *words, "--format", "json")
    plans = json.loads(out)["plans"]
    assert [plan["gpu"]["count"] for plan in plans] == [1, 1, 2, 2, 1, 1, 2, 2]
    code, out, _ = call(capsys, *words, "--format", "markdown")
    assert out.count("\n| ") == 2 + 8


def test_markdown_holds_the_ledger_and_the_verdict(capsys):
    code, out, _ = call(capsys, "size", MODEL, "--max-model-len", "8192", *GIVEN, "--format", "markdown")
    assert code == 0
    assert "| kv_cache | 49.92 GiB | exact | what is left |" in out
    assert "- fits: 408,928 tokens" in out


def test_explain_shows_the_product(capsys):
    _, out, _ = call(capsys, "size", MODEL, "--explain", "-tp", "2", "--gpu", "h100-sxm", "--max-model-len", "8192")
    assert "4 KV heads (8 over 2 GPUs) x (a key of 128 + a value of 128) x 2 bytes of bf16 = 2,048 bytes" in out
    assert "x 32 layers = 65,536 bytes a token" in out
    assert "a block id costs 1,048,576 bytes" in out


def test_what_if_it_had_other_kv_heads(capsys):
    _, out, _ = call(capsys, "size", MODEL, "--kv-heads", "1", "--format", "json")
    assert json.loads(out)["kv"]["bytes_per_token"] == 16_384


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["size"], 2, "error: Missing argument 'model'"),
        (["sise"], 2, "error: no command 'sise'"),
        (["size", MODEL, "--gpus", "h100"], 2, "error: No such option: --gpus"),
        (["size", MODEL, "--gpu", "h1000"], 2, "error: "),
        (["size", MODEL, "--gpu", "h100x2", "-tp", "4"], 2, "error: --gpu h100x2: 2 cards, but TP x PP x DP takes 4"),
        (["size", MODEL, "--gpu-memory", "80"], 2, "error: --gpu-memory: '80' is not a size with a unit"),
        (["size", MODEL, "--tp", "0"], 2, "error: --tensor-parallel-size takes a whole number"),
        (["size", MODEL, "--tp", "1,,2"], 2, "error: an empty value between commas"),
        (["size", MODEL, "--tp", ",".join(map(str, range(1, 300)))], 2, "error: 299 plans are more than"),
        (["size", MODEL, "--engine", "llama.cpp"], 2, "error: kvplan does not plan the engine 'llama.cpp'"),
        (["size", MODEL, "--kv-heads", "5"], 2, "error: --kv-heads 5: KV heads must divide the 32 query heads"),
        (["size", "./no/such/folder"], 2, "error: "),
        (["size", "no such model!"], 2, "error: "),
    ],
)
def test_bad_input_gets_one_line_and_an_exit_code(capsys, words, code, message):
    got, out, err = call(capsys, *words)
    assert (got, out) == (code, "")
    assert err.startswith(message)
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err


def test_a_terminal_cannot_be_moved_by_a_name(capsys):
    _, _, err = call(capsys, "size", "evil\x1b[2J\nname")
    assert "\x1b" not in err
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize(
    "words", [["--help"], ["size", "--help"], ["gpus", "-h"], ["models", "--help"], ["schema", "--help"], []]
)
def test_help(capsys, words):
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert "Usage: kvplan" in out


def test_version(capsys):
    assert call(capsys, "--version")[:2] == (0, "kvplan 0.1.0\n")


def test_gpus_models_and_schema_answer(capsys):
    assert "h100-sxm" in call(capsys, "gpus")[1]
    assert json.loads(call(capsys, "gpus", "4090", "--format", "json")[1])["gpus"][0]["name"] == "rtx-4090"
    assert MODEL in call(capsys, "models")[1]
    assert json.loads(call(capsys, "models", "--format", "json")[1])["schema"] == 1
    assert json.loads(call(capsys, "schema", "size")[1])["title"] == "Size"


def test_a_quantised_name_without_a_section_is_not_guessed(tmp_path, capsys):
    path = tmp_path / "nvidia--Some-8B-NVFP4.json"
    path.write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128_256,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
    }), encoding="utf-8")  # fmt: skip
    code, _, err = call(capsys, "size", str(path), "--gpu", "h100-sxm")
    assert code == 2
    assert "hf_quant_config.json" in err
    assert call(capsys, "size", str(path), "--gpu", "h100-sxm", "--kv-cache-dtype", "fp8")[0] == 0


def test_no_line_of_a_plan_holds_a_control_character():
    for name in builtin_ids():
        try:
            made = kvplan.plan(name, gpu="h100-sxm")
        except kvplan.KvplanError:
            continue
        assert all(line.isprintable() for line in [*plan_text(made), *explain(made)]), name


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("deepseek-ai/DeepSeek-V3.2 --gpu h200 -tp 8", "fp8 holds about 1.6 times as many"),  # rows of 656 bytes
        ("meta-llama/Llama-3.1-8B --gpu mi300x", "fp8 holds about twice as many"),
        ("TheBloke/Llama-2-7B-AWQ --gpu t4", None),  # Triton reads no fp8 there
        ("microsoft/phi-2 --gpu a100-40gb-pcie", None),
    ],
)
def test_the_next_step_is_what_the_planner_finds(capsys, command, told):
    _, out, _ = call(capsys, "size", *command.split())
    assert (f"next: --kv-cache-dtype {told}" in out) if told else ("next:" not in out)


def test_fit_proposes_no_dtype_that_the_card_does_not_take(capsys):
    for command, dtype in (
        ("meta-llama/Llama-3.1-70B-Instruct --gpu mi300x --gpu-memory-utilization 0.82", "nvfp4"),
        ("TheBloke/Llama-2-7B-AWQ --gpu t4 --gpu-memory-utilization 0.42", "fp8"),
    ):
        _, out, _ = call(capsys, "size", *command.split(), "--fit")
        assert "fit: --" in out
        assert dtype not in out
