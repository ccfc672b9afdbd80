"""What a source hands on: the parsed config files of one checkpoint, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of one checkpoint that decide memory, parsed but not yet understood.

    `config` is config.json as it stands; `quant_config` is hf_quant_config.json (ModelOpt keeps its scheme there;
    engines read it only where config.json has no quantization section); `tokenizer_max_length` is `model_max_length` of
    tokenizer_config.json where that is known. `source` is `built-in`, `folder`, `file` or `hub`; `revision` is the
    resolved commit of a Hub repository or of the snapshot that a built-in was taken from.
    """

    id: str
    source: str
    config: Mapping[str, Any]
    quant_config: Mapping[str, Any] | None = None
    tokenizer_max_length: int | None = None
    revision: str | None = None
