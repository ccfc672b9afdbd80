from __future__ import annotations

import pytest

from kvplan.engine.args import EngineArgs, engine_args
from kvplan.errors import UsageError
from kvplan.units import GB, GIB


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"tp": 4}, "tensor_parallel_size", 4),
        ({"tensor_parallel_size": "4"}, "tensor_parallel_size", 4),
        ({"max_model_len": "32k"}, "max_model_len", 32_000),
        ({"max_model_len": "32K"}, "max_model_len", 32_768),
        ({"max_model_len": "1.5k"}, "max_model_len", 1_500),
        ({"max_model_len": -1}, "max_model_len", "auto"),
        ({"max_model_len": "auto"}, "max_model_len", "auto"),
        ({"gpu_util": "0.9"}, "gpu_memory_utilization", 0.9),
        ({"kv_cache_memory_bytes": "64424509440"}, "kv_cache_memory_bytes", 60 * GIB),
        ({"kv_cache_memory_bytes": 60 * GIB}, "kv_cache_memory_bytes", 60 * GIB),
        ({"gpu_memory": "80 GB"}, "gpu_memory", 80 * GB),
        ({"cuda_graphs": "0"}, "cuda_graphs", 0),
        ({"dtype": "half"}, "dtype", "float16"),
        ({"speculative_config": '{"method": "mtp", "num_speculative_tokens": 2}'}, "speculative_tokens", 2),
        ({"max_num_seqs": None}, "max_num_seqs", None),
    ],
)
def test_values_are_read(given, name, value):
    assert getattr(engine_args(given), name) == value


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"tensor_paralel_size": 2}, "unknown argument"),
        ({"tp": 2, "tensor_parallel_size": 2}, "given twice"),
        ({"tp": 0}, "whole number"),
        ({"tp": True}, "whole number"),
        ({"tp": 2.5}, "whole number"),
        ({"tp": "1e3"}, "whole number"),
        ({"tp": 10**12}, "whole number"),
        ({"tp": 64, "pp": 65}, "more than kvplan plans for"),
        ({"max_model_len": 0}, "whole number"),
        ({"max_model_len": "1.0001k"}, "whole number"),
        ({"gpu_memory_utilization": 92}, "share of the memory"),
        ({"gpu_memory_utilization": float("nan")}, "share of the memory"),
        ({"gpu_memory": "80"}, "not a size with a unit"),
        ({"weights": 16.5}, "takes a size"),
        ({"enforce_eager": "yes"}, "on or off"),
        ({"kv_cache_dtype": ""}, "short name"),
        ({"dtype": "int4"}, "is unknown"),
        ({"speculative_config": "[1]"}, "JSON object"),
        ({"speculative_config": "{" * 100_000}, "JSON object"),
        ({"speculative_config": {"num_speculative_tokens": -1}}, "num_speculative_tokens"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(given, fragment):
    with pytest.raises(UsageError, match=fragment):
        engine_args(given)


def test_an_unknown_name_has_near_matches():
    with pytest.raises(UsageError) as error:
        engine_args({"tensor_paralel_size": 2})
    assert "tensor_parallel_size" in error.value.hint


def test_only_what_was_given_is_given():
    assert EngineArgs().given() == {}
    assert engine_args({"tp": 2, "enforce_eager": True}).given() == {"tensor_parallel_size": 2, "enforce_eager": True}
    assert engine_args({"tp": 2, "pp": 3, "dp": 4}).world_size == 24
