"""Write profiles/engines/ENGINE.flags.yaml: the flags of an engine's serve command, as its own parser has them.

    python scripts/flag_tables.py vllm --release 0.33.0          # where that release is installed
    python scripts/flag_tables.py sglang --release 0.5.23
    python scripts/flag_tables.py trtllm --release 1.2.0 --commands .../tensorrt_llm/commands/serve.py

vLLM and SGLang build an argparse parser, which is asked; TensorRT-LLM needs a GPU to be imported, so the decorators of
its command are read from the source text. Only what the reader of manifests needs is kept: the name, other names, the
negative forms, the type and how many words a value takes. No number of an engine comes along, so that regenerating a
table overwrites none.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plain_yaml import plain_yaml

PROFILES = Path(__file__).resolve().parent.parent / "profiles" / "engines"
_JSON = ("loads", "json", "dict", "parse_dataclass", "parse_cuda_graph_config_arg")
_HUMAN = "human_readable_int"

Row = tuple[str, dict[str, Any]]


def of_argparse(parser: argparse.ArgumentParser) -> Iterator[Row]:
    """Yield the rows of a parser; positionals and --help are left out."""
    names: dict[argparse.Action, list[str]] = {}
    for name, action in parser._option_string_actions.items():  # noqa: SLF001  # argparse lists hidden names nowhere else
        if name not in ("-h", "--help"):
            names.setdefault(action, []).append(name)
    for action, known in names.items():
        name = next(name for name in action.option_strings if name.startswith("--"))
        negative = [other for other in known if action.nargs == 0 and not _sets(parser, action, other)]
        yield (
            name,
            _row(
                action.dest,
                aliases=sorted(set(known) - {name} - set(negative)),
                negatives=sorted(negative),
                kind=_kind(action),
                arity=0 if action.nargs == 0 else (action.nargs or 1),
            ),
        )


def _sets(parser: argparse.ArgumentParser, action: argparse.Action, name: str) -> bool:
    """Say whether a switch under this name turns its setting on, by turning it."""
    settings = argparse.Namespace()
    action(parser, settings, [], name)
    return vars(settings).get(action.dest) is not False


def _kind(action: argparse.Action) -> str:
    """Name the type of a value; vLLM wraps a type in closures, the innermost is what counts."""
    if action.nargs == 0:
        return "bool"
    kind: Any = action.type
    name = ""
    while kind is not None:
        name = getattr(kind, "__name__", "")
        if name.startswith(_HUMAN):
            return "human_int"
        if name in ("int", "float"):
            return name
        if any(part in name for part in _JSON):
            return "json"
        inner = [cell.cell_contents for cell in getattr(kind, "__closure__", None) or ()]
        kind = next((found for found in inner if callable(found)), None)
    return "str"


def of_click(source: str, command: str) -> Iterator[Row]:
    """Yield the rows of a click command from its decorators, without running any of it."""
    function = next(
        node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == command
    )
    for call in (node for node in function.decorator_list if isinstance(node, ast.Call)):
        if getattr(call.func, "attr", "") != "option":
            continue
        words = [word.value for word in call.args if isinstance(word, ast.Constant)]
        names = [word.replace("_", "-") for word in words if word.startswith("--")]
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        is_flag = isinstance(flag := given.get("is_flag"), ast.Constant) and flag.value
        kind = "bool" if is_flag else {"int": "int", "float": "float"}.get(getattr(given.get("type"), "id", ""), "str")
        dest = next((word for word in words if not word.startswith("-")), names[0][2:].replace("-", "_"))
        yield names[0], _row(dest, aliases=names[1:], negatives=[], kind=kind, arity=0 if is_flag else 1)


def _row(dest: str, *, aliases: list[str], negatives: list[str], kind: str, arity: int | str) -> dict[str, Any]:
    """Leave out what is the rule: a text of one word and no other names."""
    row: dict[str, Any] = {"dest": dest}
    if kind != "str":
        row["type"] = kind
    if arity != (0 if kind == "bool" else 1):
        row["words"] = arity
    if aliases:
        row["aliases"] = aliases
    if negatives:
        row["negatives"] = negatives
    return row


def _vllm() -> argparse.ArgumentParser:
    from vllm.entrypoints.common.cli_args import make_arg_parser  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    return make_arg_parser(FlexibleArgumentParser())


def _sglang() -> argparse.ArgumentParser:
    from sglang.srt.server_args import ServerArgs  # noqa: PLC0415

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def table(engine: str, release: str, rows: Iterable[Row]) -> str:
    """Return the text of a table, flags in the order of their names."""
    what = {"vllm": "vllm serve", "sglang": "sglang serve", "trtllm": "trtllm-serve"}[engine]
    head = f"# The flags of `{what}`, by scripts/flag_tables.py. Words are 1 and types str where nothing is said.\n"
    content = {
        "release": release,
        "source": f"the parser of {what} {release} itself",
        "prefixes": engine != "trtllm",
        "flags": dict(sorted(rows)),
    }
    return head + plain_yaml(content)


def main(arguments: list[str] | None = None) -> int:
    """Write the table of one engine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engine", choices=["vllm", "sglang", "trtllm"])
    parser.add_argument("--release", required=True, help="the release that is asked")
    parser.add_argument("--commands", type=Path, metavar="serve.py", help="the source of trtllm-serve")
    parser.add_argument("--folder", type=Path, default=PROFILES)
    options = parser.parse_args(arguments)
    if options.engine == "trtllm":
        if options.commands is None:
            parser.error("trtllm needs --commands")
        rows = list(of_click(options.commands.read_text(encoding="utf-8"), "serve"))
    else:
        rows = list(of_argparse({"vllm": _vllm, "sglang": _sglang}[options.engine]()))
    path: Path = options.folder / f"{options.engine}.flags.yaml"
    path.write_text(table(options.engine, options.release, rows), encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
