"""Releases: which column of the profile a name means, and what differs between them."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.engine.vllm.releases import release
from kvplan.errors import UnknownEngine

LLAMA = "meta-llama/Llama-3.1-8B"


def planned(version: str | None, model: str = LLAMA, **flags) -> kvplan.Plan:
    engine = "vllm" if version is None else f"vllm@{version}"
    return kvplan.plan(model, engine=engine, **({"gpu": "h100-sxm", "max_model_len": 8192} | flags))


def codes(notes) -> set[str]:
    return {note.code for note in notes}


@pytest.mark.parametrize(
    ("name", "planned_as", "stands_for"),
    [
        (None, "0.33.0", None),
        ("0.33", "0.33.0", None),
        ("v0.19.1", "0.19.1", None),
        ("0.20.0rc1", "0.20.0", None),
        ("0.19.2.dev0+g2a69949bd.cu128", "0.19.2", None),
        ("0.8", "0.8.0", None),
        ("0.6.3", "0.8.0", "0.6.3"),
        ("0.40", "0.33.0", "0.40"),
        ("1.0", "0.33.0", "1.0"),
    ],
)
def test_names(name, planned_as, stands_for):
    found = release(name)
    assert (found.version, found.stands_for) == (planned_as, stands_for)
    assert found.named == (name is not None)


@pytest.mark.parametrize(
    "name", ["latest", "0", "x", "0.19 ", "0..1", "0.1.2.3.4", "0." + "9" * 50, "\u0660.\u0661", "nightly\n"]
)
def test_what_is_no_release_is_refused(name):
    with pytest.raises(UnknownEngine) as caught:
        release(name)
    assert len(caught.value.message) < 100


def test_the_newest_is_assumed_and_said():
    plan = planned(None)
    assert "version" in plan.assumed
    assert "version" not in planned("0.33").assumed


def test_a_release_outside_of_the_range_is_planned_as_its_neighbour_with_a_wider_interval():
    known, later = planned("0.33"), planned("0.41")
    assert codes(later.warnings) - codes(known.warnings) == {"release_assumed"}
    assert later.engine_version == "0.33.0"
    assert later.budget.kv_bytes == known.budget.kv_bytes
    width = [plan.budget.lines[-1].high - plan.budget.lines[-1].low for plan in (known, later)]
    assert width[1] > width[0]


@pytest.mark.parametrize(
    ("version", "utilisation", "batched", "sequences", "overlapped"),
    [
        ("0.8", 0.9, 8192, 1024, False),
        ("0.13", 0.9, 8192, 1024, False),
        ("0.14", 0.9, 8192, 1024, True),
        ("0.19", 0.9, 8192, 1024, True),
        ("0.33", 0.92, 8192, 1024, True),
    ],
)
def test_defaults(version, utilisation, batched, sequences, overlapped):
    shown = planned(version).engine_settings
    assert shown["gpu_memory_utilization"] == utilisation
    assert shown["max_num_batched_tokens"] == batched
    assert shown["max_num_seqs"] == sequences
    assert shown["async_scheduling"] == overlapped


def test_the_offline_class_batches_more_and_large_cards_since_they_have_a_tier():
    assert planned("0.19", usage="offline").engine_settings["max_num_batched_tokens"] == 16384
    assert planned("0.27", gpu="h200-sxm").engine_settings["max_num_batched_tokens"] == 8192
    assert planned("0.28", gpu="b200").engine_settings["max_num_batched_tokens"] == 16384
    assert planned("0.19", gpu="a100-sxm-80gb").engine_settings["max_num_seqs"] == 256


def test_graphs_are_taken_out_of_the_pool_only_since_a_release_does():
    def graphs(version: str) -> int:
        return next(line.bytes for line in planned(version).budget.lines if line.name == "cuda_graphs")

    assert graphs("0.19") == 0
    assert graphs("0.20") > 0
    assert graphs("0.33") > 0


def test_an_architecture_before_its_first_release_is_refused():
    early, later = planned("0.8", "openai/gpt-oss-20b"), planned("0.11", "openai/gpt-oss-20b")
    assert early.verdict == "refused"
    assert "architecture_unsupported" in codes(early.reasons)
    assert later.verdict == "fits"


def test_windows_are_kept_at_full_length_before_the_hybrid_manager():
    flags = {"kv_cache_memory_bytes": "40 GiB", "max_model_len": 32768}
    pools = [planned(version, "google/gemma-3-27b-it", **flags) for version in ("0.8", "0.33")]
    assert pools[0].kv.max_concurrency < pools[1].kv.max_concurrency
    assert len(pools[0].kv.groups) == 1


@pytest.mark.parametrize("minor", range(8, 34))
def test_every_release_plans_every_kind_of_cache(minor):
    for model in (LLAMA, "deepseek-ai/DeepSeek-V2-Lite", "google/gemma-3-27b-it", "ai21labs/AI21-Jamba-1.5-Mini"):
        plan = planned(f"0.{minor}", model, tensor_parallel_size=2)
        assert plan.engine_version == f"0.{minor}.0"
        assert plan.verdict in ("fits", "refused")
        assert sum(line.bytes for line in plan.budget.lines) == plan.budget.requested_bytes


def test_the_length_that_fits_is_found_only_by_releases_that_look_for_it():
    assert codes(planned("0.13", max_model_len="auto").reasons) == {"auto_length_unsupported"}
    assert planned("0.14", gpu="rtx-4090", max_model_len="auto").verdict == "fits"
