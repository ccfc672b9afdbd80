"""What the first KV dtype below the model's own would hold on the same card: the next step that `size` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan.engine.args import engine_args
from kvplan.fit.ask import Asker, setting, smaller_kv_dtypes
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan, Smaller

_OWN = ("auto", "bfloat16", "float16")
_WORTH = 1.05  # below that it is no step


def with_smaller(spec: ModelSpec, engine: str, flags: Mapping[str, Any], made: Plan, *, local: bool) -> Plan:
    """Return a plan that fits with what the smaller dtype holds, where the planner takes it there and it is more.

    `flags` are those that the plan was made by, a card among them or not.
    """
    tokens = made.kv.tokens
    if not made.fits or not tokens or not made.kv.bytes_per_token or setting(made, "kv_cache_dtype") not in _OWN:
        return made
    args = engine_args({name: value for name, value in flags.items() if name != "gpu"}, engine.partition("@")[0])
    dtype = smaller_kv_dtypes(engine)[0]
    then = Asker.of(engine, spec, args, local=local).plan(made.gpu, {"kv_cache_dtype": dtype})
    if not then.fits or not then.kv.tokens or then.kv.tokens < _WORTH * tokens:
        return made
    return replace(made, smaller=Smaller(dtype, then.kv.tokens / tokens))
