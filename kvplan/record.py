"""`dataclass` for this package's records, frozen and with slots, without compiling six functions a class.

The standard decorator writes and compiles source for each class, at each start: that took half of `kvplan size`. Here a
class gets plain closures for `__eq__` and `__hash__`, shares the rest, and its `__init__` is compiled when the first
instance is made. `dataclasses.fields`, `replace`, `asdict`, copies and patterns work as ever, and type checkers see the
standard decorator. Class variables, `init=False` and keyword-only fields are not supported: no record has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from dataclasses import dataclass
else:
    import dataclasses
    import inspect  # the standard decorator's module has it loaded
    from operator import attrgetter

    _MISSING = dataclasses.MISSING

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Return the decorator; a class that is not frozen, or has no slots, is left to the standard one."""
        if not (frozen and slots):
            return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq)
        return lambda cls: _made(cls, eq=eq)

    def _made(cls: type, *, eq: bool) -> type:
        """Return the class again, with slots; `_record` holds a field's default or field(), or that it has none."""
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= base.__dict__.get("_record", {})
        own = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
        mine = {name: own.pop(name, _MISSING) for name in own.get("__annotations__", ())}
        every = inherited | mine
        if any(type(value).__hash__ is None for value in mine.values()):
            raise ValueError(f"{cls.__qualname__}: a mutable default is shared by all instances, use default_factory")
        own |= _SHARED | {
            "_record": every,
            "__slots__": tuple(name for name in mine if name not in inherited),
            "__match_args__": tuple(every),
            "__dataclass_fields__": _Fields(),
        }
        own.setdefault("__repr__", _repr)
        if eq:
            compared = [name for name, value in every.items() if getattr(value, "compare", True)]
            hashed = [name for name in compared if getattr(every[name], "hash", None) is not False]
            own["__eq__"] = _equality(_getter(compared))
            own["__hash__"] = _hash(_getter(hashed))
        made = type(cls)(cls.__name__, cls.__bases__, own)
        made.__qualname__ = cls.__qualname__
        made.__init__ = _first(made, every)
        return made

    def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
        """Return a function from a record to the values of these fields."""
        return attrgetter(*names) if names else type

    def _equality(key: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        def __eq__(self: Any, other: object) -> Any:  # noqa: N807  # put into a class
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _hash(key: Callable[[Any], Any]) -> Callable[[Any], int]:
        def __hash__(self: Any) -> int:  # noqa: N807  # put into a class
            return hash(key(self))

        return __hash__

    def _first(made: type, every: Mapping[str, Any]) -> Callable[..., None]:
        """Return an `__init__` that sets fields one by one, until it compiles a better one into its own place.

        It does so for the third instance, since most classes of a start have fewer, and for arguments that do not fit.
        """
        left = 2

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # put into a class
            nonlocal left
            left -= 1
            if left < 0 or not _set_one_by_one(self, every, args, kwargs):
                made.__init__ = _compiled(made, every)
                made.__init__(self, *args, **kwargs)

        return __init__

    def _set_one_by_one(self: Any, every: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Set all fields; False, and some are set, where the arguments are not those of the fields."""
        if hasattr(self, "__post_init__") or len(args) > len(every):
            return False
        own, named = type(self), 0
        for index, (name, value) in enumerate(every.items()):
            if index < len(args):
                given = args[index]
            elif name in kwargs:
                given, named = kwargs[name], named + 1
            elif isinstance(value, dataclasses.Field):
                given = value.default if value.default_factory is _MISSING else value.default_factory()
            else:
                given = value
            if given is _MISSING:
                return False
            getattr(own, name).__set__(self, given)
        return named == len(kwargs)

    def _compiled(made: type, every: Mapping[str, Any]) -> Callable[..., None]:
        """Return an `__init__` with a parameter a field, which sets the slots themselves."""
        known: dict[str, Any] = {"_missing": _MISSING}
        parameters, lines = [], []
        for name, value in every.items():
            known[f"_set_{name}"] = getattr(made, name).__set__
            is_field = isinstance(value, dataclasses.Field)
            default = value.default if is_field else value
            if is_field and value.default_factory is not _MISSING:
                known[f"_make_{name}"] = value.default_factory
                parameters.append(f"{name}=_missing")
                lines.append(f" _set_{name}(self, _make_{name}() if {name} is _missing else {name})")
                continue
            known[f"_default_{name}"] = default
            parameters.append(name if default is _MISSING else f"{name}=_default_{name}")
            lines.append(f" _set_{name}(self, {name})")
        if hasattr(made, "__post_init__"):
            lines.append(" self.__post_init__()")
        source = "\n".join([f"def __init__(self, {', '.join(parameters)}):", *(lines or [" pass"])])
        exec(source, known)  # noqa: S102  # made of the names of our own fields
        return known["__init__"]

    def _repr(self: Any) -> str:
        shown = [name for name, value in self._record.items() if getattr(value, "repr", True)]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def _refuse_to_set(_self: Any, name: str, _value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(_self: Any, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in self._record]

    def _restore(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(self._record, state, strict=True):
            getattr(type(self), name).__set__(self, value)

    _SHARED = {
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
    }

    class _Fields:
        """`__dataclass_fields__`, made by the standard decorator when something first asks for it."""

        def __get__(self, _instance: object, owner: type) -> Mapping[str, dataclasses.Field[Any]]:
            annotations: dict[str, Any] = {}
            for base in reversed(owner.__mro__):
                annotations |= inspect.get_annotations(base) if "_record" in base.__dict__ else {}
            body = {name: value for name, value in owner._record.items() if value is not _MISSING}  # noqa: SLF001
            # with a docstring, the decorator does not make one of the signature, which takes 5 ms
            body |= {"__annotations__": annotations, "__module__": owner.__module__, "__doc__": owner.__doc__ or "-"}
            twin = type(owner.__name__, (), body)
            standard = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)
            owner.__dataclass_fields__ = standard(twin).__dataclass_fields__
            return owner.__dataclass_fields__


__all__ = ["dataclass"]
