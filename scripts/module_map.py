"""Write MODULES.md: every module in one sentence, the first of its docstring. A test holds the file to the code."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "MODULES.md"
FOLDERS = ("kvplan", "kernels")


def sentence(path: Path) -> str:
    """Return the first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _modules() -> list[Path]:
    found = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py") if "_assets" not in path.parts]
    return sorted(found, key=lambda path: (path.parent, path.name))


def module_map() -> str:
    """Return the text of MODULES.md."""
    lines = [
        "# The modules, one sentence each",
        "",
        "Written by `python scripts/module_map.py` from their docstrings.",
        "",
    ]
    folder = None
    for path in _modules():
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"## {folder.relative_to(ROOT)}/", ""]
        lines.append(f"- `{path.name}`: {sentence(path)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(module_map(), encoding="utf-8")
