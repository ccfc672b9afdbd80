"""What the tests of manifests share: a text read under a name, and its deployments."""

from __future__ import annotations

from kvplan.manifests.deployment import Deployment
from kvplan.manifests.read import Reading, read_paths
from kvplan.manifests.variables import Scope, layer


def reading_of(text: str, name: str = "m.yaml", **variables: str) -> Reading:
    return read_paths(["-"], scope=Scope((layer(variables),)), stdin=text.encode, stdin_name=name)


def only(text: str, name: str = "m.yaml", **variables: str) -> Deployment:
    found = reading_of(text, name, **variables).deployments
    assert len(found) == 1, found
    return found[0]


def values(found: Deployment) -> dict[str, object]:
    return {name: argument.value for name, argument in found.arguments.items()}
