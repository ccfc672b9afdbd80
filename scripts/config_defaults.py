"""Write profiles/configs/<model_type>.yaml: what each config class supplies where a checkpoint leaves a field out.

Run it in an environment that has transformers (and vLLM, for the config classes that it brings itself):

    python scripts/config_defaults.py             # every model type that a reader names, and their nested sections
    python scripts/config_defaults.py qwen3 glm4   # these only

Only constants are written, and only those of fields that kvplan/model reads: a default that a class computes from
other fields (head_dim from the hidden size, layer types from a pattern) is a rule of that family's reader. `sections`
names the model type that the class gives to a nested section which names none. Files that begin with a comment
`# by hand` are left alone.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

from plain_yaml import plain_yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kvplan.model import families  # noqa: E402
from kvplan.model.read import _TEXT_SECTIONS  # noqa: E402

OUT = ROOT / "profiles" / "configs"
# The towers beside the language model, whose weights are planned too.
SECTIONS = (*_TEXT_SECTIONS, "vision_config", "audio_config")
# Fields that plan weights rather than caches, read later than the readers.
WEIGHTS = {"tie_word_embeddings", "vocab_size", "intermediate_size", "moe_intermediate_size", "num_experts_per_tok"}
SKIPPED = {
    "model_type",
    "architectures",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "is_encoder_decoder",
    "version",
}


def field_names() -> set[str]:
    """Return every string literal of kvplan/model that could be a field's name."""
    names: set[str] = set(WEIGHTS)
    for path in (ROOT / "kvplan" / "model").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                names.add(node.value)
    return names - SKIPPED


def config_class(model_type: str) -> type | None:
    """Return the class that an engine builds for this model type: vLLM's own comes first."""
    try:
        from vllm.transformers_utils.config import _CONFIG_REGISTRY  # noqa: PLC0415  # optional

        if model_type in _CONFIG_REGISTRY:
            return _CONFIG_REGISTRY[model_type]
    except Exception as error:  # noqa: BLE001  # any failure to import vLLM leaves transformers
        print(f"without vLLM ({error})", file=sys.stderr)
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415  # slow: when it is needed

    try:
        return CONFIG_MAPPING[model_type]
    except KeyError:
        return None


def constants(cls: type) -> dict[str, Any]:
    """Return the defaults that the class states as constants, by field."""
    found = {field.name: field.default for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    own = inspect.signature(cls.__init__).parameters  # a class with an __init__ of its own inherits the fields as well
    found |= {name: p.default for name, p in own.items() if p.default is not inspect.Parameter.empty}
    aliases = getattr(cls, "attribute_map", {})  # another name of a field of the class; its own value is never read
    return {name: value for name, value in found.items() if plain(value) and name not in aliases}


def plain(value: Any) -> bool:
    """Say whether a value is a number, a flag, a word or a list of those."""
    if isinstance(value, list | tuple):
        return bool(value) and all(plain(item) for item in value)
    return isinstance(value, bool | int | float | str)


def sections(cls: type) -> dict[str, str]:
    """Return the model type of each nested section where the section names none, or is missing."""
    found = {}
    subs = getattr(cls, "sub_configs", {})
    for name in (name for name in SECTIONS if name in subs):
        for given in ({name: {}}, {}):  # some classes refuse a section without a model_type, but have a default one
            try:
                model_type = getattr(getattr(cls(**given), name, None), "model_type", "")
            except Exception:  # noqa: BLE001  # the next attempt, or no default at all
                continue
            if model_type:
                found[name] = model_type
                break
        else:
            found |= {name: subs[name].model_type} if getattr(subs[name], "model_type", "") else {}
    return found


def write(model_type: str, names: set[str]) -> list[str]:
    """Write one file; return the model types of its nested sections."""
    cls = config_class(model_type)
    path = OUT / f"{model_type}.yaml"
    if cls is None or (path.exists() and path.read_text(encoding="utf-8").startswith("# by hand")):
        return []
    package = "vLLM" if cls.__module__.startswith("vllm") else "transformers"
    own = ", its own" if package == "vLLM" else ","
    profile: dict[str, Any] = {
        "model_type": model_type,
        "source": f"{package} {importlib.metadata.version(package.lower())}{own} {cls.__name__}",
        "defaults": {name: value for name, value in sorted(constants(cls).items()) if name in names},
    }
    profile["defaults"] = {k: list(v) if isinstance(v, tuple) else v for k, v in profile["defaults"].items()}
    nested = sections(cls)
    if nested:
        profile["sections"] = nested
    if profile["defaults"] or nested:
        path.write_text(plain_yaml(profile), encoding="utf-8")
    return list(nested.values())


def main() -> None:
    """Write the files of the model types that are asked for, or of all."""
    warnings.filterwarnings("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    families.readers()
    names = field_names()
    wanted = sys.argv[1:] or sorted(families._MODEL_TYPES)  # noqa: SLF001
    done: set[str] = set()
    while wanted:
        model_type = wanted.pop(0)
        if model_type not in done:
            done.add(model_type)
            wanted += write(model_type, names)
    print(f"{len(list(OUT.glob('*.yaml')))} files in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
