"""The language model that a rule is asked about: its config section with the figures that every rule needs."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.model.fields import Fields
from kvplan.model.spec import Shape
from kvplan.model.weights.scope import Scope
from kvplan.record import dataclass

LAYER = "model.layers.{}"


@dataclass(frozen=True, slots=True)
class Text:
    """A language model: its config section, what its family's reader made of it, and its architecture's name."""

    config: Fields
    shape: Shape
    architecture: str
    nested: bool = False

    @property
    def tied(self) -> bool:
        """Whether the embedding also projects; of a nested model the outer section says so, where it says anything."""
        own = self.flag("tie_word_embeddings")
        return self.config.root.flag("tie_word_embeddings", default=own) if self.nested else own

    @property
    def hidden(self) -> int:
        """The width of the residual stream."""
        return self.config.integer("hidden_size", "n_embd", "d_model", "n_embed")

    @property
    def intermediate(self) -> int:
        """The width of a dense layer's feed-forward part."""
        return self.same("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")

    @property
    def vocabulary(self) -> int:
        """The rows of the embedding."""
        return self.config.integer("vocab_size", "padded_vocab_size")

    @property
    def layers(self) -> range:
        """The layers' numbers."""
        return range(len(self.shape.layers))

    def same(self, *names: str) -> int:
        """Return a figure that some configs list layer by layer; the layers must agree."""
        listed = self.config.raw(names[0])
        if not isinstance(listed, list):
            return self.config.integer(*names)
        given = self.config.maybe_integers(names[0]) or [0]
        if len(set(given)) != 1:
            raise self.config.bad(names[0], "one width for all layers", listed)
        return given[0]

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a boolean field of the section."""
        return self.config.flag(*names, default=default)

    def at(self, name: str = LAYER, layers: Iterable[int] | None = None) -> Scope:
        """Return the place of these layers, of all by default."""
        return Scope(f"{name}.", tuple(self.layers if layers is None else layers))
