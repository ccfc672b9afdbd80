"""`--fit`: the change makes it start, and no smaller change in the stated order does. The planner is the judge."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

import pytest

import kvplan
from kvplan.errors import UsageError
from kvplan.fit.ask import Asker, args_of
from kvplan.fit.change import Knob, knobs_of, repair, subsets
from kvplan.hardware import find_gpu

DEPLOYMENTS = 200
MODELS = (
    "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "google/gemma-3-4b-it", "openai/gpt-oss-20b",
    "mistralai/Mistral-7B-v0.1", "Qwen/Qwen3-Next-80B-A3B-Instruct", "deepseek-ai/DeepSeek-V2-Lite",
)  # fmt: skip
CARDS = ("l4", "rtx-4090", "rtx-5090", "l40s", "a100-40gb-pcie", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "t4")
ORDER = (
    "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype", "max_model_len",
    "tensor_parallel_size",
)  # fmt: skip


@cache
def model(name):
    return kvplan.load_model(name)


def drawn(random: Random) -> tuple[str, str, dict]:
    """A deployment that is often too large for its card."""
    flags = {
        "tensor_parallel_size": random.choice((1, 1, 1, 2, 2, 3, 4, 8)),
        "gpu_memory_utilization": random.choice((None, 0.5, 0.7, 0.85, 0.9, 0.95, 1.0)),
        "max_model_len": random.choice((None, None, 4096, 16384, 32768, 65536, 100_003)),
        "max_num_seqs": random.choice((None, None, 16, 100, 512, 2048)),
        "max_num_batched_tokens": random.choice((None, None, 2048, 5000, 16384, 65536)),
        "kv_cache_dtype": random.choice((None, None, "fp8", "auto")),
    }
    return (
        random.choice(MODELS),
        random.choice(CARDS),
        {name: value for name, value in flags.items() if value is not None},
    )


def refused_deployments():
    random = Random(8)
    found = []
    while len(found) < DEPLOYMENTS:
        name, card, flags = drawn(random)
        if not kvplan.plan(model(name), gpu=card, **flags).fits:
            found.append((name, card, flags))
    return found


def furthest(knobs: tuple[Knob, ...], fixed: dict) -> list[dict]:
    """The largest changes: the last step where steps are ordered, any of the last where they are not."""
    lines = [knob.steps[-1:] if knob.ordered else knob.steps[-5:] for knob in knobs]
    return [{**dict(zip((k.name for k in knobs), values, strict=True)), **fixed} for values in product(*lines)]


def test_the_change_makes_it_start_and_no_smaller_one_does():
    random = Random(88)
    helped = combined = 0
    for name, card, flags in refused_deployments():

        def fits(change, name=name, card=card, flags=flags):
            return kvplan.plan(model(name), gpu=card, **{**flags, **change}).fits

        asker, gpu = Asker.of("vllm", model(name), args_of("vllm", flags)), find_gpu(card)
        answer = repair(asker, gpu)
        knobs = tuple(knobs_of(asker, answer.plan, answer.plan.kv.max_model_len, None))
        assert tuple(knob.name for knob in knobs) == ORDER
        where = (name, card, flags)
        ours = () if answer.remedy is None else tuple(change.name for change in answer.remedy.changes)
        for some in subsets(knobs):
            if tuple(knob.name for knob in some) == ours:
                break
            tries = [*furthest(some, {}), {knob.name: random.choice(knob.steps) for knob in some if knob.steps}]
            if all(knob.steps for knob in some):
                assert not any(fits(change) for change in random.sample(tries, min(2, len(tries)))), (where, some)
        if answer.remedy is None:
            continue
        helped += 1
        combined += len(ours) > 1
        after = {change.name: change.after for change in answer.remedy.changes}
        assert fits(after), where
        turned = [knob for knob in knobs if knob.name in ours]
        for place in range(len(turned) - 1, -1, -1):
            knob, step = turned[place], turned[place].steps.index(after[turned[place].name])
            if step:
                dearer = {other.name: after[other.name] for other in turned[place + 1 :]}
                one_less = furthest(tuple(turned[:place]), dearer | {knob.name: knob.steps[step - 1]})
                assert not any(fits(change) for change in one_less), (where, knob.name, after)
    assert helped > DEPLOYMENTS // 2
    assert combined > 5


def test_each_single_change_is_the_least_of_its_kind():
    asker = Asker.of("vllm", model("meta-llama/Llama-3.1-8B"), args_of("vllm", {}))
    answer = repair(asker, find_gpu("rtx-4090"))
    for found in answer.single:
        (change,) = found.changes
        assert kvplan.plan(MODELS[0], gpu="rtx-4090", **{change.name: change.after}).fits
    length = next(c.after for found in answer.single for c in found.changes if c.name == "max_model_len")
    assert not kvplan.plan(MODELS[0], gpu="rtx-4090", max_model_len=length + 1).fits
    assert answer.limits.longest == length


@pytest.mark.parametrize(("card", "flags"), [("h100-sxm", {}), ("l40s", {"max_model_len": 8192}), ("rtx-4090", {})])
def test_the_limits_are_the_last_values_that_start(card, flags):
    answer = repair(Asker.of("vllm", model(MODELS[0]), args_of("vllm", flags)), find_gpu(card))
    limits = {"max_model_len": answer.limits.longest, "max_num_seqs": answer.limits.sequences}
    for name, most in limits.items():
        if most:
            assert kvplan.plan(MODELS[0], gpu=card, **{**flags, name: most}).fits
        assert not kvplan.plan(MODELS[0], gpu=card, **{**flags, name: most + 1}).fits


def test_a_share_that_the_card_cannot_give_is_lowered():
    answer = repair(
        Asker.of("vllm", model(MODELS[0]), args_of("vllm", {"gpu_memory_utilization": 1.0})), find_gpu("h100-sxm")
    )
    (change,) = answer.remedy.changes
    assert (change.name, change.before) == ("gpu_memory_utilization", 1.0)
    assert 0.9 < change.after < 1.0


def test_a_size_that_the_model_does_not_allow_is_raised_to_one_that_it_does():
    answer = repair(
        Asker.of("vllm", model(MODELS[0]), args_of("vllm", {"tensor_parallel_size": 3})), find_gpu("h100-sxm")
    )
    assert [(c.name, c.after) for c in answer.remedy.changes] == [("tensor_parallel_size", 4)]


def test_what_nothing_can_keep_says_so_with_the_closest():
    flags = {"tensor_parallel_size": 2}
    answer = repair(
        Asker.of("vllm", model("meta-llama/Llama-3.1-70B"), args_of("vllm", flags)), find_gpu("l4"), most_gpus=2
    )
    assert (answer.remedy, answer.single) == (None, ())
    assert {change.name for change in answer.closest.changes} == set(ORDER) - {"tensor_parallel_size"}
    assert answer.limits.longest == 0


def test_no_more_cards_than_there_are_are_asked_for():
    asker = Asker.of("vllm", model("meta-llama/Llama-3.1-70B"), args_of("vllm", {}))
    assert repair(asker, find_gpu("h100-sxm"), most_gpus=2).remedy is not None
    assert repair(asker, find_gpu("h100-sxm"), most_gpus=1).remedy is None


def test_without_memory_there_is_no_answer():
    with pytest.raises(UsageError, match="--fit needs a card"):
        repair(Asker.of("vllm", model(MODELS[0]), args_of("vllm", {})), None)
