"""35 hand-sized cases that vLLM 0.33's own scheduler was driven through: block tables, queues, hits, evictions.

golden/micro.jsonl holds a case a line: `log` is what was added, and for each step what was scheduled ([computed before,
new tokens, block table of each group] by request), who was preempted, the prefix lookups that were admitted
([request, tokens asked, tokens hit]), the evicted blocks, both queues, the used blocks, the free queue, who finished,
and the free queue after that (the queues of large pools are left out). {"steps": n} are steps that were not logged.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.simulate.live import Live, Step
from kvplan.simulate.request import Request
from kvplan.simulate.scheduler import Scheduler
from kvplan.simulate.settings import Settings

CASES = [json.loads(line) for line in (Path(__file__).parent / "golden/micro.jsonl").open(encoding="utf-8")]
_GROUPS = {
    "sliding_window 64, block 16": (64,),
    "full + sliding_window 64, block 16 each": (None, 64),
}
_RENAMED = {"chunked": "chunked_prefill", "async_sched": "async_scheduling"}

# Which requests of a case share what; all others share nothing. "out" of a request is what it generates.
SHARED: dict[str, dict[str, tuple[tuple[str, int], ...]]] = {
    "prefix3000": {"a": (("p", 3000), ("a", 200)), "b": (("p", 3000), ("b", 200))},
    "hit_lengths": {
        **{f"p{n}": (("seed", n),) for n in (15, 16, 17, 31, 32, 33, 63, 64, 65, 200)},
        "seed": (("seed", 200),),
        "tok100": (("seed", 100), ("other", 100)),
        "salt1": (("seed", 200),),
        "salt1b": (("seed", 200),),
    },
    "same_step_duplicates": {"a": (("a", 64),), "b": (("a", 64),)},
    "outputs_are_cached": {"b": (("a", 20), ("out a", 30), ("b", 30))},
    "lru_order": {"c": (("a", 32), ("c", 20)), "d": (("a", 32), ("d", 20)), "a2": (("a", 70),)},
    "tail_evicted_first": {"a2": (("a", 96), ("a2", 1))},
    "parallel_sampling_n4": {f"{child}_q": (("q", 100),) for child in range(4)},
    "sliding_window_only": {"b": (("a", 200),)},
    "hybrid_full_plus_swa": {
        "b": (("a", 200),), "c": (("a", 120), ("c", 40)), "d": (("a", 120), ("d", 40)),
    },
    "evictable_hits_count_against_free": {"a2": (("a", 96), ("a2", 40))},
}  # fmt: skip


def settings_of(config: dict[str, Any]) -> Settings:
    told = {_RENAMED.get(name, name): value for name, value in config.items()}
    told["groups"] = _GROUPS[told["groups"]] if "groups" in told else (None,)
    return Settings(**{"num_blocks": 11, "max_num_seqs": 8, "max_model_len": 4096, **told})


def added(case: str, event: dict[str, Any], seq: int, settings: Settings) -> Live:
    name, prompt = event["req"], event["prompt_len"]
    shared = next((found for key, found in SHARED.items() if case.startswith(key)), {})
    spans = shared.get(name, ((name, prompt),))
    assert sum(tokens for _, tokens in spans) == prompt
    request = Request(
        seq, seq, prompt, 0, spans, f"out {name}", event.get("priority", 0), event.get("cache_salt") or ""
    )
    return Live(request, seq, 0, event["max_tokens"], settings)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]):
    settings = settings_of(case["config"])
    scheduler = Scheduler(settings)
    pool = scheduler.cache.pool
    names: dict[Live, str] = {}
    before: Step | None = None
    for event in case["log"]:
        if isinstance(event, dict):
            for _ in range(event.get("steps", 0)):
                scheduler.deliver(scheduler.step())
            if "req" in event:
                live = added(case["name"], event, len(names), settings)
                names[live] = event["req"]
                scheduler.add(live)
            continue
        scheduled, preempted, lookups, evicted, running, waiting, used, queue, finished, queue_after = event
        keyed = {block for block, key in enumerate(pool.keys) if key is not None}
        step = scheduler.step()
        assert {names[share.live]: [share.start, share.tokens, share.live.tables] for share in step.shares} == scheduled
        assert sorted(names[live] for live in step.preempted) == sorted(preempted)
        if settings.prefix_caching:
            assert [[names[live], asked, hit] for live, asked, hit in step.lookups] == lookups
        assert set(evicted) <= keyed
        assert step.evicted == len(evicted)
        assert [names[live] for live in scheduler.running] == running
        assert [names[live] for live in scheduler.waiting] == waiting
        assert pool.used == used
        assert queue is None or list(pool.queue) == queue
        delivered, before = (before, step) if settings.async_scheduling else (step, None)
        done = [names[live] for live in scheduler.deliver(delivered)] if delivered and delivered.shares else []
        assert sorted(done) == sorted(finished or [])
        assert queue_after is None or list(pool.queue) == queue_after


def test_hit_lengths():
    """The last token is never hit, a hit ends with a block, and a text under another salt is another."""
    case = next(case for case in CASES if case["name"] == "hit_lengths")
    settings = settings_of(case["config"])
    scheduler = Scheduler(settings)
    hits = {}
    for seq, event in enumerate(event for event in case["log"] if "req" in event):
        scheduler.add(added("hit_lengths", event, seq, settings))
        step = scheduler.step()
        hits[event["req"]] = step.lookups[0][2]
        scheduler.deliver(step)
    names = {f"same_first_{n}": f"p{n}" for n in (15, 16, 17, 31, 32, 33, 63, 64, 65, 200)} | {
        "first_token_differs": "first_differs",
        "token_100_differs": "tok100",
        "salt_s1": "salt1",
        "salt_s1_again": "salt1b",
    }
    assert {name: hits[request] for name, request in names.items()} == case["hits"]
