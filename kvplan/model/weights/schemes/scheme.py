"""What every quantisation method answers: the form of a module by its name and kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Plain
from kvplan.model.weights.patterns import Matcher
from kvplan.model.weights.tensors import MODEL, Kind
from kvplan.record import dataclass

PLAIN = Plain()
Choose: TypeAlias = Callable[[str, Kind], Form]
KV_SCALES = ((4, MODEL),)  # of query, key, value and probabilities
# compute capability of the card: some kernels want their experts padded
Capability: TypeAlias = tuple[int, int]
HOPPER: Capability = (9, 0)  # what is planned for where no card is named
_MAX_NAMES = 20_000  # the longest list of a public checkpoint has 2,000


@dataclass(frozen=True, slots=True)
class Scheme:
    """`choose` gives the form of a module; `scales` are those that an attention layer gets: how many, of which dtype.

    `latent`: so does one of latent attention. `certain` is false where the method or its parameters are not known: the
    form is then a guess by its bits.
    """

    choose: Choose
    scales: tuple[tuple[int, str], ...] = ()
    latent: bool = False
    certain: bool = True

    @property
    def scaled(self) -> tuple[str, ...]:
        """The endings of the names of the scales that get more of them."""
        return (".attn._scales", ".mla_attn._scales") if self.latent else (".attn._scales",)


# None: the section's parameters are not known
Reader: TypeAlias = Callable[[Fields, Quantization], Scheme | None]


UNQUANTISED = Scheme(lambda _name, _kind: PLAIN)


def nothing(_name: str) -> bool:
    """Match no name."""
    return False


def one_form(form: Form, skip: Matcher = nothing, *, head: bool = False) -> Choose:
    """Give linear layers and experts one form, and the output head where `head`, but for those that `skip` matches."""
    return partial(_one_form, form, skip, head)


def _one_form(form: Form, skip: Matcher, head: bool, name: str, kind: Kind) -> Form:  # noqa: FBT001  # partial's
    if kind == "embedding" or (kind == "head" and not head) or skip(name):
        return PLAIN
    return form


def routed(name: str) -> str:
    """Return the name by which the engine knows the module of all of a layer's experts."""
    before, found, _ = name.partition(".experts")
    return before + found


def names_of(section: Fields, *names: str) -> list[str]:
    """Return the first of the named lists of modules; empty where there is none."""
    return section.maybe_texts(*names, high=_MAX_NAMES) or []
