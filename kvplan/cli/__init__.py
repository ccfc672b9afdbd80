"""The command line: parse, call, render, exit. Each command is a file here, imported only when it is asked for.

stdout carries the answer, stderr the rest. Exit codes: 0 ok, 1 the answer is no, 2 usage or unreadable input, 3 the
Hub could not be reached, 4 no usable GPU, 70 a mistake in kvplan, 130 interrupted, 141 the reader of a pipe went
away. A traceback shows only with KVPLAN_DEBUG=1.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kvplan.errors import USAGE, KvplanError, UnreadableInput, near, printable

COMMANDS = {
    "size": "how many tokens and requests a model holds on a card, or why the engine would refuse",
    "fit": "which cards hold so many requests of such a length, and how many of them",
    "verify": "the plan carried out on the card of this machine, predicted beside measured",
    "audit": "what an engine or a running server says, beside what kvplan predicts",
    "check": "what is wrong with the deployments of manifests, compose files and scripts",
    "lock": "pin the models of those deployments and what is planned for them",
    "diff": "what a change of manifests does to memory, tokens and requests",
    "explain": "what a rule of the check looks at",
    "simulate": "a trace against the planned pool, as the engine's own scheduler would run it",
    "gpus": "the cards that kvplan knows",
    "models": "the checkpoints that are built in",
    "schema": "the JSON schema of an output",
}
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_MISTAKE = 70
_LONGEST = 400  # characters of an error: a stranger's text may be part of it
# typer's own usage errors all descend from this class, which it does not export
_CLICK_ERROR: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


class Commands(TyperGroup):
    """The commands by name; listing them imports none of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command's file and return the command, None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        module = import_module(f"kvplan.cli.{cmd_name}")
        kind = getattr(module, "COMMAND_CLASS", None)
        single.command(help=COMMANDS[cmd_name].capitalize() + ".", cls=kind)(module.command)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Name near matches where a command is mistyped."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise KvplanError(
                f"no command {args[0][:40]!r}", near(args[0], COMMANDS) or f"one of {', '.join(COMMANDS)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their one-line help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from kvplan import __version__

        sys.stdout.write(f"kvplan {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How many requests a GPU holds at once, as the serving engine itself would answer, before a GPU is rented."""
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")


def run(argv: list[str]) -> int:
    """Run the command line and return its exit code; every failure ends in one line on stderr."""
    if sys.stdout is None:  # closed by the caller: there is nobody to answer
        return USAGE
    _prepare_streams()
    try:
        code = app(argv, prog_name="kvplan", standalone_mode=False)
        sys.stdout.flush()
    except KvplanError as error:
        return _failed(error.message, error.hint, error.exit_code, error)
    except _CLICK_ERROR as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _failed(message.rstrip(".").replace("\n", " "), _help_of(error), 2, error)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    except SystemExit:  # typer's answer to a broken pipe
        return _broken_pipe()
    except BrokenPipeError:
        return _broken_pipe()
    except OSError as error:  # a full disk behind stdout, a current folder that is gone
        from kvplan.sources.document import reason

        _discard_stdout()
        return _failed(f"the answer could not be given: {reason(error)}", "", USAGE, error)
    except Exception as error:  # noqa: BLE001  # a mistake of ours: its code must not read as the answer "no"
        hint = "it is a mistake in kvplan; KVPLAN_DEBUG=1 shows where"
        return _failed(f"{type(error).__name__}: {str(error)[:200]}", hint, _MISTAKE, error)
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    if sys.stdin is None:
        sys.stdin = _Closed()
    # a letter that the terminal's encoding lacks, or a file name that is no text, is escaped
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _Closed:
    """Stands in for a stdin that the caller has closed."""

    @property
    def buffer(self) -> Any:
        raise UnreadableInput("stdin is closed", "give a file, or let something be read from stdin")


def _broken_pipe() -> int:
    """Return the code of a program that SIGPIPE ended: the reader went away, and no verdict was told."""
    _discard_stdout()
    return _BROKEN_PIPE


def _discard_stdout() -> None:
    """Keep the interpreter from writing at its end what could not be written before."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help_of(error: Exception) -> str:
    """Name the help of the command whose flags were not understood."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context is not None else 'kvplan'} --help lists the flags"


def _failed(message: str, hint: str, code: int, error: Exception) -> int:
    if os.environ.get("KVPLAN_DEBUG") == "1":
        raise error
    with suppress(OSError, AttributeError):  # the code answers where stderr is closed
        for what, text in (("error", message), ("hint", hint)):
            if text:
                line = printable(text)
                sys.stderr.write(f"{what}: {line if len(line) <= _LONGEST else line[:_LONGEST] + '…'}\n")
        sys.stderr.flush()
    return code
