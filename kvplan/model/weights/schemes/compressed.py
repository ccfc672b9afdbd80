"""compressed-tensors: config groups with targets, each with its own form."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Quantization
from kvplan.model.weights.forms import Form, Fp8, Int8, Microscaled, Nvfp4, Packed, Scale
from kvplan.model.weights.patterns import exact_or_pattern
from kvplan.model.weights.schemes.scheme import PLAIN, Scheme, names_of
from kvplan.model.weights.tensors import MODEL, Kind

_RENAMED = {
    "gpt_oss": (".self_attn.", ".attn.")
}  # what a model's class calls its modules; patterns are left as they are
_SCALES = ((3, "float32"), (3, MODEL))  # of query, key and value; their zero points


def compressed_tensors(section: Fields, quantization: Quantization) -> Scheme:
    """Return the scheme of llm-compressor's checkpoints: a form for each group of targets, by class or by name."""
    groups = section.maybe_section("config_groups")
    targets: list[tuple[str, Form]] = []
    certain = True
    for name in groups.names() if groups is not None else []:
        group = groups.maybe_section(name) if groups is not None else None
        wanted = names_of(group, "targets") if group is not None else []
        if group is None or (len(wanted) == 1 and wanted[0].endswith("Attention")):
            continue  # scales of the KV cache, not weights
        form = _compressed(group)
        certain = certain and form is not None
        targets += [(target, form or Packed(quantization.bits or 8, None, "compressed-tensors")) for target in wanted]
    old, new = _RENAMED.get(section.root.model_type or "", ("", ""))
    if old:
        targets = [(target.replace(old, new), form) for target, form in targets]
    ignored = exact_or_pattern(name.replace(old, new) for name in names_of(section, "ignore"))
    named = [(exact_or_pattern([target]), form) for target, form in targets]
    classes = [form for target, form in targets if target.lower() in ("linear", "fusedmoe", "routedexperts")]

    def choose(name: str, kind: Kind) -> Form:
        name = name.replace(old, new)
        if kind == "embedding" or ignored(name):
            return PLAIN
        found = next((form for matches, form in named if matches(name)), None)
        if found is None and kind != "head":
            found = classes[0] if classes else None
        return found or PLAIN

    return Scheme(choose, scales=_SCALES, certain=certain)


def _compressed(group: Fields) -> Form | None:
    """Return the form of one config group, or None where vLLM's kernels or these rules know none."""
    weights, inputs = group.maybe_section("weights"), group.maybe_section("input_activations")
    if weights is None:
        return None
    bits, strategy = weights.integer("num_bits", high=32), weights.maybe_text("strategy")
    floats = weights.maybe_text("type") == "float"
    size = weights.maybe_integer("group_size", low=-1)
    static = inputs is not None and not inputs.raw("dynamic")
    if floats and bits == 4:
        if size == 16:
            return Nvfp4(inputs="float32" if inputs is not None else None, names="compressed-tensors")
        return Microscaled(4, ("weight_packed", "weight_scale")) if size == 32 else None
    if floats and bits == 8 and strategy == "group" and size == 32:
        return Microscaled(8)
    if bits == 8 and (floats or inputs is not None):
        scale = _scale(weights, strategy)
        if scale is None:
            return None
        return Fp8(scale, inputs=static) if floats else Int8("channel" if scale == "channel" else "tensor", static)
    zero_points = not weights.flag("symmetric", default=True)
    packs = not floats and bits in (2, 3, 4, 8)
    return Packed(bits, size if size and size > 0 else None, "compressed-tensors", zero_points) if packs else None


def _scale(weights: Fields, strategy: str | None) -> Scale | None:
    block = weights.maybe_integers("block_structure", low=1)
    if strategy == "block" and block is not None and len(block) == 2:
        return (block[0], block[1])
    return "tensor" if strategy == "tensor" else "channel" if strategy == "channel" else None
