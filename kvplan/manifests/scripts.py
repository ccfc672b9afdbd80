"""Shell scripts and bare commands: every engine that the program starts is a deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.manifests.assemble import assemble
from kvplan.manifests.container import Start, start_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.mounts import options_of
from kvplan.manifests.variables import Scope

_DEVICES = "CUDA_VISIBLE_DEVICES"
_LISTED = re.compile(r"[0-9A-Za-z-]+(?:,[0-9A-Za-z-]+)*", re.ASCII)
_SLURM = re.compile(r"^#SBATCH\s+(.*)$", re.MULTILINE)
_SLURM_NODES = re.compile(r"(?:--nodes[= ]|-N\s*)([0-9]{1,4})\b", re.ASCII)
_SLURM_GPUS = re.compile(r"--(?:gres[= ]gpu|gpus-per-node)[:= ](?:([A-Za-z][A-Za-z0-9_-]*):)?([0-9]{1,3})\b", re.ASCII)


def read_script(text: str, manifest: Manifest) -> Iterator[Deployment]:
    """Read a shell program; the same engine with the same words, as in two branches, counts once."""
    scope = Scope(manifest.scope.below, dict(manifest.scope.own))
    launches = manifest.finder.in_program(text, scope, manifest.lines.whole(text))
    seen: set[tuple[str, ...]] = set()
    found = []
    for launch in launches:
        words = tuple(word.text for word in launch.words)
        if words not in seen:
            seen.add(words)
            found.append(start_of(launch, scope=scope))
    slurm = _slurm(text)
    for number, start in enumerate(found):
        yield assemble(
            manifest,
            start,
            slurm if slurm is not None else Topology(_visible(start, scope)),
            kind="shell",
            where="command" if len(found) == 1 else f"command[{number}]",
            options=options_of(start.parsed, start.program.engine, manifest),
        )


def _visible(start: Start, scope: Scope) -> int | None:
    """Return how many devices the command, or the program before it, lets the engine see."""
    known = scope.lookup(_DEVICES)
    listed = start.environment.get(_DEVICES) or (known.text if known is not None and not known.unknown else "")
    return len(listed.split(",")) if _LISTED.fullmatch(listed) and start.gpus is None else None


def _slurm(text: str) -> Topology | None:
    """Return what the #SBATCH lines ask for, None where there are none that say."""
    options = " ".join(_SLURM.findall(text[:20_000]))
    gpus, nodes = _SLURM_GPUS.search(options), _SLURM_NODES.search(options)
    if gpus is None:
        return None
    return Topology(int(gpus[2]), nodes=int(nodes[1]) if nodes else 1, gpu=gpus[1])
