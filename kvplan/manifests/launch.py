"""Which engines a command or a program starts, and with which words.

An engine may stand behind wrappers (`exec`, `numactl`, `mpirun`), in the string of `sh -c`, behind `docker run`, or be
the entrypoint of an image that is only given arguments. A command that merely mentions one (`echo`, `pkill`) starts
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kvplan.manifests.docker import RunOptions, run_options
from kvplan.manifests.programs import Program, base_name, image_program, program_in
from kvplan.manifests.script import Command, run
from kvplan.manifests.shell import tokens
from kvplan.manifests.tree import Place
from kvplan.manifests.variables import Field, Known, Scope

MAX_DEPTH = 4  # sh -c "bash -c …"
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_CARRIERS = frozenset({"ssh", "tmux", "screen", "pdsh", "su", "runuser"})  # they are given a program as one word
_TALKING = frozenset({
    "echo", "printf", "cat", "grep", "egrep", "pgrep", "pkill", "kill", "killall", "pip", "pip3", "which", "type",
    "alias", "sed", "awk", "test", "[", "[[", "ls", "tail", "head", "ps", "logger", "trap", "source", ".", "apt-get",
    "apt", "git", "curl", "wget", "huggingface-cli", "hf",
})  # fmt: skip

Locator: TypeAlias = Callable[[int, str], Place]
Within: TypeAlias = Callable[[Place, str], Locator]


@dataclass(frozen=True, slots=True)
class Launch:
    """An engine that is started.

    `dropped` names variables without a value that left no word behind; `environment`, `image` and `gpus` are what the
    command itself says, as `docker run` does.
    """

    program: Program
    words: tuple[Field, ...]
    place: Place
    dropped: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    image: str | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the engines that are started; `within` gives the locator of a program that stands in a word."""

    within: Within
    depth: int = 0

    def in_program(self, text: str, scope: Scope, locate: Locator) -> list[Launch]:
        """Return the engines that a shell program starts, in order."""
        found: list[Launch] = []

        def handle(command: Command, here: Scope) -> None:
            found.extend(self.of(command, here))

        run(list(tokens(text, locate)), scope, handle)
        return found

    def in_words(self, words: Sequence[Field], scope: Scope) -> list[Launch]:
        """Return the engines that one command starts: none or one, or those of a `sh -c` program."""
        return self.of(Command(tuple(words), (), ()), scope)

    def of(self, command: Command, scope: Scope) -> list[Launch]:
        """Return the engines that one command starts, its words expanded."""
        words = command.fields
        name = base_name(words[0].text) if words else ""
        if not words or name in _TALKING or self.depth > MAX_DEPTH:
            return []
        if name == "eval":
            joined = replace(words[-1], text=" ".join(word.text for word in words[1:]))
            return self._nested(joined, (), scope)
        if (position := _program_word(words)) is not None:
            return self._nested(words[position], words[position + 1 :], scope)
        if name in _CARRIERS:
            return [found for word in words[1:] if " " in word.text for found in self._nested(word, (), scope)]
        if (docker := run_options(words)) is not None:
            return self._docker(docker, command, scope)
        found = program_in(words)
        if found is None:
            return []
        return [Launch(found[0], found[1], words[0].place, command.dropped, command.environment)]

    def _docker(self, options: RunOptions, command: Command, scope: Scope) -> list[Launch]:
        """Return what `docker run` starts: the command behind the image, or what the image's entrypoint makes of it."""
        place = command.fields[0].place
        entrypoint = () if options.entrypoint is None else (Field(options.entrypoint, place),)
        inner = replace(command, fields=(*entrypoint, *options.rest))
        here = scope.over({name: Known.of(value) for name, value in options.environment.items()})
        found = Finder(self.within, self.depth + 1).of(inner, here)
        if not found and not entrypoint and (program := image_program(options.image)) is not None:
            found = [Launch(program, options.rest, place, command.dropped, command.environment)]
        environment = tuple(options.environment.items())
        return [
            replace(each, image=options.image, gpus=options.gpus, environment=(*each.environment, *environment))
            for each in found
        ]

    def _nested(self, word: Field, arguments: Sequence[Field], scope: Scope) -> list[Launch]:
        """Return what the program in a word starts; `arguments` are its `$0`, `$1` and so on."""
        own: dict[str, Known | None] = dict(scope.own)
        if arguments and not any(argument.open for argument in arguments):
            rest = arguments[1:]
            own["@"] = Known(tuple(rest))
            own |= {str(number): Known((a,)) for number, a in enumerate(arguments[:10])}
        deeper = Finder(self.within, self.depth + 1)
        return deeper.in_program(word.text, Scope(scope.below, own), self.within(word.place, word.text))


def is_program(words: Sequence[Field]) -> bool:
    """Say whether a command is a shell's, whose variables are the shell's own."""
    return _program_word(words) is not None


def _program_word(words: Sequence[Field]) -> int | None:
    """Return the position of the program behind the `-c` of a shell, or None."""
    shell = next((i for i, word in enumerate(words) if base_name(word.text) in _SHELLS), None)
    if shell is None:
        return None
    for position in range(shell + 1, len(words) - 1):
        option = words[position].text
        if not option.startswith(("-", "+")):
            return None
        if not option.startswith("--") and "c" in option:
            dashes = words[position + 1].text == "--" and position + 2 < len(words)
            return position + 2 if dashes else position + 1
    return None
