"""A YAML file while its deployments are read: its documents, what they may refer to, and what variables stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvplan.manifests.launch import Finder
from kvplan.manifests.lines import Lines
from kvplan.manifests.tree import BadYaml, Map, Node, Scalar, parse, text
from kvplan.manifests.variables import Field, Scope, resolve

MAX_NESTED = 256 * 1024  # characters of a document within a scalar; public ones have 10,000
_REFERRED = frozenset({"ConfigMap", "ResourceClaimTemplate", "ResourceClaim"})


@dataclass(slots=True)
class Objects:
    """Objects that others refer to by name."""

    by_name: dict[tuple[str, str], Map] = field(default_factory=dict)

    @classmethod
    def of(cls, documents: Iterable[Node]) -> Objects:
        """Return the ConfigMaps and resource claims among the documents."""
        found: dict[tuple[str, str], Map] = {}
        for root in documents:
            kind, name = text(root, "kind"), text(root, "metadata", "name")
            if kind in _REFERRED and name and isinstance(root, Map):
                found[kind, name] = root
        return cls(found)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file. `named` returns the text of a file that the manifest names, None where it may not or cannot be read."""

    name: str
    lines: Lines
    documents: tuple[Map, ...]
    scope: Scope
    others: Objects
    named: Callable[[str], str | None] = lambda _: None

    @property
    def finder(self) -> Finder:
        """What finds engines in the words of this file."""
        return Finder(self.lines.within)

    def referred(self, kind: str, name: str | None) -> Map | None:
        """Return an object by kind and name: of this file, else of the other files of the run."""
        if not name:
            return None
        own = Objects.of(self.documents).by_name
        return own.get((kind, name)) or self.others.by_name.get((kind, name))

    def own_config_map(self, name: str | None) -> Map | None:
        """Return a ConfigMap of this file: variables are resolved within their own file only."""
        return Objects.of(self.documents).by_name.get(("ConfigMap", name or ""))

    def nested(self, node: Node | None) -> Node | None:
        """Return the YAML document that is the text of a scalar, with its places in this file; None where it is none.

        A literal block is read at its own indentation, so that lines and columns are right.
        """
        if not isinstance(node, Scalar) or len(node.text) > MAX_NESTED:
            return None
        content, first_line = node.text, node.place.line
        if node.style == "|":
            first_line += 1
            lead = next((line for line in content.split("\n") if line.strip()), "")
            start = first_line + content[: content.find(lead)].count("\n") if lead else first_line
            shift = max(0, _indent(self.lines[start]) - _indent(lead))
            content = "\n".join(" " * shift + line if line else line for line in content.split("\n"))
        try:
            roots = parse(content, first_line)
        except BadYaml:
            return None
        return roots[0] if roots else None

    def word(self, node: Node, scope: Scope | None = None) -> Field | None:
        """Return a scalar as one word, its variables resolved; None for anything else."""
        if not isinstance(node, Scalar) or node.is_null:
            return None
        return resolve(node.text, node.place, scope if scope is not None else self.scope)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def kind_of(root: Node) -> str:
    """Return the `kind` of an object, empty where it has none."""
    return text(root, "kind") or ""


def label_of(root: Node) -> str:
    """Name an object: `Kind/name`."""
    name = text(root, "metadata", "name")
    return f"{kind_of(root)}/{name}" if name else kind_of(root)
