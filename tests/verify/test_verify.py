"""The whole verification against a card made of integers: each line, each verdict, each way to fail."""

from __future__ import annotations

import json

import pytest
from fake_card import READ, FakeFactory

from kvplan.errors import KvplanError, NoGpu, UsageError
from kvplan.schemas import Verify
from kvplan.units import GIB, MIB
from kvplan.verify.order import granules
from kvplan.verify.report import verify_object, verify_text
from kvplan.verify.run import VerifyFailed, verify

LLAMA = "meta-llama/Llama-3.1-8B"


def run(tmp_path, model=LLAMA, *, faults=None, **options):
    return verify(model, factory=FakeFactory(str(tmp_path), **(faults or {})), **options)


def line(found, name):
    return next(one for one in found.decisive.lines if one.name == name)


def test_confirmed(tmp_path):
    found = run(tmp_path)
    assert found.verdict == "confirmed"
    assert found.ok
    assert [one.name for one in found.decisive.lines] == [
        "others", "context", "weights", "persistent", "cuda_graphs", "activations", "non_torch", "kv_cache", "total",
    ]  # fmt: skip
    assert line(found, "total").measured == sum(one.measured for one in found.decisive.lines[:-1])
    assert found.decisive.blocks == found.plan.kv.num_blocks
    pool = line(found, "kv_cache")
    assert pool.predicted == pool.measured == 32 * granules(found.plan.kv.num_blocks * 65_536)
    assert line(found, "weights").basis == "given"
    assert line(found, "weights").predicted == 16_094_077_440
    assert line(found, "context").measured == 614 * MIB
    assert line(found, "non_torch").measured == 210 * MIB
    assert all(one.ok for one in found.decisive.lines)
    step, long = found.decisive.steps
    assert (step.requests, step.longest) == (int(found.plan.kv.max_concurrency), 131_072)
    assert step.read_bytes == step.requests * 131_072 * 131_072
    assert step.roofline == pytest.approx(step.read_bytes / READ)
    assert (long.requests, long.longest) == (1, 131_072)
    assert found.aftermath.clean


def test_report_and_schema(tmp_path):
    found = run(tmp_path)
    text = verify_text(found)
    assert text[-1].startswith("  confirmed: ")
    assert any("the card's memory is back" in row for row in text)
    Verify.model_validate(verify_object(found))
    assert verify_object(found)["step"]["read_bandwidth"] == pytest.approx(READ)


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"wrong_words": 3}, "3 words wrong"),
        ({"row_error": 0.1}, "worst row off by 1.0e-01, bound 6e-03"),
        ({"row_error": float("inf")}, "worst row off by inf"),
        ({"slow": 1.2}, "attention step"),
        ({"activations": 3.0}, "activations measured"),
        ({"growth": 3 * GIB}, "non_torch measured"),
        ({"context": 4 * GIB}, "context measured"),
        ({"lost": 300 * MIB}, "measured"),
    ],
    ids=str,
)
def test_not_confirmed(tmp_path, faults, reason):
    found = run(tmp_path, faults=faults)
    assert found.verdict == "not confirmed"
    assert not found.ok
    assert reason in found.reason
    assert verify_text(found)[-1] == f"  not confirmed: {found.reason}"


def test_total_beyond_the_engines_share(tmp_path):
    """Each line within the tolerance, but together more than the plan's share by more than that."""
    found = run(tmp_path, faults={"growth": 1400 * MIB, "activations": 1.6})
    assert found.verdict == "not confirmed"
    assert "taken in all" in found.reason


def test_tolerance_is_a_share_of_the_card(tmp_path):
    found = run(tmp_path, faults={"context": 4 * GIB}, tolerance=0.03)
    assert found.verdict == "confirmed"
    assert line(found, "context").tolerance == round(0.03 * found.facts.memory.total)


def test_others_on_the_card(tmp_path):
    found = run(tmp_path, faults={"held": 3 * GIB, "strangers": (4711,)})
    assert found.verdict == "confirmed"
    assert line(found, "others").measured == 3 * GIB
    assert line(found, "context").measured == 614 * MIB
    assert any("4711" in note for note in found.decisive.notes)


