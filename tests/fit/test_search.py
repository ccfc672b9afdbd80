"""`kvplan fit`: what it finds is what the planner says of the same flags, and fewer GPUs do not do."""

from __future__ import annotations

from functools import cache
from math import ceil
from random import Random

import pytest

import kvplan
from kvplan.errors import UnknownEngine, UnknownGpu, UsageError
from kvplan.fit.prices import Offer, Prices
from kvplan.fit.search import fit
from kvplan.fit.wish import Wish
from kvplan.hardware import find_gpu

L8, L70, MLA, MOE = (
    "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b",
)  # fmt: skip


@cache
def model(name):
    return kvplan.load_model(name)


def cards(*names):
    return [find_gpu(name) for name in names]


def holds(name, card, wish, **flags) -> bool:
    """Whether the planner itself says that a deployment holds the load, each copy its share."""
    plan = kvplan.plan(model(name), gpu=card, max_model_len=wish.context, **flags)
    share = ceil(wish.concurrency / flags.get("data_parallel_size", 1))
    return plan.fits and plan.kv.max_concurrency >= share and plan.kv.max_running_requests >= share


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_holds_the_load_and_no_smaller_one_does(seed):
    random = Random(seed)
    name = random.choice((L8, L70, MLA, MOE))
    card = random.choice(("l4", "l40s", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200"))
    wish = Wish(random.choice((1, 4, 32, 100)), random.choice((2048, 8192, 32768, 100_000)))
    found = fit(model(name), wish, cards(card), kv_cache_dtypes=("auto", "fp8"), max_gpus=8)
    options = {
        option.flags.get("kv_cache_dtype", "auto"): option for answer in found.found for option in answer.options
    }
    for dtype in ("auto", "fp8"):
        option = options.get(dtype)
        if option is not None:
            flags = {name: value for name, value in option.flags.items() if name != "max_model_len"}
            assert holds(name, card, wish, **flags)
        for gpus in range(1, option.gpus if option is not None else 9):
            for tensor in (size for size in range(1, gpus + 1) if gpus % size == 0):
                split = {"tensor_parallel_size": tensor, "data_parallel_size": gpus // tensor, "kv_cache_dtype": dtype}
                assert not holds(name, card, wish, **split), split


def test_fewest_gpus_come_first_then_the_smallest_cards():
    found = fit(model(L8), Wish(16, 8192), cards("h200-sxm", "l4", "h100-sxm", "l40s")).found
    assert [(answer.best.gpus, answer.gpu.name) for answer in found] == [
        (1, "l40s"), (1, "h100-sxm"), (1, "h200-sxm"), (2, "l4"),
    ]  # fmt: skip


def test_prices_rank_by_cost_and_leave_out_what_has_none():
    prices = Prices("EUR", {"l4": (Offer(1, 0.8),), "h100-sxm": (Offer(8, 20.0),), "l40s": (Offer(1, 1.9),)})
    found = fit(model(L8), Wish(16, 8192), cards("h200-sxm", "l4", "h100-sxm", "l40s"), prices=prices)
    assert [(answer.gpu.name, answer.best.cost) for answer in found.found] == [
        ("l4", 1.6),
        ("l40s", 1.9),
        ("h100-sxm", 20.0),
    ]
    assert found.unpriced == 1


def test_copies_hold_more_where_every_rank_keeps_the_whole_latent():
    (answer,) = fit(model(MLA), Wish(100, 32768), cards("h200-sxm")).found
    by_split = {(option.tensor, option.data): option.requests for option in answer.layouts}
    assert (answer.best.tensor, answer.best.data) == (1, 8)
    assert by_split[1, 8] > by_split[2, 4] > by_split[4, 2] > by_split[8, 1]


def test_the_sizes_that_a_model_does_not_allow_are_told_once():
    found = fit(model(L8), Wish(1, 1024), cards("l4"), max_gpus=8)
    (refused,) = found.refused
    assert (refused.sizes, refused.reason.code) == ((3, 5, 6, 7), "heads_not_divisible")


def test_more_requests_than_the_engine_runs_by_default_raise_the_batch():
    (answer,) = fit(model(L8), Wish(3000, 512), cards("b200"), max_gpus=1).found
    assert answer.best.flags["max_num_seqs"] == 3000
    assert answer.best.plan.kv.max_running_requests == 3000
    given = fit(model(L8), Wish(3000, 512), cards("b200"), max_gpus=1, max_num_seqs=1000)
    assert given.found == ()
    assert given.failed[0].closest.plan.kv.max_running_requests == 1000


def test_what_nothing_holds_comes_with_the_closest():
    found = fit(model(L70), Wish(3200, 32768), cards("l4", "h200-sxm", "h100-sxm"))
    assert found.found == ()
    assert [answer.gpu.name for answer in found.failed] == ["h200-sxm", "h100-sxm", "l4"]
    closest = found.failed[0].closest
    assert (closest.gpus, closest.meets) == (16, False)
    assert 100 < closest.requests < 3200


@pytest.mark.parametrize(("name", "card", "context"), [(L70, "l4", 32_000), (L8, "h100-sxm", 256)])
def test_the_closest_is_no_worse_where_more_is_wished_for(name, card, context):
    held = [
        (found.found[0].best if found.found else found.failed[0].closest).requests
        for wished in (20, 300, 2000, 5000, 20_000, 1_000_000)
        for found in [fit(model(name), Wish(wished, context), cards(card), max_gpus=16 if name == L70 else 1)]
    ]
    missed = [requests for requests in held if requests < 1_000_000]
    assert missed[-1] == max(held)
    assert all(requests > 10 for requests in held)


def test_a_card_that_cannot_be_planned_does_not_hide_the_others():
    found = fit(model(L8), Wish(8, 8192), cards("h100-sxm", "max-1550"))
    assert [answer.gpu.name for answer in found.found] == ["h100-sxm"]
    assert [card.name for card in found.unplanned] == ["max-1550"]
    with pytest.raises(UnknownGpu, match="Max 1550"):
        fit(model(L8), Wish(8, 8192), cards("max-1550"))


def test_a_context_beyond_the_model_is_refused_in_any_size():
    found = fit(model(L8), Wish(1, 131_073), cards("b200"))
    assert found.found == ()
    (refused,) = found.refused
    assert (len(refused.sizes), refused.reason.code) == (16, "max_model_len_too_long")


def test_a_slice_of_a_card_takes_part_in_no_tensor_parallelism():
    found = fit(model(L8), Wish(64, 8192), cards("h100-sxm-mig-3g.40gb"))
    assert {option.tensor for option in (found.found or found.failed)[0].layouts} <= {1}
    assert all(option.tensor == 1 for answer in found.found for option in answer.options)


def test_no_more_cards_than_there_are_are_asked_for():
    wish = Wish(16, 8192)
    assert fit(model(L70), wish, cards("h100-sxm")).found[0].best.gpus == 4
    assert fit(model(L70), wish, cards("h100-sxm"), counts={"h100-sxm": 2}, kv_cache_dtypes=("auto",)).found == ()


def test_engines_are_asked_side_by_side():
    found = fit(model(L8), Wish(8, 8192), cards("h100-sxm"), engines=("vllm", "vllm@0.11", "sglang"))
    assert {answer.engine for answer in found.found} == {"vllm", "vllm@0.11", "sglang"}


def test_questions_that_cannot_be_asked():
    with pytest.raises(UsageError, match="--max-gpus 0"):
        fit(model(L8), Wish(1, 1024), cards("l4"), max_gpus=0)
    with pytest.raises(UnknownEngine):
        fit(model(L8), Wish(1, 1024), cards("l4"), engines=("llama.cpp",))
    with pytest.raises(UsageError, match="no flag like --enable-lora"):
        fit(model(L8), Wish(1, 1024), cards("l4"), engines=("sglang",), enable_lora=True)
