"""KubeAI Model: `url`, `engine`, `args`, and a resource profile `nvidia-gpu-l4:2`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.assemble import assemble, ignored_by
from kvplan.manifests.container import read_container, start_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.kinds import reads
from kvplan.manifests.launch import Launch
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, at, number, scalar, text

_ENGINES = {"VLLM": "vllm", "SGLang": "sglang"}


@reads("Model")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read a model whose engine is known."""
    spec = at(root, "spec")
    engine = _ENGINES.get(text(spec, "engine") or "")
    url = scalar(spec, "url")
    if engine is None or url is None or not isinstance(spec, Map):
        return
    container = read_container(spec, manifest)
    profile = scalar(spec, "resourceProfile")
    card, _, count = (profile.text if profile is not None else "").partition(":")
    counted = count.isascii() and count.isdigit() and len(count) < 5 and not card.startswith("cpu")
    gpus = int(count) if counted else None
    model = manifest.word(url, container.scope)
    yield assemble(
        manifest,
        start_of(Launch(Program(engine), container.words, spec.place), container.image),
        Topology(
            gpus,
            profile.place if profile is not None else None,
            gpu=card.removeprefix("nvidia-gpu-").removeprefix("amd-gpu-") or None,
            replicas=number(spec, "minReplicas") or None,
        ),
        kind="kubeai/Model",
        where=label_of(root),
        model=replace(model, text=model.text.partition("?")[0]) if model is not None else None,
        ignored=ignored_by(root),
    )
