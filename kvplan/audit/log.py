"""What a vLLM start-up log says: the release, the model and its flags, and the memory lines in their several wordings.

Wordings: V0 (`Memory profiling takes … the rest of the memory reserved for KV Cache is …`), V1 to 0.26 (`Actual usage
is … for weight, …`), from 0.27 (`consumed memory (weights + non-torch)`), and tokens on two lines or, from 0.28, on
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.audit.lines import clean_lines

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_COUNT = r"([0-9][0-9,]*)"

# Each wording of each figure; the first group of a pattern is the figure. All in GiB unless they are counts.
_FIGURES: Mapping[str, tuple[str, ...]] = {
    "total_gib": (
        rf"Free memory on device[^(]*\({_NUMBER}/(?P<second>[0-9.]+) GiB\)",
        rf"total_gpu_memory \({_NUMBER}GiB\)",
    ),
    "utilization": (
        rf"(?:Desired GPU memory utilization is|desired GPU memory utilization) \({_NUMBER},",
        rf"gpu_memory_utilization \({_NUMBER}\)",
    ),
    "requested_gib": (
        rf"[Dd]esired GPU memory utilization (?:is )?\([0-9.]+, {_NUMBER} GiB\)",
        rf"gpu_memory_utilization \([0-9.]+\) = {_NUMBER}GiB",
    ),
    "load_gib": (
        rf"Model loading took {_NUMBER} Gi?B",
        rf"model weights take {_NUMBER}GiB",
        rf"Actual usage is {_NUMBER} GiB for weight,",
    ),
    "consumed_gib": (rf"Actual usage is {_NUMBER} GiB for consumed memory",),
    "activation_gib": (
        rf"{_NUMBER} GiB for peak activation",
        rf"PyTorch activation peak memory takes {_NUMBER}GiB",
    ),
    "non_torch_gib": (rf"{_NUMBER} GiB for non-torch memory", rf"non_torch_memory takes {_NUMBER}GiB"),
    "graphs_gib": (
        rf"Graph capturing finished in [0-9.]+ secs?, took {_NUMBER} GiB",
        rf"CUDA graph pool memory: {_NUMBER} GiB \(actual\)",
        rf"and {_NUMBER} GiB for CUDAGraph memory",
    ),
    "graphs_estimate_gib": (
        rf"\(actual\), {_NUMBER} GiB \(estimated\)",
        rf"Estimated CUDA graph memory: {_NUMBER} GiB",
    ),
    "kv_gib": (
        rf"Available KV cache memory: {_NUMBER} GiB",
        rf"reserved for KV Cache is {_NUMBER}GiB",
        rf"Current kv cache memory in use is {_NUMBER} GiB",
    ),
    "tokens": (rf"KV cache size: {_COUNT} tokens",),
    "concurrency": (rf"Maximum concurrency for [0-9,]+ tokens per request: {_NUMBER}x",),
    "concurrency_len": (rf"Maximum concurrency for {_COUNT} tokens per request",),
    "blocks": (rf"# (?:GPU|cuda|CUDA) blocks: {_COUNT}", rf"num_gpu_blocks(?: is)?[:=] ?{_COUNT}"),
    "needed_gib": (rf"\({_NUMBER} Gi?B KV cache is needed",),
    "left_gib": (rf"available KV cache memory \({_NUMBER} Gi?B\)",),
    "estimated_len": (rf"estimated maximum model length is {_COUNT}",),
}
_PATTERNS = {name: tuple(re.compile(text) for text in texts) for name, texts in _FIGURES.items()}
_FREE = re.compile(rf"Free memory on device[^(]*\({_NUMBER}/")
_RELEASE = re.compile(
    r"(?:vLLM API server version|Initializing an? (?:V1 )?(?:LLM )?engine \(v|vLLM version|\bvllm version[ :=]+)\s*v?"
    r"([0-9]+\.[0-9]+(?:\.[0-9]+)?[0-9A-Za-z.+]*)",
    re.IGNORECASE,
)
_REFUSALS = {
    "free_memory_below_request": "is less than desired GPU memory utilization",
    "no_kv_memory": "No available memory for the cache blocks",
    "max_model_len_does_not_fit": "KV cache is needed, which is larger than",
}
_WARM = ("Directly load the compiled graph", "Directly load AOT compilation", "loaded from cache")
_COLD = ("Compiling a graph for", "torch.compile takes", "Dynamo bytecode transform time")
_ARGS_MARKS = ("non-default args", "args: ", "Namespace(", "vllm serve", "api_server", "with config:")

# The engine's own names in its configuration line, and what a flag of them is called.
_FLAGS: Mapping[str, tuple[str, str]] = {
    "tensor_parallel_size": ("tensor_parallel_size", "int"),
    "pipeline_parallel_size": ("pipeline_parallel_size", "int"),
    "data_parallel_size": ("data_parallel_size", "int"),
    "max_seq_len": ("max_model_len", "int"),
    "max_model_len": ("max_model_len", "int"),
    "max_num_seqs": ("max_num_seqs", "int"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "int"),
    "gpu_memory_utilization": ("gpu_memory_utilization", "float"),
    "kv_cache_dtype": ("kv_cache_dtype", "word"),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", "int"),
    "dtype": ("dtype", "word"),
    "quantization": ("quantization", "word"),
    "enforce_eager": ("enforce_eager", "bool"),
    "enable_lora": ("enable_lora", "bool"),
    "max_loras": ("max_loras", "int"),
    "max_lora_rank": ("max_lora_rank", "int"),
    "block_size": ("block_size", "int"),
}
_VALUES = {
    "int": re.compile(r"[0-9]{1,12}"),
    "float": re.compile(r"[0-9]*\.?[0-9]{1,12}"),
    "word": re.compile(r"(?:torch\.)?([A-Za-z][A-Za-z0-9_\-]{0,40})"),
    "bool": re.compile(r"True|False"),
}
_NAMED = {
    name: re.compile(
        rf"(?<![A-Za-z_])['\"]?(?:--)?{name.replace('_', '[_-]')}['\"]?\s*(?:[:=]\s*|\s)['\"]?([^\s,'\"\)\}}]+)"
    )
    for name in _FLAGS
}
_SWITCHES = {
    name: re.compile(rf"--{name.replace('_', '-')}(?![-\w=])") for name, (_, kind) in _FLAGS.items() if kind == "bool"
}
_MODEL = re.compile(
    r"(?<![A-Za-z_])['\"]?(?:--)?model(?:_tag)?['\"]?\s*[:=]\s*['\"]([^'\"]{1,200})['\"]"
    r"|vllm serve\s+['\"]?([A-Za-z0-9][\w./-]{0,199})|--model[ =]['\"]?([\w./-]{1,200})"
)
# A line without any of these holds nothing of interest
_RELEVANT = re.compile(r"Gi?B|tokens|blocks|args|engine|vllm|batched|compil|graph|Namespace", re.IGNORECASE)
_MOST = 1e9  # no figure of a start-up is larger
_BATCH = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class StartLog:
    """What was found; None is what the log does not say.

    Sizes are GiB as printed, of the lowest rank that printed them; `flags` are engine arguments by kvplan's names;
    `refusal` the code of the start-up failure that the log ends in; `cold` whether kernels were compiled in this
    start.
    """

    release: str | None = None
    model: str | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    refusal: str | None = None
    cold: bool | None = None
    engine: str = "vllm"

    def get(self, name: str) -> float | None:
        """Return a figure, None where the log does not print it."""
        return self.figures.get(name)


def read_log(text: str) -> StartLog:
    """Read a start-up log; what is not there is left out, and nothing is guessed."""
    figures: dict[str, tuple[int, float]] = {}
    flags: dict[str, object] = {}
    ranks: set[int] = set()
    release = model = refusal = None
    cold: bool | None = None
    for line in clean_lines(text):
        if line.rank is not None:
            ranks.add(line.rank)
        if _RELEVANT.search(line.text) is None:
            continue
        for name, value in _figures_of(line.text):
            rank = line.rank if line.rank is not None else 0
            if name not in figures or rank < figures[name][0]:
                figures[name] = (rank, value)
        release = release or _first(_RELEASE, line.text)
        refusal = next((code for code, words in _REFUSALS.items() if words in line.text), refusal)
        if any(words in line.text for words in _WARM):
            cold = False
        elif cold is None and any(words in line.text for words in _COLD):
            cold = True
        if (batch := _first(_BATCH, line.text)) is not None:
            flags.setdefault("max_num_batched_tokens", int(batch))
        if any(mark in line.text for mark in _ARGS_MARKS):
            flags = _flags_of(line.text) | flags
            model = model or _first(_MODEL, line.text)
    return StartLog(
        release=None if release is None else release.rstrip(".)"),
        model=model,
        flags=flags,
        figures={name: value for name, (_, value) in figures.items()},
        ranks=tuple(sorted(ranks)),
        refusal=refusal,
        cold=cold,
    )


def _figures_of(text: str) -> list[tuple[str, float]]:
    found = []
    for name, patterns in _PATTERNS.items():
        for pattern in patterns:
            match = pattern.search(text)
            if match is None:
                continue
            value = match.groupdict().get("second") or match[1]
            found.append((name, float(value.replace(",", ""))))
            break
    free = _FREE.search(text)
    if free is not None:
        found.append(("free_gib", float(free[1])))
    return [(name, value) for name, value in found if abs(value) < _MOST]


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else next((group for group in match.groups() if group), None)


def _flags_of(text: str) -> dict[str, object]:
    """Return the flags that a line of arguments or of the engine's configuration gives; `None` and `auto` are none."""
    found: dict[str, object] = {}
    for name, (flag, kind) in _FLAGS.items():
        match = _NAMED[name].search(text)
        value = _VALUES[kind].match(match[1]) if match is not None else None
        if kind == "bool" and value is None and _SWITCHES[name].search(text):
            found[flag] = True
        if value is None or value[0] in ("None", "auto"):
            continue
        word = value[1] if kind == "word" else value[0]
        if word != "auto":
            found[flag] = _typed(kind, word)
    return found


def _typed(kind: str, word: str) -> object:
    if kind == "bool":
        return word == "True"
    return int(word) if kind == "int" else float(word) if kind == "float" else word
