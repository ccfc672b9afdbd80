"""What a vLLM start-up log says: the release, the model and its flags, and the memory lines in their several wordings.

Figures: V0 (`Memory profiling takes … the rest of the memory reserved for KV Cache is …`), V1 to 0.26 (`Actual usage
is … for weight, …`), from 0.27 (`consumed memory (weights + non-torch)`), and tokens on two lines or, from 0.28, on
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvplan.audit.figures import COUNT, NUMBER, Figures, absurd, figures_of, near, wordings
from kvplan.audit.lines import Line, clean_lines

# Each wording of each figure: words that its line holds, and the pattern. All in GiB unless they are counts.
_FIGURES = wordings(
    {
        "total_gib": (
            (
                "Free memory on device",
                rf"Free memory on device[^(]{{0,40}}\([^/]{{1,40}}/{NUMBER} GiB\)",
            ),
            ("total_gpu_memory", rf"total_gpu_memory \({NUMBER}GiB\)"),
        ),
        "utilization": (
            ("esired GPU memory utilization", rf"esired GPU memory utilization (?:is )?\({NUMBER},"),
            ("gpu_memory_utilization", rf"gpu_memory_utilization \({NUMBER}\)"),
        ),
        "requested_gib": (
            (
                "esired GPU memory utilization",
                rf"esired GPU memory utilization (?:is )?\([0-9.]{{1,40}}, {NUMBER} GiB\)",
            ),
            ("gpu_memory_utilization", rf"gpu_memory_utilization \([0-9.]{{1,40}}\) = {NUMBER}GiB"),
        ),
        "load_gib": (
            ("Model loading took", rf"Model loading took {NUMBER} Gi?B"),
            ("model weights take", rf"model weights take {NUMBER}GiB"),
            ("Actual usage is", rf"Actual usage is {NUMBER} GiB for weight,"),
        ),
        "consumed_gib": (("Actual usage is", rf"Actual usage is {NUMBER} GiB for consumed memory"),),
        "activation_gib": (
            (" GiB for peak activation", rf"{NUMBER} GiB for peak activation"),
            ("PyTorch activation peak memory", rf"PyTorch activation peak memory takes {NUMBER}GiB"),
        ),
        "non_torch_gib": (
            (" GiB for non-torch memory", rf"{NUMBER} GiB for non-torch memory"),
            ("non_torch_memory takes", rf"non_torch_memory takes {NUMBER}GiB"),
        ),
        "graphs_gib": (
            ("Graph capturing finished", rf"Graph capturing finished in [0-9.]{{1,40}} secs?, took {NUMBER} GiB"),
            ("CUDA graph pool memory", rf"CUDA graph pool memory: {NUMBER} GiB \(actual\)"),
            (" GiB for CUDAGraph memory", rf"and {NUMBER} GiB for CUDAGraph memory"),
        ),
        "graphs_estimate_gib": (
            (" GiB (estimated)", rf"\(actual\), {NUMBER} GiB \(estimated\)"),
            ("Estimated CUDA graph memory", rf"Estimated CUDA graph memory: {NUMBER} GiB"),
        ),
        "kv_gib": (
            ("Available KV cache memory", rf"Available KV cache memory: {NUMBER} GiB"),
            ("reserved for KV Cache is", rf"reserved for KV Cache is {NUMBER}GiB"),
            ("Current kv cache memory", rf"Current kv cache memory in use is {NUMBER} GiB"),
        ),
        "tokens": (("KV cache size: ", rf"KV cache size: {COUNT} tokens"),),
        "concurrency": (
            ("Maximum concurrency", rf"Maximum concurrency for [0-9,]{{1,27}} tokens per request: {NUMBER}x"),
        ),
        "concurrency_len": (("Maximum concurrency", rf"Maximum concurrency for {COUNT} tokens per request"),),
        "blocks": (
            (" blocks: ", rf"# (?:GPU|cuda|CUDA) blocks: {COUNT}"),
            ("num_gpu_blocks", rf"num_gpu_blocks(?: is)?[:=] ?{COUNT}"),
        ),
        "needed_gib": (("B KV cache is needed", rf"\({NUMBER} Gi?B KV cache is needed"),),
        "left_gib": (("available KV cache memory", rf"available KV cache memory \({NUMBER} Gi?B\)"),),
        "estimated_len": (("estimated maximum model length", rf"estimated maximum model length is {COUNT}"),),
        "free_gib": (("Free memory on device", rf"Free memory on device[^(]{{0,40}}\({NUMBER}/"),),
    }
)
_RELEASE = re.compile(
    r"(?:vLLM API server version|Initializing an? (?:V1 )?(?:LLM )?engine \(v|\bvllm version)[ :=]{0,8}v?"
    r"([0-9]{1,6}\.[0-9]{1,6}(?:\.[0-9]{1,6})?[0-9A-Za-z.+]{0,40})",
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
    "int": re.compile(r"[0-9]{1,12}(?![0-9])"),
    "float": re.compile(r"[0-9]{0,3}\.?[0-9]{1,20}(?![0-9])"),
    "word": re.compile(r"(?:torch\.)?([A-Za-z][A-Za-z0-9_\-]{0,40})"),
    "bool": re.compile(r"True|False"),
}
_NAMED = {
    name: re.compile(
        rf"(?<![A-Za-z_])['\"]?(?:--)?{name.replace('_', '[_-]')}['\"]?"
        rf"\s{{0,8}}(?:[:=]\s{{0,8}}|\s)['\"]?([^\s,'\"\)\}}]{{1,64}})"
    )
    for name in _FLAGS
}
_SWITCHES = {
    name: re.compile(rf"--{name.replace('_', '-')}(?![-\w=])") for name, (_, kind) in _FLAGS.items() if kind == "bool"
}
_MODEL = re.compile(
    r"(?<![A-Za-z_])['\"]?(?:--)?model(?:_tag)?['\"]?\s{0,8}[:=]\s{0,8}['\"]([^'\"]{1,200})['\"]"
    r"|vllm serve\s{1,8}['\"]?([A-Za-z0-9][\w./-]{0,199})|--model[ =]['\"]?([\w./-]{1,200})"
)
# A line without any of these holds nothing of interest
WORDS = tuple(dict.fromkeys((
    *(one.words for of in _FIGURES.values() for one in of), *_REFUSALS.values(), *_WARM, *_COLD, *_ARGS_MARKS,
    "version", "ngine (v", "Chunked prefill is enabled",
)))  # fmt: skip
_MOST_UNREAD = 8  # a log of a stranger may hold nothing else
_BATCH = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class StartLog:
    """What was found; None is what the log does not say.

    Sizes are GiB as printed, of the lowest rank that printed them; `flags` are engine arguments by kvplan's names;
    `refusal` the code of the start-up failure that the log ends in; `cold` whether kernels were compiled in this
    start; `unread` names what holds a figure that no start prints, and was left out.
    """

    release: str | None = None
    model: str | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    refusal: str | None = None
    cold: bool | None = None
    engine: str = "vllm"
    unread: tuple[str, ...] = ()

    def get(self, name: str) -> float | None:
        """Return a figure, None where the log does not print it."""
        return self.figures.get(name)

    def within(self, most_gib: float) -> StartLog:
        """Return the log without the figures that a card of so much memory, or of the printed total, does not hold."""
        most = max(most_gib, self.get("total_gib") or 0.0) + 0.01  # the last digit that is printed
        beyond = {name: told for name, value in self.figures.items() if (told := absurd({name: value}, most))}
        left = {name: value for name, value in self.figures.items() if name not in beyond}
        said = tuple(f"{told}, where the card has {most:.2f} GiB" for told in beyond.values())
        return replace(self, figures=left, unread=(*self.unread, *said))


def read_log(text: str) -> StartLog:
    """Read a start-up log; what is not there is left out, and nothing is guessed."""
    figures: dict[str, tuple[int, float]] = {}
    flags: dict[str, object] = {}
    ranks: set[int] = set()
    release = model = refusal = None
    cold: bool | None = None
    unread: list[str] = []
    for line in clean_lines(text, WORDS):
        if line.rank is not None:
            ranks.add(line.rank)
        for name, value in readable(line, _FIGURES, unread).items():
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
        unread=tuple(unread),
    )


def readable(line: Line, known: Figures, unread: list[str]) -> dict[str, float]:
    """Return the figures of a line: none where one of them is absurd, which `unread` then says."""
    found = figures_of(line.text, known)
    reason = absurd(found)
    if reason is None:
        return found
    if len(unread) < _MOST_UNREAD:
        unread.append(f"line {line.number}: {reason}")
    return {}


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else next((group for group in match.groups() if group), None)


def _flags_of(text: str) -> dict[str, object]:
    """Return the flags that a line of arguments or of the engine's configuration gives; `None` and `auto` are none."""
    found: dict[str, object] = {}
    for name, (flag, kind) in _FLAGS.items():
        match = near(_NAMED[name], name, text) or near(_NAMED[name], name.replace("_", "-"), text)
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
