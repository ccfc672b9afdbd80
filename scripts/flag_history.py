"""Add a release to profiles/engines/vllm.flags.history.yaml: which releases of vLLM have which flag.

    python scripts/flag_history.py 0.34.0 .../site-packages/vllm    # or the folder to which a wheel was unpacked

The flags are read from the source text, of the server and of every other entry point: more than `vllm serve` has, so
that a flag which is in none of them is surely none. Nothing of the release is run or imported.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plain_yaml import plain_yaml

from kvplan.profile import load

HISTORY = Path(__file__).resolve().parent.parent / "profiles" / "engines" / "vllm.flags.history.yaml"
_HEAD = "# The flags of vLLM by the first and the last release that has them, by scripts/flag_history.py.\n"


def flags_of(package: Path) -> set[str]:
    """Return every flag that the source of a release names: arguments of parsers, and fields of the server's class."""
    found: set[str] = set()
    for file in [package / "engine" / "arg_utils.py", *sorted((package / "entrypoints").rglob("*.py"))]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            found.update(flag for flag in _named(node) if flag.startswith("--"))
    return found


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
        yield from (word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str))
    if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield "--" + field.target.id.replace("_", "-")


def with_release(history: dict[str, Any], release: str, flags: set[str]) -> dict[str, Any]:
    """Return a history with one more release, the newest; its `flags` map to the first and last, null: still there."""
    releases = [*history["releases"], release]
    spans: dict[str, list[str | None]] = {name: list(span) for name, span in history["flags"].items()}
    for name, span in spans.items():
        if name in flags:
            span[1] = None
        elif span[1] is None:
            span[1] = releases[-2]
    for name in flags - spans.keys():
        spans[name] = [release, None]
    return {**history, "releases": releases, "flags": dict(sorted(spans.items()))}


def main(arguments: list[str] | None = None) -> int:
    """Add one release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("release")
    parser.add_argument("package", type=Path)
    parser.add_argument("--file", type=Path, default=HISTORY)
    options = parser.parse_args(arguments)
    empty = {"source": "engine/arg_utils.py and entrypoints/ of each release's wheel", "releases": [], "flags": {}}
    history = dict(load(options.file)) if options.file.exists() else empty
    made = with_release(history, options.release, flags_of(options.package))
    options.file.write_text(_HEAD + plain_yaml(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
