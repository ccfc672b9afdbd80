"""The options of `docker run` and its likes: the image, the environment, the GPUs, the words behind the image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.manifests.variables import Field

_RUNNERS = frozenset({"docker", "podman", "nerdctl"})
# The options that take no value; every other one does. Of single letters, `-itd` is three.
_SWITCHES = frozenset({
    "--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck", "--privileged",
    "--oom-kill-disable", "--publish-all", "--quiet", "--read-only", "--replace", "--rm", "--sig-proxy", "--tty",
})  # fmt: skip
_LETTERS = re.compile(r"-[ditPq]+")
_DEVICES = re.compile(r"\"?(?:device=)?([0-9A-Za-z-]+(?:,[0-9A-Za-z-]+)*)\"?", re.ASCII)
_COUNT = re.compile(r"(?:count=)?([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `docker run` says. `gpus` is None where it does not fix their number (`--gpus all`)."""

    image: str
    rest: tuple[Field, ...]
    environment: dict[str, str]
    gpus: int | None
    entrypoint: str | None


def run_options(words: Sequence[Field]) -> RunOptions | None:
    """Read `docker run …`, behind whatever stands before it; None where the words are none."""
    begin = next((i for i, word in enumerate(words) if word.text.rpartition("/")[2] in _RUNNERS), None)
    if begin is None:
        return None
    rest = list(words[begin + 1 :])
    if rest and rest[0].text == "container":
        rest.pop(0)
    if not rest or rest.pop(0).text != "run":
        return None
    options: dict[str, list[str]] = {}
    while rest and rest[0].text.startswith("-"):
        name, equals, value = rest.pop(0).text.partition("=")
        if name in _SWITCHES or _LETTERS.fullmatch(name):
            continue
        options.setdefault(name, []).append(value if equals or not rest else rest.pop(0).text)
    if not rest:
        return None
    pairs = [each.partition("=") for name in ("-e", "--env") for each in options.get(name, ())]
    return RunOptions(
        image=rest[0].text,
        rest=tuple(rest[1:]),
        environment={key: value for key, equals, value in pairs if equals},
        gpus=count_of(options["--gpus"][-1]) if "--gpus" in options else None,
        entrypoint=options["--entrypoint"][-1] if "--entrypoint" in options else None,
    )


def count_of(value: str) -> int | None:
    """Return how many GPUs `--gpus` asks for: `2`, `"device=0,1"`; None for `all`."""
    text = value.strip("'")
    if found := _COUNT.fullmatch(text):
        return int(found[1])
    found = _DEVICES.fullmatch(text)
    return len(found[1].split(",")) if found and "device=" in text else None
