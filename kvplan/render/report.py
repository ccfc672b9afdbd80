"""The formats of a report by name; only the one that is asked for is imported."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from kvplan.errors import printable

_FORMATS = {
    "json": ("kvplan.render.check_json", "report_object"),
    "markdown": ("kvplan.render.check_markdown", "check_markdown"),
    "github": ("kvplan.render.github", "workflow_commands"),
    "gitlab": ("kvplan.render.gitlab", "code_quality"),
    "sarif": ("kvplan.render.sarif", "sarif"),
    "junit": ("kvplan.render.junit", "junit"),
}
_OBJECTS = frozenset({"json", "gitlab", "sarif"})


def rendered(name: str, report: Any, *, quiet: bool = False, verbose: bool = False) -> str:
    """Return a report as text in a format."""
    if name == "text":
        from kvplan.render.check_text import check_text  # noqa: PLC0415

        return _joined(check_text(report, quiet=quiet, verbose=verbose))
    module, function = _FORMATS[name]
    content = getattr(import_module(module), function)(report)
    if name in _OBJECTS:
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return content if isinstance(content, str) else _joined(content)


def _joined(lines: list[str]) -> str:
    """Join lines. What a manifest put into one may neither steer a terminal nor begin another line."""
    return "".join(f"{printable(line)}\n" for line in lines)
