"""A config as flags rewrite it before it is read: vLLM's --hf-overrides, SGLang's --json-model-override-args.

A section of its own (text_config) is changed field by field, everything else is replaced. Both engines merge into the
rope's section, under either of its names, what is given of it. Sources: vLLM 0.33 config/model.py, SGLang 0.5.23
utils/hf_transformers/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.sources.lockfile import Traced

_ROPE = ("rope_parameters", "rope_scaling")
_VALUES = frozenset({"quantization_config", "compression_config", "generation_config"})  # sections that are values


def overridden(config: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config with the changes made; a traced one goes on noting what is read of it."""
    made = config.copy() if isinstance(config, Traced) else dict(config)
    for key, value in changes.items():
        held = config.get(key)
        if key in _ROPE:
            held = next((config[name] for name in _ROPE if isinstance(config.get(name), Mapping)), None)
            for name in _ROPE:
                made.pop(name, None)
            made[key] = {**held, **value} if isinstance(held, Mapping) and isinstance(value, Mapping) else value
        elif isinstance(held, Mapping) and isinstance(value, Mapping) and _is_section(key):
            made[key] = overridden(held, value)
        else:
            made[key] = value
    return made


def _is_section(key: str) -> bool:
    return key.endswith("_config") and key not in _VALUES
