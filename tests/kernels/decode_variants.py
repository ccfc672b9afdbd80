"""The variants of the decode kernel that are compiled for every chip: each pair of values of any two axes occurs.

`row` is the head dim, K/V where they differ; mla is 512 + 64. Features are off where not named.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = """
row      group  cache  page  span    features
64       32     bf16   64    chunk   sinks split wide
64       4      fp16   16    all     softcap head_scales
64       1      e4m3   32    window  sinks
64       32     e5m2   128   window  softcap head_scales split wide
80       1      bf16   32    chunk   softcap head_scales split
80       4      fp16   128   all     sinks wide
80       32     e4m3   64    window  softcap head_scales
80       1      e5m2   16    chunk   sinks wide
96       4      bf16   32    all     softcap split wide
96       32     fp16   16    window  sinks head_scales split
96       1      e4m3   128   chunk   sinks softcap head_scales
96       4      e5m2   64    window  split
128      32     bf16   128   window  sinks wide
128      1      fp16   64    all     softcap head_scales split
128      4      e4m3   16    chunk   softcap split wide
128      32     e5m2   32    all     sinks
192      1      bf16   16    window  softcap
192      4      fp16   128   chunk   sinks head_scales split wide
192      32     e4m3   32    all     sinks softcap head_scales
192      32     e5m2   64    window  softcap head_scales split wide
192/128  4      bf16   128   window  sinks split wide
192/128  32     fp16   32    chunk   softcap head_scales
192/128  1      e4m3   16    all     sinks head_scales split
192/128  1      e5m2   64    all     sinks softcap wide
256      32     bf16   128   all     split wide
256      4      fp16   64    window  sinks softcap head_scales
256      1      e4m3   16    chunk   sinks split wide
256      4      e5m2   32    chunk   head_scales split
512      4      bf16   16    window  head_scales split
512      32     fp16   64    all     sinks softcap wide
512      1      e4m3   32    chunk   sinks softcap split wide
512      1      e5m2   128   chunk   sinks softcap head_scales split wide
mla      16     bf16   64    chunk   sinks split wide
mla      128    bf16   32    window  softcap head_scales
mla      16     fp16   16    all     softcap head_scales
mla      128    fp16   128   all     split wide
mla      16     e4m3   32    window  softcap head_scales split wide
mla      128    e4m3   64    chunk   sinks wide
mla      16     e5m2   128   chunk   wide
mla      128    e5m2   16    all
"""
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
FEATURES = ("sinks", "softcap", "head_scales", "split", "wide")


@dataclass(frozen=True, slots=True)
class Variant:
    row: str
    group: int
    cache: str
    page: int
    span: str
    features: frozenset[str]

    @property
    def name(self):
        return f"{self.row} x{self.group} {self.cache}"

    @property
    def latent(self):
        return self.row == "mla"

    @property
    def key(self):
        return 576 if self.latent else int(self.row.split("/")[0])

    @property
    def value(self):
        return 512 if self.latent else int(self.row.split("/")[-1])

    @property
    def dtype(self):
        return DTYPES[self.cache]

    def axes(self):
        """Every axis with this variant's value."""
        named = {"row": self.row, "group": self.group, "cache": self.cache, "page": self.page, "span": self.span}
        return named | {feature: feature in self.features for feature in FEATURES}


def _read():
    for line in TABLE.split("\n")[2:-1]:
        row, group, cache, page, span, *features = line.split()
        yield Variant(row, int(group), cache, int(page), span, frozenset(features))


VARIANTS = {variant.name: variant for variant in _read()}
