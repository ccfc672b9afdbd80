"""Configs from a stranger, over every family: an answer or one clear error, no traceback, nothing absurd, no wait."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvplan
from kvplan.errors import KvplanError
from kvplan.model.families import reader_of
from kvplan.sources.builtin import builtin, builtin_ids
from kvplan.units import TIB

SLOWEST = 1.0  # CPU seconds a call may take


def one_config_a_family() -> list[tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in builtin_ids():
        config = builtin(name).config
        reader = reader_of(config["architectures"][0])
        found.setdefault(reader.__module__ + reader.__name__, (name, config))
    return list(found.values())


FAMILIES = one_config_a_family()
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 3, 7, 2**31, 2**63, 10**30, -(10**30), 1.5, float("inf"), float("-inf"), float("nan")]),
    st.sampled_from(["", "x", "full_attention", "é\n\x1b[31m", "9" * 50]),
    st.lists(st.sampled_from([None, 0, -1, 1, "full_attention", "mamba", {}, 2**40]), max_size=5),
    st.dictionaries(
        st.sampled_from(["type", "rope_type", "factor", "model_type", "num_bits"]),
        st.sampled_from([0, "x", -5, None]),
        max_size=3,
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside, two levels of nesting deep."""
    if not isinstance(value, dict) or len(path) > 2:
        return []
    found = []
    for key, inner in value.items():
        found += [(*path, key), *places(inner, (*path, key))]
    return found


def changed(config: dict[str, Any], path: tuple[Any, ...], value: Any, *, remove: bool) -> dict[str, Any]:
    made = copy.deepcopy(config)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


def answer(tmp_path, config: Any) -> None:
    """Plan a config: an honest error is an answer; a plan must be sane."""
    file = tmp_path / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    start = time.process_time()
    try:
        plan = kvplan.plan(file, gpu="h100-sxm", kv_cache_memory_bytes="40 GiB")
    except KvplanError as error:
        assert 0 < len(error.message) < 1000  # noqa: PT017  # an answer is as good as an error here
    else:
        assert_sane(plan)
        json.dumps(plan.to_dict())
    assert time.process_time() - start < SLOWEST


def assert_sane(plan: kvplan.Plan) -> None:
    kv = plan.kv
    figures = [kv.bytes_per_token, kv.block_size, kv.bytes_per_block, kv.num_blocks, kv.tokens, kv.max_concurrency]
    assert all(figure is None or 0 <= figure < 2**60 for figure in figures)
    assert 0 < kv.max_model_len < 2**60
    assert all(0 <= line.bytes < 2**20 * TIB for line in plan.budget.lines if line.name != "kv_cache")
    assert plan.verdict in ("fits", "refused")
    assert bool(plan.reasons) == (plan.verdict == "refused")


@pytest.mark.parametrize("config", [config for _, config in FAMILIES], ids=[name for name, _ in FAMILIES])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_configs(tmp_path, config, data):
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(config)))
        config = changed(config, path, data.draw(HOSTILE), remove=data.draw(st.booleans()))
        if not places(config):
            break
    answer(tmp_path, config)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "not json",
        '{"architectures": ["LlamaForCausalLM"]}',
        '{"architectures": "LlamaForCausalLM"}',
        '{"architectures": [[]]}',
        '{"architectures": ["' + "A" * 100_000 + '"]}',
        '{"model_type": ["llama"]}',
        '{"a": ' * 50_000 + "1" + "}" * 50_000,
        "[" * 200_000,
        '{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": ' + "9" * 5000 + "}",
        '{"architectures": ["LlamaForCausalLM"], "text_config": {"text_config": {"text_config": {}}}}',
    ],
)
def test_what_is_no_config(tmp_path, text):
    answer(tmp_path, text)


def test_an_unknown_architecture_is_declined_with_near_matches(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"architectures": ["LlamaForCasualLM"], "model_type": "llama"}')
    with pytest.raises(kvplan.UnknownArchitecture) as error:
        kvplan.plan(file)
    assert "LlamaForCausalLM" in error.value.hint


def test_three_megabytes_of_config_are_read(tmp_path):
    config = dict(builtin("meta-llama/Llama-3.1-8B").config) | {"noise": {str(i): "x" * 50 for i in range(50_000)}}
    answer(tmp_path, config)


def test_code_in_a_config_is_never_run(tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    config = dict(builtin("meta-llama/Llama-3.1-8B").config) | {"auto_map": {"AutoConfig": "evil.Config"}}
    answer(tmp_path, config)
    assert not (tmp_path / "ran").exists()
