"""Shell programs followed: words, quotes, expansions, branches, loops, functions."""

from __future__ import annotations

import pytest

from kvplan.manifests.lines import Lines
from kvplan.manifests.script import Command, run
from kvplan.manifests.shell import tokens
from kvplan.manifests.variables import Scope, layer


def commands(program: str, **environment: str) -> list[Command]:
    found: list[Command] = []
    known = Scope((layer(environment),))
    run(list(tokens(program, Lines(program).whole(program))), known, lambda command, _: found.append(command))
    return found


def words(program: str, **environment: str) -> list[list[str]]:
    return [[field.text for field in command.fields] for command in commands(program, **environment)]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("a b  c # d", [["a", "b", "c"]]),
        ("a 'x y' \"z w\" p\\ q", [["a", "x y", "z w", "p q"]]),
        ("a \\\n  --b \\\n  c", [["a", "--b", "c"]]),
        ('a \'{"k": 1}\' "{\\"k\\": 2}"', [["a", '{"k": 1}', '{"k": 2}']]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a 2>&1 >log <in x >>y z", [["a", "x", "z"]]),
        ("cat <<EOF\na b\nEOF\nc", [["cat"], ["c"]]),
        ("cat <<-'EOF'\n\ta b\n\tEOF\nc", [["cat"], ["c"]]),
        ("a $'x\\ty' $\"z\"", [["a", "x\ty", "z"]]),
        ("a #b c#d", [["a"]]),
        ("a c#d", [["a", "c#d"]]),
        ("a {{ .Values.x }} b", [["a", "{{ .Values.x }}", "b"]]),
    ],
)
def test_words(program, expected):
    assert words(program) == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("X=1; a $X ${X} \"$X\" '$X'", ["a", "1", "1", "1", "$X"]),
        ("X='b c'; a $X \"$X\"", ["a", "b", "c", "b c"]),
        ("a ${X:-d} ${X-e} ${E:-f} ${E-g}", ["a", "d", "e", "f"]),
        ("a ${X:-${Y:-z}}", ["a", "z"]),
        ("a ${X:=d} $X", ["a", "d", "d"]),
        ("X=1; a ${X:+w} ${E:+v}", ["a", "w"]),
        ("a $((2 * (3 + N)))", ["a", "10"]),
        ("A=(x 'y z'); A+=(w); a ${A[@]} \"${A[@]}\"", ["a", "x", "y", "z", "w", "x", "y z", "w"]),
        ("export X=1 Y=2; a $X$Y", ["a", "12"]),
        ("X=a; X+=b; c $X", ["c", "ab"]),
        ('set -- p q; a $1 "$@"', ["a", "p", "p", "q"]),
        ("a $(NAME)", ["a", "given"]),
        ("X=1 a $Y", ["a", "$Y"]),
    ],
)
def test_expansions(program, expected):
    assert words(program, E="", N="2", NAME="given")[-1] == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('if [ -z "$T" ]; then T=4; fi; a $T', "4"),
        ("T=2; if x; then T=4; fi; a $T", "$T"),
        ("if x; then T=4; else T=4; fi; a $T", "4"),
        ("if x; then T=4; elif y; then T=5; else T=6; fi; a $T", "$T"),
        ('T=1; case "$1" in --tp) T="$2";; esac; a $T', "1"),
        ("case x in a|b) T=1;; *) T=1;; esac; a $T", "1"),
        ("for T in 8; do a $T; done", "8"),
        ("for T in 1 2; do a $T; done", "$T"),
        ("T=1; (T=2); a $T", "1"),
        ("T=1; { T=2; }; a $T", "2"),
        ("T=$(nproc); a $T", "$T"),
        ("T=4; while read T; do :; done; a $T", "$T"),
        ("T=4; unset T; a $T", "$T"),
    ],
)
def test_a_variable_has_the_one_value_that_the_file_states(program, expected):
    assert words(program)[-1] == ["a", expected]


def test_inside_a_branch_its_own_assignments_count():
    assert ["vllm", "4"] in words('T=1\nif [ "$R" = 0 ]; then T=4; vllm $T; else vllm $T; fi')


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('f() { a "$1" ${2:-d}; }; f x', ["a", "x", "d"]),
        ('function f { a "$@"; }; f x y', ["a", "x", "y"]),
        ("T=1; f() { a $T; }; T=2; f", ["a", "2"]),
        ('f() { a "$1"; }', ["a", "$1"]),
    ],
    ids=["arguments", "all arguments", "values at the call", "never called"],
)
def test_functions(program, expected):
    assert words(program)[-1] == expected


def test_what_has_no_value_is_named():
    command = commands('a --x=$X "$Y" ${Z:+w} $OPTS "$@"')[0]
    assert [field.unknown for field in command.fields] == [(), ("X",), ("Y",), ("OPTS",), ("@",)]
    assert [field.open for field in command.fields] == [False, False, False, True, True]
    assert command.dropped == ("Z",)


def test_what_a_command_sets_for_itself_is_its_environment():
    assert commands("CUDA_VISIBLE_DEVICES=0,1 a")[0].environment == (("CUDA_VISIBLE_DEVICES", "0,1"),)


def test_words_have_their_places():
    program = 'A=(--x 1\n  --y)\n\nvllm serve m \\\n  --tp 2 "${A[@]}"\n'
    places = {field.text: tuple(field.place) for field in commands(program)[0].fields}
    assert places == {
        "vllm": (4, 1), "serve": (4, 6), "m": (4, 12), "--tp": (5, 3), "2": (5, 8), "--x": (1, 4), "1": (1, 8),
        "--y": (2, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [
        "A=x\n" + "A=$A$A\n" * 100 + "a $A",
        "A=(x y)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40 + 'a "${A[@]}"',
        "f() { f; f; }; f; a",
        "a " + "$(" * 50_000,
        "a " + "${x:-" * 20_000,
        "if x; then " * 20_000,
        "a $((" + "(" * 5000 + "))",
        "case x in a) " * 5000,
    ],
    ids=["doubling", "doubling array", "recursion", "substitutions", "braces", "ifs", "arithmetic", "cases"],
)
def test_a_hostile_program_ends(program):
    commands(program)
