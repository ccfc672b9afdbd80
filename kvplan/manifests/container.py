"""A container: its environment, its command and arguments, and the engine that they start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kvplan.manifests.argv import Parsed, read_argv
from kvplan.manifests.flags import table
from kvplan.manifests.launch import Launch, is_program
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.programs import Program, image_program
from kvplan.manifests.shell import Word, tokens
from kvplan.manifests.tree import List, Map, Node, Place, Scalar, at, entries, items, text
from kvplan.manifests.variables import Field, Known, Layer, Scope, expand, resolve, resolve_references

Value: TypeAlias = Callable[[str, Place, Scope], Field]
# What an engine's server is hardly started without, where only arguments are there to tell it by; SGLang's are those
# that vLLM lacks
_TELLING = {
    "vllm": frozenset({
        "--tensor-parallel-size", "--max-model-len", "--gpu-memory-utilization", "--kv-cache-dtype", "--max-num-seqs",
        "--max-num-batched-tokens", "--enforce-eager", "--enable-prefix-caching", "--speculative-config",
    }),
    "sglang": frozenset({
        "--tp-size", "--tp", "--mem-fraction-static", "--context-length", "--chunked-prefill-size", "--model-path",
        "--speculative-algorithm", "--max-running-requests",
    }),
}  # fmt: skip

# vLLM then takes a length beyond the model's own
ALLOW_LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


@dataclass(slots=True)
class Start:
    """An engine that a container starts. `guessed`: only its flags, or its image's name, tell which it is."""

    program: Program
    parsed: Parsed
    place: Place
    image: str | None = None
    dropped: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, or what is written like one."""

    node: Map
    image: str | None
    scope: Scope
    words: tuple[Field, ...]
    has_command: bool

    @property
    def name(self) -> str:
        """Its name, empty where it has none."""
        return text(self.node, "name") or ""


def read_container(node: Map, manifest: Manifest, *, given: Layer | None = None) -> Container:
    """Read a container; `given` are variables that a controller puts into it."""
    below = manifest.scope.over(given) if given else manifest.scope
    scope = below.over(environment(node, manifest, below))
    parts = at(node, "command"), at(node, "args")
    command, arguments = (words_of(part, manifest, scope, resolve_references) for part in parts)
    if not is_program((*command, *arguments)):
        # the kubelet leaves `${NAME}` alone, and there is no shell: it waits for envsubst, or for Flux
        command, arguments = (words_of(part, manifest, scope) for part in parts)
    image_word = manifest.word(node.values["image"], scope) if "image" in node.values else None
    image = image_word.text if image_word is not None else None
    return Container(node, image, scope, (*command, *arguments), bool(command))


def environment(node: Node, manifest: Manifest, scope: Scope, *, keys: tuple[str, ...] = ("env",)) -> Layer:
    """Return the variables under the keys, a list of names and values or a mapping, and of ConfigMaps of the same file.

    A value may use the variables before it. One that comes from a secret or a field is known to have a value that
    nobody can tell.
    """
    layer: dict[str, Known | None] = {}
    for source in items(node, "envFrom"):
        held = manifest.own_config_map(text(source, "configMapRef", "name"))
        layer |= {key: Known.of(said) for key, entry in entries(held, "data") if (said := text(entry)) is not None}
    pairs: list[tuple[str, Node | None, Node]] = []
    for section in keys:
        pairs += [(text(entry, "name") or "", at(entry, "value"), entry) for entry in items(node, section)]
        pairs += [(key, value, value) for key, value in entries(node, section)]
    for name, value, entry in pairs:
        if isinstance(value, Scalar):
            word = resolve("" if value.is_null else value.text, value.place, scope.over(layer))
            layer[name] = Known.of(word.text, word.unknown)
            continue
        reference = at(entry, "valueFrom", "configMapKeyRef")
        held = manifest.own_config_map(text(reference, "name"))
        found = text(held, "data", text(reference, "key") or "")
        layer[name] = Known.of(found) if found is not None else None
    return layer


def words_of(node: Node | None, manifest: Manifest, scope: Scope, value: Value = resolve) -> tuple[Field, ...]:
    """Return a command or arguments as words: a list as it is, a text as a shell would split it."""
    if isinstance(node, List):
        scalars = (item for item in node.items if isinstance(item, Scalar) and not item.is_null)
        return tuple(value(item.text, item.place, scope) for item in scalars)
    return split(node, manifest, scope) if isinstance(node, Scalar) and not node.is_null else ()


def split(node: Scalar, manifest: Manifest, scope: Scope) -> tuple[Field, ...]:
    """Return a text as the words of one command."""
    found = tokens(node.text, manifest.lines.within(node.place, node.text))
    return tuple(f for token in found if isinstance(token, Word) for f in expand(token, scope)[0])


def starts(container: Container, manifest: Manifest) -> list[Start]:
    """Return the engines that a container starts: by its command, its image's entrypoint, or its flags' own words."""
    launches = manifest.finder.in_words(container.words, container.scope)
    if launches:
        return [start_of(launch, container.image, container.scope) for launch in launches]
    if container.has_command or not container.words:
        return []
    program = image_program(container.image)
    guessed = program is None
    if program is None:
        program = guess(container.words, container.image)
    if program is None:
        return []
    start = start_of(Launch(program, container.words, container.words[0].place), container.image, container.scope)
    start.guessed = guessed
    return [start]


def start_of(launch: Launch, image: str | None = None, scope: Scope | None = None) -> Start:
    """Read the arguments of a launch; `scope` holds what its surroundings put into its environment."""
    longer = scope.lookup(ALLOW_LONG) if scope is not None else None
    around = {ALLOW_LONG: longer.text} if longer is not None and not longer.unknown else {}
    known = table(launch.program.engine)
    parsed = read_argv(launch.words, known, takes_model=launch.program.takes_model) if known is not None else Parsed()
    return Start(
        launch.program,
        parsed,
        launch.place,
        launch.image or image,
        launch.dropped,
        around | dict(launch.environment),
        launch.gpus,
    )


def guess(words: Sequence[Field], image: str | None = None) -> Program | None:
    """Return the engine whose flags the words are: most are known, and one is hardly another's."""
    written = [word.text.partition("=")[0] for word in words if word.text.startswith("--") and len(word.text) > 2]
    flags = {flag.replace("_", "-") for flag in written}
    for engine, telling in sorted(_TELLING.items(), key=lambda item: len(flags & item[1]), reverse=True):
        known = table(engine)
        missing = [flag for flag in flags if known is None or known.find(flag) is None]
        if (flags & telling or (flags and engine in (image or ""))) and 2 * len(missing) <= len(flags):
            return Program(engine, takes_model=engine == "vllm", pure=False)
    return None
