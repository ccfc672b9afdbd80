"""Reading a config section by field name, with every value checked and every assumption recorded.

A config.json is data from a stranger: a field may be missing, null, of another type, negative or absurd. A missing
field falls back to the documented default of the config's class (profiles/configs/<model_type>.yaml, loaded only
then), and that is recorded; without one it is an error that names the field. There is no silent guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from kvplan.assets import PROFILES
from kvplan.errors import InvalidConfig
from kvplan.model.spec import Assumed
from kvplan.profile import load as load_profile

MAX_LAYERS = 2048  # the deepest model served has 126 layers; more than this is a mistake or an attack
MAX_SIZE = 2**24  # the widest field here, a vocabulary, stays under 2**20
_T = TypeVar("_T")


@lru_cache(maxsize=8)
def class_profile(model_type: str) -> Mapping[str, Any]:
    """Return what is known of the config class of `model_type` (profiles/configs); empty where nothing is.

    `defaults` are the values that the class supplies, `source` where they were taken from, `sections` the model type
    that the class gives to a nested section which names none.
    """
    path = PROFILES / "configs" / f"{model_type}.yaml"
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", model_type) or not path.is_file():
        return {}
    return load_profile(path)


class Fields:
    """One section of a config: values by name, checked. `root` is the outermost section, `where` names this one.

    `inside` says that a multimodal wrapper has handed this section on to the reader of its language model.
    """

    __slots__ = ("_as_type", "_assumed", "_data", "_defaults", "inside", "root", "where")

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        where: str = "",
        root: Fields | None = None,
        defaults: Mapping[str, Any] | None = None,
        as_type: str = "",
        inside: bool = False,
    ) -> None:
        self._data = data
        self.where = where
        self.root: Fields = root if root is not None else self
        self._assumed: dict[str, Assumed] = {} if root is None else root._assumed  # noqa: SLF001  # of this class
        self._defaults = defaults
        self._as_type = as_type
        self.inside = inside

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """What was read from a class default so far, in the whole config."""
        return tuple(self._assumed.values())

    @property
    def model_type(self) -> str:
        """The section's model_type, or an empty string; the one that an outer class gave it comes first."""
        value = self._as_type or self._data.get("model_type")
        return value if isinstance(value, str) else ""

    def has(self, *names: str) -> bool:
        """Say whether any of the names is given and not null (class defaults do not count)."""
        return any(self._data.get(name) is not None for name in names)

    def raw(self, name: str) -> Any:
        """Return the value as it stands, or None."""
        return self._data.get(name)

    def names(self) -> list[str]:
        """Return the names of the fields that are given."""
        return [name for name in self._data if isinstance(name, str)]

    def mapping(self) -> Mapping[str, Any]:
        """Return the section as it stands."""
        return self._data

    def path(self, name: str) -> str:
        """Return the field's name with its section, for messages."""
        return f"{self.where}.{name}" if self.where else name

    # -- checked values -----------------------------------------------------------------------------------------------

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """Return the first of the named fields as an integer in [low, high]; an error names the field."""
        found = self.maybe_integer(*names, low=low, high=high)
        if found is not None:
            return found
        if default is None:
            raise self.lacks(*names)
        return default

    def maybe_integer(self, *names: str, low: int = 1, high: int = MAX_SIZE) -> int | None:
        """Return the first of the named fields as an integer in [low, high], or None where all are missing."""

        def check(name: str, value: Any) -> int:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int):
                raise self.bad(name, "an integer", value)
            if not low <= value <= high:
                raise self.bad(name, f"between {low} and {high}", value)
            return value

        return self._first(names, check)

    def maybe_number(self, *names: str) -> float | None:
        """Return the first of the named fields as a finite number, or None."""

        def check(name: str, value: Any) -> float:
            if isinstance(value, bool) or not isinstance(value, int | float) or not -1e30 < value < 1e30:
                raise self.bad(name, "a finite number", value)
            return float(value)

        return self._first(names, check)

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return the first of the named fields as a boolean; `default` where all are missing."""

        def check(name: str, value: Any) -> bool:
            if value in (0, 1):  # some exporters write numbers
                return bool(value)
            raise self.bad(name, "true or false", value)

        found = self._first(names, check)
        return default if found is None else found

    def maybe_text(self, *names: str) -> str | None:
        """Return the first of the named fields as a string, or None."""

        def check(name: str, value: Any) -> str:
            if not isinstance(value, str):
                raise self.bad(name, "a string", value)
            return value

        return self._first(names, check)

    def maybe_texts(self, *names: str, high: int = MAX_LAYERS) -> list[str] | None:
        """Return the first of the named fields as a list of strings, or None."""

        def check(name: str, value: Any) -> list[str]:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(value) > high:
                raise self.bad(name, "a list of strings", value)
            return value

        return self._first(names, check)

    def maybe_integers(
        self, *names: str, low: int = 0, high: int = MAX_SIZE, count: int = MAX_LAYERS, exactly: int | None = None
    ) -> list[int] | None:
        """Return the first of the named fields as a list of integers in [low, high], or None.

        There are at most `count` of them, or `exactly` so many.
        """

        def check(name: str, value: Any) -> list[int]:
            whole = isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
            if not whole or len(value) > count or not all(low <= item <= high for item in value):
                raise self.bad(name, f"a list of integers between {low} and {high}", value)
            if exactly is not None and len(value) != exactly:
                raise self.bad(name, f"a list of {exactly} integers", value)
            return list(value)

        return self._first(names, check)

    def maybe_side(self, name: str) -> int | None:
        """Return a side of a square, which some configs write as a pair; None where it is not given."""
        pair = self.maybe_integers(name, low=1) if isinstance(self.raw(name), list) else None
        return pair[0] if pair else self.maybe_integer(name)

    def side(self, name: str) -> int:
        """Return a side of a square; raises InvalidConfig where it is not given."""
        found = self.maybe_side(name)
        if found is None:
            raise self.lacks(name)
        return found

    def maybe_section(self, *names: str) -> Fields | None:
        """Return the first of the named fields as a section of its own, or None."""
        for name in names:
            value = self._data.get(name)
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise self.bad(name, "an object", value)
            return Fields(value, where=self.path(name), root=self.root)
        return None

    def section_type(self, name: str) -> str:
        """Return the model type that this section's config class gives to a nested section; empty where unknown."""
        sections = class_profile(self.model_type).get("sections", {}) if self.model_type else {}
        return str(sections.get(name, ""))

    def as_type(self, model_type: str) -> Fields:
        """Return this section with the class defaults of another model type (flat configs of nested classes)."""
        return Fields(self._data, where=self.where, root=self.root, defaults=self._defaults, as_type=model_type)

    def handed_on(self) -> Fields:
        """Return this section as a wrapper hands it on to the reader of its language model."""
        return Fields(
            self._data,
            where=self.where,
            root=self.root,
            defaults=self._defaults,
            as_type=self._as_type,
            inside=True,
        )

    def layers(self, *names: str) -> int:
        """Return the number of layers."""
        return self.integer(*(names or ("num_hidden_layers",)), high=MAX_LAYERS)

    # -- errors -------------------------------------------------------------------------------------------------------

    def lacks(self, *names: str) -> InvalidConfig:
        """Return the error for a field that is needed and missing."""
        given = ", ".join(sorted(self.names())[:12])
        wanted = " or ".join(self.path(name) for name in names)
        return InvalidConfig(f"config.json lacks {wanted}", f"it gives: {given}" if given else "it is empty")

    def bad(self, name: str, wanted: str, value: Any) -> InvalidConfig:
        """Return the error for a field whose value is not what it must be."""
        shown = repr(value) if isinstance(value, bool | int | float | str) else type(value).__name__
        shown = shown if len(shown) <= 60 else shown[:57] + "…"
        return InvalidConfig(f"config.json: {self.path(name)} must be {wanted}, not {shown}")

    def contradicts(self, *names: str, why: str) -> InvalidConfig:
        """Return the error for fields that cannot be true together."""
        return InvalidConfig(f"config.json: {' and '.join(self.path(name) for name in names)} contradict: {why}")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _first(self, names: tuple[str, ...], check: Callable[[str, Any], _T]) -> _T | None:
        for name in names:
            value = self._data.get(name)
            if value is not None:
                return check(name, value)
        if any(name in self._data for name in names):
            return None  # an explicit null says "none": the class default does not apply
        defaults, source = self._class_defaults()
        for name in names:
            value = defaults.get(name)
            if value is not None:
                found = check(name, value)
                path = self.path(name)
                self._assumed[path] = Assumed(path, found, source)
                return found
        return None

    def _class_defaults(self) -> tuple[Mapping[str, Any], str]:
        if self._defaults is not None:
            return self._defaults, "given"
        profile = class_profile(self.model_type) if self.model_type else {}
        return profile.get("defaults", {}), profile.get("source", "")
