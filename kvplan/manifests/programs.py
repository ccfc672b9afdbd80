"""The programs that are an engine's server, by command, module, script or image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.manifests.variables import Field

_PYTHON = re.compile(r"python(?:[0-9.]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Program:
    """A way to start an engine.

    `takes_model`: the first word that is no flag is the model. `pure`: every flag is the engine's own, so that one
    which the engine lacks is a mistake; Dynamo's and KServe's workers have flags of their own besides.
    """

    engine: str
    takes_model: bool = False
    pure: bool = True


_VLLM = Program("vllm", takes_model=True)
_VLLM_MODULE = Program("vllm")
_SGLANG = Program("sglang")
_SGLANG_SERVE = Program("sglang", takes_model=True)
_TRTLLM = Program("tensorrt-llm", takes_model=True)
_MODULES = {
    "vllm.entrypoints.openai.api_server": _VLLM_MODULE,
    "vllm.entrypoints.api_server": _VLLM_MODULE,
    "sglang.launch_server": _SGLANG,
    "sglang.srt.entrypoints.http_server": _SGLANG,
    "tensorrt_llm.commands.serve": _TRTLLM,
    "dynamo.vllm": Program("vllm", pure=False),
    "dynamo.sglang": Program("sglang", pure=False),
    "dynamo.sglang.worker": Program("sglang", pure=False),
    "dynamo.trtllm": Program("tensorrt-llm", pure=False),
    "huggingfaceserver": Program("vllm", pure=False),
}
_MODULES_WITH_SERVE = {"vllm": _VLLM, "vllm.entrypoints.cli.main": _VLLM, "sglang": _SGLANG_SERVE}
_SCRIPTS = {
    "vllm/entrypoints/openai/api_server.py": _VLLM_MODULE,
    "vllm/entrypoints/api_server.py": _VLLM_MODULE,
    "sglang/launch_server.py": _SGLANG,
}
_COMMANDS = {"vllm": _VLLM, "sglang": _SGLANG_SERVE}
_OTHER_TRTLLM = frozenset({"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc"})
_IMAGES = {"vllm-openai": _VLLM, "vllm-tpu": _VLLM}  # their own entrypoint is the server


def base_name(path: str) -> str:
    """Return the last part of a program's path."""
    return path.rpartition("/")[2]


def image_program(image: str | None) -> Program | None:
    """Return the program that an image starts when it is given arguments only."""
    name = base_name((image or "").partition("@")[0]).partition(":")[0]
    return next((program for start, program in _IMAGES.items() if name.startswith(start)), None)


def program_in(words: Sequence[Field]) -> tuple[Program, tuple[Field, ...]] | None:
    """Return the engine that a command starts and the words after its name; wrappers before it are passed over."""
    for position, word in enumerate(words):
        rest = tuple(words[position + 1 :])
        following = rest[0].text if rest else ""
        name = base_name(word.text)
        if name == "trtllm-serve":
            if following in _OTHER_TRTLLM:
                return None
            return _TRTLLM, rest[1:] if following == "serve" else rest
        if name in _COMMANDS and following == "serve":
            return _COMMANDS[name], rest[1:]
        if word.text == "-m" and following in _MODULES:
            return _MODULES[following], rest[1:]
        if word.text == "-m" and following in _MODULES_WITH_SERVE and len(rest) > 1 and rest[1].text == "serve":
            return _MODULES_WITH_SERVE[following], rest[2:]
        if position and name.endswith(".py") and _PYTHON.fullmatch(base_name(words[position - 1].text)):
            script = next((program for end, program in _SCRIPTS.items() if word.text.endswith(end)), None)
            if script is not None:
                return script, rest
    return None
