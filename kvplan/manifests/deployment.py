"""What is found in a manifest: one engine with a model, its arguments, and the GPUs that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from kvplan.manifests.argv import Argument
from kvplan.manifests.tree import Place, Repeated

Confidence: TypeAlias = Literal["exact", "partial", "heuristic"]


@dataclass(frozen=True, slots=True)
class Topology:
    """The hardware that a deployment asks for; None is what the manifest does not say.

    `gpus`: of one pod. `nodes`: pods, or machines, that run one copy of the model. `gpu`: the card as written (a label,
    an instance type, a name). `replicas`: copies.
    """

    gpus: int | None = None
    gpus_place: Place | None = None
    nodes: int | None = 1
    gpu: str | None = None
    replicas: int | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deployment:
    """One engine as a manifest deploys it.

    `where` names it within its file. `model` is as written after variables are resolved; `source` says what kind of
    reference it is. `release` is the engine's, where the image's tag says it. `unresolved` names variables without a
    value, and the model where nobody can tell which it is. `pure`: its parser is the engine's own. `ignored` are the
    rules that an annotation switches off. `allows_long`: its environment lets the context exceed the model's own.
    `repeated` are the keys that its document gives twice, near its line.
    """

    file: str
    place: Place
    kind: str
    where: str
    engine: str
    model: str | None
    source: str | None
    topology: Topology
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    role: str | None = None
    release: str | None = None
    served_model_name: str | None = None
    unresolved: tuple[str, ...] = ()
    confidence: Confidence = "exact"
    pure: bool = False
    hidden_flags: bool = False
    model_place: Place | None = None
    ignored: frozenset[str] = frozenset()
    allows_long: bool = False
    repeated: tuple[Repeated, ...] = ()

    def place_of(self, *names: str) -> Place:
        """Return where the first of the arguments that is given stands, else where the deployment begins."""
        return next((self.arguments[name].place for name in names if name in self.arguments), self.place)

    def value(self, name: str, default: Any = None) -> Any:
        """Return an argument's value; the default where it is not given, None where a variable in it has no value."""
        argument = self.arguments.get(name)
        if argument is None:
            return default
        return None if argument.unknown else argument.value
