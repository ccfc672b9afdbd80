"""An engine's own file of options: vLLM's and SGLang's `--config`, TensorRT-LLM's options, Kaito's `vllm:` section."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.manifests.argv import Parsed
from kvplan.manifests.assemble import assemble
from kvplan.manifests.container import Start
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table
from kvplan.manifests.kinds import reads_shape
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, at
from kvplan.manifests.values import arguments_of

# Keys that no other file of the same look is likely to have
_TELLING = {
    "vllm": frozenset({
        "tensor-parallel-size", "max-model-len", "gpu-memory-utilization", "max-num-batched-tokens", "max-num-seqs",
        "kv-cache-dtype", "speculative-config", "compilation-config", "enforce-eager", "enable-prefix-caching",
        "no-enable-prefix-caching", "max-cudagraph-capture-size",
    }),
    "sglang": frozenset({
        "mem-fraction-static", "tp-size", "tp", "chunked-prefill-size", "context-length", "max-running-requests",
        "speculative-algorithm", "cuda-graph-max-bs", "model-path",
    }),
    "tensorrt-llm": frozenset({
        "kv-cache-config", "cuda-graph-config", "moe-expert-parallel-size", "free-gpu-memory-fraction", "moe-config",
        "enable-attention-dp", "print-iter-log", "disable-overlap-scheduler",
    }),
}  # fmt: skip


def _engine(root: Map) -> str | None:
    """Return the engine whose keys a document has: some that tell it, and most of them known to it."""
    keys = {key.replace("_", "-") for key in root.values}
    best: tuple[int, str] | None = None
    for engine, telling in _TELLING.items():
        known = table(engine)
        tells = len(keys & telling)
        if not tells or known is None:
            continue
        strange = sum(1 for key in keys - telling if known.by_key(key) is None)
        if 2 * strange <= len(keys) or engine == "tensorrt-llm":
            best = max(best or (0, ""), (tells, engine))
    return best[1] if best else None


def _is_config(root: Map, _: Manifest) -> bool:
    section = at(root, "vllm")
    return _engine(root) is not None or (isinstance(section, Map) and _engine(section) == "vllm")


@reads_shape(_is_config)
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the options; the model is most often on the command line that names the file."""
    section = at(root, "vllm")
    engine = _engine(root)
    options = root if engine is not None or not isinstance(section, Map) else section
    engine = engine or "vllm"
    yield assemble(
        manifest,
        Start(Program(engine, pure=False), Parsed(), options.place),
        Topology(),
        kind=f"{engine}/config",
        where="file",
        below=arguments_of(options, engine, manifest),
        partial=True,
    )
