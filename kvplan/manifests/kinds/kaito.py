"""Kaito Workspace: a preset's name, an Azure instance type, vLLM's settings in a ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.errors import KvplanError
from kvplan.hardware import parse_gpu
from kvplan.manifests.argv import Parsed
from kvplan.manifests.assemble import assemble, ignored_by
from kvplan.manifests.container import Start
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.workloads import deployments_at, sites
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, at, number, scalar, text
from kvplan.manifests.values import arguments_of
from kvplan.manifests.variables import Field

_SETTINGS = "inference_config.yaml"


@reads("Workspace", "InferenceSet")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read a preset with its settings, or the containers of a template."""
    body = root if at(root, "inference") is not None else at(root, "spec", "template") or root
    instance = scalar(body, "resource", "instanceType") or scalar(root, "spec", "template", "resource", "instanceType")
    topology = Topology(
        _gpus(instance.text if instance is not None else None),
        instance.place if instance is not None else None,
        nodes=number(body, "resource", "count") or 1,
        gpu=instance.text if instance is not None else None,
    )
    preset = scalar(body, "inference", "preset", "name")
    if preset is None:
        for site in sites(root):
            for found in deployments_at(site, root, manifest, kind="kaito/Workspace"):
                yield replace(found, topology=topology)
        return
    settings = _settings(body, manifest)
    yield assemble(
        manifest,
        Start(Program("vllm", pure=False), Parsed(), preset.place),
        topology,
        kind="kaito/Workspace",
        where=label_of(root),
        place=root.keys["inference"].place if "inference" in root.keys else preset.place,
        model=Field(preset.text, preset.place),
        source="kaito preset",
        below=arguments_of(settings, "vllm", manifest),
        ignored=ignored_by(root),
    )


def _settings(body: Node, manifest: Manifest) -> Map | None:
    """Return the `vllm` section of the ConfigMap that `inference.config` names."""
    held = manifest.referred("ConfigMap", text(body, "inference", "config"))
    section = at(manifest.nested(at(held, "data", _SETTINGS)), "vllm")
    return section if isinstance(section, Map) else None


def _gpus(instance: str | None) -> int | None:
    if instance is None:
        return None
    try:
        return parse_gpu(instance)[1]
    except KvplanError:
        return None
