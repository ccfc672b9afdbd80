"""KServe InferenceService: the predictor's model block, whose arguments a runtime passes on, or plain containers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.argv import Argument, Parsed, read_argv
from kvplan.manifests.assemble import assemble, ignored_by, role_in_name
from kvplan.manifests.container import Start, guess, read_container
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.workloads import deployments_at, sites
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.pods import card_of, gpus_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, at, entries, number, scalar, text

# What the names of runtimes and model formats say about the engine behind them
_NAMED = {
    "vllm": "vllm",
    "huggingface": "vllm",
    "sglang": "sglang",
    "trtllm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
}
_WORKER_SIZES = {"tensorParallelSize": "tensor_parallel_size", "pipelineParallelSize": "pipeline_parallel_size"}


@reads("InferenceService")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the predictor."""
    predictor = at(root, "spec", "predictor")
    model = at(predictor, "model")
    engine = _engine(model) if isinstance(model, Map) else None
    replicas = number(predictor, "minReplicas")
    if engine is None or not isinstance(model, Map):
        for site in sites(root):
            for found in deployments_at(site, root, manifest, kind="kserve/InferenceService"):
                yield replace(found, topology=replace(found.topology, replicas=replicas))
        return
    container = read_container(model, manifest)
    known = table(engine)
    parsed = read_argv(container.words, known, takes_model=False) if known is not None else Parsed()
    guessed = guess(container.words) is not None
    program = Program(engine, pure=False)
    storage = scalar(model, "storageUri")
    sizes = _worker_sizes(at(predictor, "workerSpec"))
    topology = gpus_of(model, predictor, manifest, container.scope)
    yield assemble(
        manifest,
        Start(program, parsed, model.place, container.image, guessed=not guessed and not _named_runtime(model)),
        Topology(
            topology.gpus,
            topology.gpus_place,
            nodes=number(predictor, "workerSpec", "pipelineParallelSize") or 1,
            gpu=card_of(predictor),
            replicas=replicas or None,
            unknown=topology.unknown,
        ),
        kind="kserve/InferenceService",
        where=label_of(root),
        place=model.place,
        role=role_in_name(text(root, "metadata", "name")),
        model=manifest.word(storage, container.scope) if storage is not None else None,
        below=sizes,
        ignored=ignored_by(root),
    )


def _engine(model: Map) -> str | None:
    """Return the engine of a model block: by its runtime, its format, else by its flags."""
    names = [text(model, "runtime"), text(model, "modelFormat", "name")]
    for name in names:
        found = next((engine for part, engine in _NAMED.items() if part in (name or "").lower()), None)
        if found is not None:
            return found
    return None


def _named_runtime(model: Map) -> bool:
    return _engine(model) is not None


def _worker_sizes(spec: Node | None) -> Iterator[Argument]:
    """Yield the parallel sizes that the worker block gives to the runtime."""
    for key, value in entries(spec):
        size = number(value)
        if key in _WORKER_SIZES and size is not None:
            yield Argument(_WORKER_SIZES[key], size, key, value.place)
