"""The activation probe: the tensors that one decoder layer and the sampler hold at once, from a model's own widths.

Phases in the order of a forward pass, each a list of tensor sizes that are alive together; the peak is the largest sum.
The device makes them with real matrix products, and measures; here they are counted. As in vLLM 0.33: attention output
and residual, gate, up and their product of a compiled MLP or the two workspaces of an expert kernel, then logits with a
float32 copy, its masked copy and the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Probe:
    """Widths of one rank, in elements: `tokens` a step, `sequences` with logits.

    `mlp` is the dense MLP's width (0: none), `per_token` experts of width `expert` (0: none), whose workspace stays
    after the profile run where it is `kept`, and is then no activation. `expanded` and `expanded_tokens` are MLA's keys
    and values of all heads for a prefill workspace (0: none). `item` bytes an element.
    """

    tokens: int
    sequences: int
    hidden: int
    projected: int
    mlp: int
    per_token: int
    expert: int
    kept: bool
    expanded: int
    expanded_tokens: int
    vocabulary: int
    item: int

    def phases(self) -> dict[str, int]:
        """Return the bytes that are alive in each phase."""
        rows = self.tokens * self.item
        experts = 0 if self.kept else self.per_token * sum(self.workspace())
        logits = self.sequences * self.vocabulary
        return {
            "attention": rows * (2 * self.hidden + self.projected),
            "mlp": rows * (3 * self.hidden + 3 * self.mlp) if self.mlp else 0,
            "experts": rows * (2 * self.hidden + experts) if self.per_token else 0,
            "expanded": rows * 2 * self.hidden + self.expanded_tokens * self.expanded * self.item,
            "logits": rows * self.hidden + self.sequences * self.hidden * self.item + logits * (self.item + 12),
        }

    def workspace(self) -> tuple[int, int]:
        """Return the elements of the two workspaces of an expert kernel, for one token and expert."""
        return max(2 * self.expert, self.hidden), max(self.expert, self.hidden)

    def peak(self) -> int:
        """Return the bytes of the largest phase."""
        return max(self.phases().values())

    def scaled(self, tokens: int, sequences: int, widths: int) -> Probe:
        """Return a smaller probe: that many tokens and sequences at most, widths divided (16 at least)."""

        def cut(width: int) -> int:
            return max(16, width // widths) if width else 0

        return replace(
            self,
            tokens=min(self.tokens, tokens),
            sequences=min(self.sequences, sequences),
            hidden=cut(self.hidden),
            projected=cut(self.projected),
            mlp=cut(self.mlp),
            expert=cut(self.expert),
            expanded=cut(self.expanded),
            expanded_tokens=min(self.expanded_tokens, 4 * tokens),
            vocabulary=cut(self.vocabulary),
        )