def test_no_tool_says_what_others_hold(tmp_path):
    found = run(tmp_path, faults={"held": None})
    assert found.verdict == "confirmed"
    assert found.aftermath.left_bytes is None
    assert any("counted as context" in note for note in found.decisive.notes)


def test_memory_confirmed_where_the_kernels_cannot_decode(tmp_path):
    found = run(tmp_path, "deepseek-ai/DeepSeek-V3.2", faults={"name": "NVIDIA B200", "total": 180 * GIB,
                "capability": (10, 0)}, tensor_parallel_size=8)  # fmt: skip
    assert found.verdict == "memory confirmed"
    assert not found.ok
    assert found.reason.endswith("the kernels do not decode Indexer caches")


def test_quick_holds_the_whole_pool_and_fills_one_layer(tmp_path):
    found = run(tmp_path, quick=True)
    assert found.verdict == "confirmed"
    assert line(found, "kv_cache").measured == pytest.approx(found.plan.kv.num_blocks * 2 * MIB, abs=4 * MIB)
    assert found.decisive.steps[0].longest == 4096
    assert any(note.startswith("--quick") for note in verify_object(found)["notes"])


def test_hybrid_and_fp8(tmp_path):
    found = run(
        tmp_path, "Qwen/Qwen3-Next-80B-A3B-Instruct", tensor_parallel_size=4, kv_cache_dtype="fp8", max_model_len=65536
    )
    assert found.verdict == "confirmed"
    assert any("one rank's share of 4" in row for row in verify_text(found))


def test_latent_attention_may_be_bound_by_arithmetic(tmp_path):
    """128 query heads over one latent do 242 operations a byte: the matrix rate, not the bandwidth, is the roof."""
    found = run(tmp_path, "deepseek-ai/DeepSeek-V3", faults={"name": "NVIDIA B200", "total": 180 * GIB,
                "capability": (10, 0), "slow": 1.0}, weights="60 GiB", max_model_len=8192)  # fmt: skip
    step = found.decisive.steps[0]
    assert step.roofline > step.read_bytes / READ


def test_tune_is_told(tmp_path):
    assert any("--tune" in note for note in run(tmp_path, tune=True).decisive.notes)


# -- failures: one line, the right exit code, nothing left on the card ------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "code", "message"),
    [
        ({"without": "torch 2.13.0 is built without CUDA"}, 4, "built without CUDA"),
        ({"held": 60 * GIB}, 4, "the engine would not start: 79.21 GiB of 139.81 GiB are free"),
        ({"total": 12 * GIB}, 4, "the engine would not start"),
        ({"at": "warm", "fault": "device"}, 1, "illegal memory access"),
        ({"at": "fill", "fault": "die"}, 1, "the child was ended by SIGKILL at the step 'fill'"),
        ({"at": "attend", "fault": "raise"}, 1, "RuntimeError: driver says;"),
        ({"at": "row", "fault": "interrupt"}, 130, "interrupted"),
    ],
    ids=str,
)
def test_failure(tmp_path, faults, code, message):
    with pytest.raises(VerifyFailed) as caught:
        run(tmp_path, faults=faults)
    assert caught.value.exit_code == code
    assert message in caught.value.message
    assert caught.value.message.endswith("the child has ended and the card's memory is back at its baseline")
    assert "\n" not in caught.value.message


def test_busy_card(tmp_path):
    """Free memory fell after the plan was made: less than the budget asks for by the time the child looks."""
    with pytest.raises(VerifyFailed, match=r"GiB are free, and the plan asks for") as caught:
        run(tmp_path, faults={"context": 13 * GIB})
    assert caught.value.exit_code == 4


def test_time_out(tmp_path):
    with pytest.raises(VerifyFailed, match="no end after 4 s, at the step 'read back'") as caught:
        run(tmp_path, faults={"at": "check", "fault": "hang"}, timeout=4.0)
    assert caught.value.exit_code == 1
    assert "memory is back" in caught.value.message


