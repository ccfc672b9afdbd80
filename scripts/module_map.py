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


def module_map() -> str:
    """Return the text of MODULES.md."""
    lines = [
        "# The modules, one sentence each",
        "",
        "Written by `python scripts/module_map.py` from their docstrings.",
        "",
    ]
    folder = None
    for path in sorted(p for name in FOLDERS for p in (ROOT / name).rglob("*.py") if "_assets" not in p.parts):
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"## {folder.relative_to(ROOT)}/", ""]
        lines.append(f"- `{path.name}`: {sentence(path)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(module_map(), encoding="utf-8")
