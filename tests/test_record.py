"""The package's own `dataclass` does what the standard one does, for frozen classes with slots."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import field

import pytest

from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Two figures, one with a default."""

    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = "p"
    notes: Mapping[str, int] = field(default_factory=dict, hash=False)
    secret: str = field(default="s", repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    it: object


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True)
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("negative")


@dataclass(slots=True)
class Open:
    count: int = 0


# The same classes by the standard decorator
def standard(cls: type) -> type:
    body = {name: value for name, value in cls._record.items() if value is not dataclasses.MISSING}
    annotations = {f.name: f.type for f in dataclasses.fields(cls)}
    return dataclasses.dataclass(frozen=True, slots=True)(
        type(cls.__name__, (), body | {"__annotations__": annotations, "__module__": cls.__module__})
    )


def test_made_by_position_name_and_default():
    assert (Point(1).x, Point(1).y, Point(x=3, y=4).sum) == (1, 2, 7)
    assert Named(1, 2, "n").notes == {}
    assert Named(1).notes is not Named(1).notes
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)


def test_equal_and_hashed_by_value():
    assert Point(1) == Point(1, 2) != Point(1, 3)
    assert hash(Point(1)) == hash(Point(1, 2)) == hash(standard(Point)(1, 2))
    assert Named(1, notes={"a": 1}) != Named(1)
    assert hash(Named(1, notes={"a": 1})) == hash(Named(1))
    assert Named(1, secret="t") == Named(1)
    assert Point(1) != (1, 2)
    assert Named(1) != Point(1)
    assert len({Empty(), Empty()}) == 1
    held = object()
    assert Single(held) != Single(held)


@pytest.mark.parametrize("one", [Point(1), Named(2, notes={"a": 1}), Single(None), Empty(), Checked(3)])
def test_shown_copied_replaced_and_taken_apart(one):
    made = standard(type(one))(**{f.name: getattr(one, f.name) for f in dataclasses.fields(one)})
    assert repr(one) == repr(made)
    assert dataclasses.asdict(one) == dataclasses.asdict(made)
    assert [f.name for f in dataclasses.fields(one)] == [f.name for f in dataclasses.fields(made)]
    assert dataclasses.is_dataclass(one)
    for twin in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one)), dataclasses.replace(one)):
        assert repr(twin) == repr(one)
        assert type(twin) is type(one)


def test_replace_names_what_it_does_not_know():
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    with pytest.raises(TypeError):
        dataclasses.replace(Point(1), z=5)


def test_frozen_and_without_a_dictionary():
    one = Point(1)
    for change in (lambda: setattr(one, "x", 2), lambda: setattr(one, "z", 2), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert not hasattr(one, "__dict__")
    assert Named.__slots__ == ("name", "notes", "secret")


def test_patterns():
    match Named(7, 8):
        case Point(x, y):
            assert (x, y) == (7, 8)


def test_checked_when_made():
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_a_mutable_default_is_refused():
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True, slots=True)
        class Shared:
            names: list[str] = []  # noqa: RUF012


def test_what_may_change_is_left_to_the_standard_decorator():
    one = Open()
    one.count += 1
    assert one.count == 1


def test_no_record_of_the_hot_path_compiles_more_than_it_makes():
    """A class of the start of `kvplan size` is a record, or is on the list of those that may change."""
    code = (
        "import dataclasses as d, sys\n"
        "made = []\n"
        "own = d._process_class\n"
        "d._process_class = lambda cls, *a: (made.append(cls.__module__), own(cls, *a))[1]\n"
        "from kvplan.cli import run\n"
        "run(['size', 'meta-llama/Llama-3.1-8B', '--gpu', 'h100-sxm'])\n"
        "sys.stderr.write(' '.join(name for name in made if name.startswith('kvplan')))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(found.stderr.split()) <= 8, found.stderr
