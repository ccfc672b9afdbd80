"""From an engine that starts, and the hardware around it, to a `Deployment`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kvplan.manifests.argv import Argument
from kvplan.manifests.container import ALLOW_LONG, Start
from kvplan.manifests.deployment import Confidence, Deployment, Topology
from kvplan.manifests.flags import MODEL_NAMES
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import Node, Place, text
from kvplan.manifests.variables import Field

_RELEASE = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)(?:[.-].*)?", re.ASCII)
_ENGINE_IMAGES = {"vllm": ("vllm-openai", "vllm"), "sglang": ("sglang",)}
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*(?:@[A-Za-z0-9_./-]+)?", re.ASCII)
_SCHEMES = ("pvc", "s3", "gs", "gcs", "oci", "modelscope", "ngc", "file", "https", "http", "azure", "az", "ollama")
_IGNORE = "kvplan.dev/ignore"


def assemble(
    manifest: Manifest,
    start: Start,
    topology: Topology,
    *,
    kind: str,
    where: str,
    place: Place | None = None,
    role: str | None = None,
    model: Field | None = None,
    source: str | None = None,
    served: str | None = None,
    below: Iterable[Argument] = (),
    options: Iterable[Argument] = (),
    partial: bool = False,
    ignored: frozenset[str] = frozenset(),
) -> Deployment:
    """Return a deployment.

    `model` and `served` are what the object says besides its command, `below` the arguments that a command's own
    override, `options` those of a file that the command names. `partial`: a part of the object lies in another file.
    """
    engine = start.program.engine
    # a file of options lies under the command line; TensorRT-LLM's lies over it
    layers = [below, options, start.parsed.arguments.values()]
    layers = [below, layers[2], options] if engine == "tensorrt-llm" else layers
    arguments = {argument.name: argument for layer in layers for argument in layer}
    said = next((arguments.pop(name) for name in sorted(MODEL_NAMES) if name in arguments), None)
    reference = start.parsed.model or model or _as_word(said)
    name, kind_of_reference = model_reference(reference)
    if partial and reference is not None and reference.unknown:
        name, kind_of_reference = None, "hf"
    named = served_name(arguments) or served
    unresolved = _unresolved(start, arguments, reference, name, kind_of_reference)
    return Deployment(
        file=manifest.name,
        place=place or start.place,
        kind=kind,
        where=where,
        engine=engine,
        model=name,
        source=source or kind_of_reference,
        topology=_with_flags(topology, start, arguments),
        arguments=arguments,
        role=role or role_of(arguments),
        release=release_of(start.image, engine),
        served_model_name=named,
        unresolved=unresolved,
        confidence=_confidence(start, arguments, kind_of_reference, partial=partial),
        pure=start.program.pure and not start.guessed,
        hidden_flags=bool(start.parsed.open or start.dropped),
        model_place=reference.place if reference is not None else None,
        ignored=ignored,
        allows_long=start.environment.get(ALLOW_LONG, "").strip().lower() in ("1", "true"),
    )


def _as_word(argument: Argument | None) -> Field | None:
    if argument is None or not isinstance(argument.value, str):
        return None
    return Field(argument.value, argument.place, argument.unknown)


def model_reference(word: Field | None) -> tuple[str | None, str | None]:
    """Return a model as it is reported, and what kind of reference it is: `hf`, `path`, `pvc` and so on."""
    if word is None or not word.text:
        return None, None
    written = word.text.strip()
    scheme, separator, rest = written.partition("://")
    if separator and scheme == "hf":
        base, colon, revision = rest.partition(":")
        return (f"{base}@{revision}" if colon and revision else base), "hf"
    if separator:
        return written, scheme if scheme in _SCHEMES else "unknown"
    if _HUB_ID.fullmatch(written) and not word.unknown:
        return written, "hf"
    return written, "path"


def served_name(arguments: Mapping[str, Argument]) -> str | None:
    """Return the first name under which the model is served."""
    argument = arguments.get("served_model_name") or arguments.get("model_name")
    value = argument.value if argument is not None else None
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def release_of(image: str | None, engine: str) -> str | None:
    """Return the engine's release that an image's tag says, None for a tag of another product or of a date."""
    repository, _, tag = (image or "").partition("@")[0].rpartition("/")[2].partition(":")
    if not repository.startswith(_ENGINE_IMAGES.get(engine, ("-",))):
        return None
    found = _RELEASE.fullmatch(tag)
    return found[1] if found is not None else None


def role_of(arguments: Mapping[str, Argument]) -> str | None:
    """Return `prefill` or `decode` where the flags of a disaggregated deployment say so."""
    mode = arguments.get("disaggregation_mode")
    if mode is not None and mode.value in ("prefill", "decode"):
        return str(mode.value)
    if "is_prefill_worker" in arguments:
        return "prefill"
    if "is_decode_worker" in arguments:
        return "decode"
    transfer = arguments.get("kv_transfer_config")
    kv_role = transfer.value.get("kv_role") if transfer is not None and isinstance(transfer.value, dict) else None
    return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(kv_role) if isinstance(kv_role, str) else None


def role_in_name(*names: str | None) -> str | None:
    """Return the role that one of the names is or holds as a word."""
    words = {word for name in names if name for word in re.split(r"[^a-z]+", name.lower())}
    return "prefill" if "prefill" in words else "decode" if "decode" in words else None


def ignored_by(root: Node | None) -> frozenset[str]:
    """Return the rules that an object's annotation switches off."""
    written = text(root, "metadata", "annotations", _IGNORE) or ""
    return frozenset(re.findall(r"KVP[0-9]{3}", written))


def _unresolved(
    start: Start, arguments: Mapping[str, Argument], reference: Field | None, model: str | None, source: str | None
) -> tuple[str, ...]:
    """Name what has no value. A word that may stand for flags is named as it is written too, `$NAME`."""
    names: list[str] = [*(reference.unknown if reference is not None else ())]
    for argument in arguments.values():
        names += argument.unknown
    for word in start.parsed.open:
        names += [*word.unknown, word.text]
    names += start.dropped
    if source != "hf" or model is None:
        names += ["model", *([model] if model else [])]
    return tuple(dict.fromkeys(name for name in names if name))


def _confidence(start: Start, arguments: Mapping[str, Argument], source: str | None, *, partial: bool) -> Confidence:
    if start.guessed:
        return "heuristic"
    unclear = partial or source != "hf" or start.parsed.open or any(a.unknown for a in arguments.values())
    return "partial" if unclear else "exact"


def _with_flags(topology: Topology, start: Start, arguments: Mapping[str, Argument]) -> Topology:
    """Return the topology with what the command itself says: --nnodes, --gpus of docker run."""
    nnodes = arguments.get("nnodes")
    if nnodes is not None and isinstance(nnodes.value, int) and not isinstance(nnodes.value, bool):
        topology = replace(topology, nodes=nnodes.value)
    if topology.gpus is None and start.gpus is not None:
        topology = replace(topology, gpus=start.gpus, gpus_place=start.place)
    return topology