def test_interrupted_parent(tmp_path):
    """Ctrl-C while the child works: it is ended, and the card is seen to come back."""

    def interrupt(step, _share):
        if step == "pool":
            raise KeyboardInterrupt

    with pytest.raises(VerifyFailed, match="interrupted; the child has ended and the card's memory is back") as caught:
        run(tmp_path, progress=interrupt)
    assert caught.value.exit_code == 130


def test_memory_that_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr("kvplan.verify.watch.GRACE", 0.5)
    found = run(tmp_path, faults={"leak": 2 * GIB})
    assert found.verdict == "not confirmed"
    assert found.reason == "the child has ended, but 2.00 GiB of the card are still in use"


def test_more_concurrency_than_blocks(tmp_path):
    with pytest.raises(VerifyFailed, match="100 requests of 131,072 tokens need 819,200 blocks") as caught:
        run(tmp_path, concurrency=100)
    assert caught.value.exit_code == 1


def test_unknown_card_is_planned_by_a_named_profile(tmp_path):
    faults = {"name": "NVIDIA H999"}
    with pytest.raises(VerifyFailed, match="the catalogue has no NVIDIA H999") as caught:
        run(tmp_path, faults=faults)
    assert caught.value.exit_code == 4
    assert run(tmp_path, faults=faults, gpu="h200").verdict == "confirmed"


def test_utilisation_above_what_is_free(tmp_path):
    with pytest.raises(VerifyFailed, match=r"less than the 139\.1. GiB of --gpu-memory-utilization 0\.995") as caught:
        run(tmp_path, gpu_memory_utilization=0.995, faults={"held": GIB})
    assert caught.value.exit_code == 4


def test_a_request_longer_than_the_pool(tmp_path):
    with pytest.raises(VerifyFailed, match="one request of 131072 tokens needs") as caught:
        run(tmp_path, gpu_memory_utilization=0.2)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("flags", [{"num_gpu_blocks_override": 2**31}, {"kv_cache_memory_bytes": 2**49}], ids=str)
def test_a_pool_larger_than_the_card(tmp_path, flags):
    """Refused before anybody counts the blocks of such a pool."""
    with pytest.raises(VerifyFailed, match=r"is larger than the card of 139\.8 GiB") as caught:
        run(tmp_path, **flags)
    assert caught.value.exit_code == 4


def test_nothing_to_verify(tmp_path):
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6,
              "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 30522,
              "max_position_embeddings": 512}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(VerifyFailed, match="keeps nothing in a KV cache"):
        run(tmp_path, str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "sglang"}, "verify lays out the pool of vLLM"),
        ({"tolerance": 0.0}, "--tolerance 0 is no share"),
        ({"tolerance": float("nan")}, "--tolerance nan is no share"),
        ({"concurrency": 0}, "--concurrency 0 is no count"),
        ({"timeout": float("nan")}, "--timeout nan is no number"),
        ({"timeout": 0.0}, "--timeout 0 is no number"),
        ({"max_model_len": "x"}, "--max-model-len"),
        ({"nonsense": 1}, "unknown argument 'nonsense'"),
        ({"device": "cuda:x", "factory": None}, "--device 'cuda:x' is neither"),
    ],
)
def test_usage(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        verify(LLAMA, **{"factory": FakeFactory("/nowhere"), **options})
    assert caught.value.exit_code == 2


def test_missing_extra(monkeypatch):
    monkeypatch.setattr("kvplan.verify.factory.find_spec", lambda _name: None)
    with pytest.raises(NoGpu, match="torch and triton and numpy not installed") as caught:
        verify(LLAMA)
    assert "pip install '.[gpu]'" in caught.value.hint


def test_unreadable_model():
    with pytest.raises(KvplanError) as caught:
        verify("/no/such/folder", factory=FakeFactory("/nowhere"))
    assert caught.value.exit_code == 2
