"""KubeRay RayService: an application in a YAML text, by `llm_configs`, or by the environment of a Python program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.argv import Argument, Parsed
from kvplan.manifests.assemble import assemble, ignored_by, role_in_name
from kvplan.manifests.container import Start
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table, value_of
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.ray_cluster import ray_cluster, ray_nodes
from kvplan.manifests.kinds.workloads import read as read_containers
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.programs import Program
from kvplan.manifests.python_calls import constants
from kvplan.manifests.tree import Map, Node, Scalar, at, entries, items, number, scalar, text
from kvplan.manifests.values import arguments_of
from kvplan.manifests.variables import Field

_ENGINES = {"vllm": "vllm", "sglang": "sglang"}
_MODEL_VARIABLES = ("MODEL_ID", "MODEL", "MODEL_NAME", "MODEL_PATH", "HF_MODEL_ID", "LLM_MODEL")
_CONFIGS = ("llm_configs", "llm_config", "prefill_config", "decode_config")


@reads("RayService")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the applications; where they say nothing of an engine, the containers."""
    config = at(root, "spec", "serveConfigV2")
    content = manifest.nested(config) if isinstance(config, Scalar) else config
    found: list[Deployment] = []
    for number_, application in enumerate(items(content, "applications")):
        path = f"serveConfigV2.applications[{number_}]"
        configs = list(_llm_configs(application, path))
        for llm_config, place in configs:
            found += _by_config(root, llm_config, place, manifest)
        if not configs:
            found += _by_environment(root, application, path, manifest)
    yield from found or read_containers(root, manifest)


def _llm_configs(application: Node, path: str) -> Iterator[tuple[Node, str]]:
    for key in _CONFIGS:
        node = at(application, "args", key)
        if isinstance(node, Map):
            yield node, f"{path}.args.{key}"
        for number_, entry in enumerate(items(node)):
            yield entry, f"{path}.args.{key}[{number_}]"


def _by_config(root: Map, config: Node, path: str, manifest: Manifest) -> Iterator[Deployment]:
    source = scalar(config, "model_loading_config", "model_source")
    served = scalar(config, "model_loading_config", "model_id")
    bucket = scalar(config, "model_loading_config", "model_source", "bucket_uri")
    engine = _ENGINES.get((text(config, "llm_engine") or "vLLM").lower())
    kwargs = at(config, "engine_kwargs")
    if engine is None or not isinstance(config, Map) or (source or served or bucket) is None:
        return
    arguments = arguments_of(kwargs if isinstance(kwargs, Map) else None, engine, manifest)
    model = manifest.word(source or bucket or served or config)
    scaling = at(config, "deployment_config")
    replicas = number(scaling, "num_replicas")
    start = Start(Program(engine, pure=False), Parsed(), config.place)
    yield assemble(
        manifest,
        start,
        _topology(
            root,
            manifest,
            arguments,
            gpu=text(config, "accelerator_type"),
            replicas=replicas if replicas is not None else number(scaling, "autoscaling_config", "min_replicas"),
        ),
        kind="ray/RayService",
        where=f"{label_of(root)} {path}",
        role=role_in_name(path),
        model=model,
        served=served.text if served is not None else None,
        below=arguments,
        ignored=ignored_by(root),
    )


def _topology(
    root: Map, manifest: Manifest, arguments: list[Argument], *, gpu: str | None, replicas: int | None
) -> Topology:
    """Return the nodes that one copy takes: as many as its ranks need, as far as the cluster has them."""
    nodes, gpus = ray_nodes(ray_cluster(root), manifest)
    ranks = 1
    for argument in arguments:
        if argument.name in ("tensor_parallel_size", "pipeline_parallel_size") and isinstance(argument.value, int):
            ranks *= max(argument.value, 1)
    needed = -(-ranks // gpus) if gpus else 1
    return Topology(gpus, nodes=min(needed, nodes), gpu=gpu, replicas=replicas)


def _by_environment(root: Map, application: Node, path: str, manifest: Manifest) -> Iterator[Deployment]:
    """Read a program whose engine arguments are variables in upper case, or constants in its source."""
    variables = at(application, "runtime_env", "env_vars")
    known = table("vllm")
    assert known is not None, "the table of vllm is part of the package"
    arguments = {}
    model: Field | None = None
    for name, value in entries(variables):
        word = manifest.word(value)
        flag = known.by_key(name.lower())
        if word is None or not isinstance(variables, Map):
            continue
        if name in _MODEL_VARIABLES:
            model = word
        elif flag is not None and name == name.upper():
            content = value_of(word.text, flag.type)
            place = variables.keys[name].place
            arguments[flag.name] = Argument(flag.name, content, name, place, unknown=word.unknown)
    source = _source_of(text(application, "import_path"), manifest)
    for name, content in (constants(source.text) if source is not None else {}).items():
        flag = known.by_key(name)
        if flag is not None and source is not None and name != "model":
            turned = not content if isinstance(content, bool) and not flag.on else content
            arguments.setdefault(flag.name, Argument(flag.name, turned, name, source.place))
    if model is None or not arguments or not isinstance(application, Map):
        return
    start = Start(Program("vllm", pure=False), Parsed(), application.place, guessed=True)
    topology = _topology(root, manifest, list(arguments.values()), gpu=None, replicas=None)
    asked = next((n for entry in items(application, "deployments") if (n := _actor_gpus(entry)) is not None), None)
    yield assemble(
        manifest,
        start,
        replace(topology, gpus=topology.gpus or asked),
        kind="ray/RayService",
        where=f"{label_of(root)} {path}.runtime_env.env_vars",
        model=model,
        below=arguments.values(),
        ignored=ignored_by(root),
    )


def _actor_gpus(deployment: Node) -> int | None:
    return number(deployment, "ray_actor_options", "num_gpus")


def _source_of(import_path: str | None, manifest: Manifest) -> Scalar | None:
    """Return the Python module that an import path names, where a ConfigMap of the file holds it."""
    module = (import_path or "").partition(":")[0].rpartition(".")[2]
    held = (scalar(root, "data", f"{module}.py") for root in manifest.documents)
    return next((found for found in held if found is not None), None) if module else None
