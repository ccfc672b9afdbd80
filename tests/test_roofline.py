"""The decode bound: worked figures, experts by their number of tokens, and what each kind of cache is read for."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.errors import UsageError
from kvplan.model.spec import Full, Latent, Shape, Shared, Window
from kvplan.roofline import kv_computations, roofline
from kvplan.traffic import Request, attention_flops, read_of
from kvplan.units import GB

L8 = "meta-llama/Llama-3.1-8B"
TERA = 10**12


@pytest.mark.parametrize(("batch", "milliseconds", "tokens"), [(1, 8.54, 117), (32, 25.18, 1271)])
def test_worked_figures(batch, milliseconds, tokens):
    bounds = roofline(kvplan.plan(L8, max_model_len=8192, weights="16 GB"), 2 * TERA)
    step = next(step for step in bounds.decode if step.batch == batch)
    assert step.seconds * 1000 == pytest.approx(milliseconds, rel=0.005)
    assert step.tokens_per_second == pytest.approx(tokens, rel=0.005)


def test_what_a_cache_saves():
    assert kv_computations(512, cached=False) == 131_328
    assert kv_computations(512, cached=True) == 512


def test_the_curve_goes_from_one_request_to_as_many_as_fit():
    plan = kvplan.plan(L8, gpu="h100-sxm", max_model_len=8192)
    bounds = roofline(plan)
    batches = [step.batch for step in bounds.decode]
    assert batches[0] == 1
    assert batches[-1] == int(plan.kv.max_concurrency)
    assert batches == sorted(set(batches))
    assert bounds.bandwidth == plan.gpu.bandwidth
    rising = [step.tokens_per_second for step in bounds.decode]
    assert rising == sorted(rising)


def test_the_embedding_is_looked_up_in_unless_it_projects():
    """A Llama-3.1-8B's is a gigabyte that no step reads; a tied one is read whole."""
    step = roofline(kvplan.plan(L8, gpu="h100-sxm", max_model_len=8192)).decode[0]
    assert step.weight_bytes == 16_060_522_496 - 128_256 * 4096 * 2
    tied = kvplan.plan("meta-llama/Llama-3.2-1B-Instruct", gpu="h100-sxm", max_model_len=8192)
    assert roofline(tied).decode[0].weight_bytes == pytest.approx(1_235_814_400 * 2, rel=1e-4)


def test_experts_are_read_as_tokens_are_sent_to_them():
    """Of 256 experts with 8 a token, one token reads 8, and 32 tokens some 163."""
    plan = kvplan.plan("deepseek-ai/DeepSeek-V3", gpu="h200", tensor_parallel_size=8, max_model_len=8192)
    reads = {step.batch: step.weight_bytes for step in roofline(plan).decode}
    experts = 58 * 256 * 3 * 7168 * 2048 // 8  # FP8, without scales
    share = (reads[32] - reads[1]) / experts
    assert share == pytest.approx((1 - (1 - 8 / 256) ** 32) - 8 / 256, rel=0.001)


def test_a_prompt_is_bound_by_arithmetic():
    bounds = roofline(kvplan.plan(L8, gpu="h100-sxm", max_model_len=8192))
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    attention = 32 * 2 * 32 * 256 * 8192**2 / 2
    assert bounds.prefill.flops == 2 * matrices * 8192 + attention
    assert bounds.prefill.seconds == pytest.approx(bounds.prefill.flops / (989 * TERA), rel=1e-3)


def test_a_bound_needs_a_bandwidth():
    with pytest.raises(UsageError, match="needs a memory bandwidth"):
        roofline(kvplan.plan(L8))


def shape(*caches, **more) -> Shape:
    return Shape(tuple((cache,) for cache in caches), 32, 8, 128, **more)


FULL = Full(8, 128, 128)
REQUEST = Request(8192, 1, 1, "auto", "bfloat16")


@pytest.mark.parametrize(
    ("found", "request_", "size"),
    [
        (shape(FULL), REQUEST, 8192 * 4096),
        (shape(FULL), Request(8192, 4, 1, "auto", "bfloat16"), 8192 * 1024),
        (shape(FULL), Request(8192, 32, 1, "auto", "bfloat16"), 8192 * 512),
        (shape(FULL), Request(8192, 8, 2, "auto", "bfloat16"), 8192 * 1024 / 2),
        (shape(FULL), Request(8192, 1, 1, "fp8", "bfloat16"), 8192 * 2048),
        (shape(FULL, Window(8, 128, 128, window=1024)), REQUEST, (8192 + 1024) * 4096),
        (shape(FULL, Shared(0)), REQUEST, 2 * 8192 * 4096),
        (shape(Latent(512, 64)), Request(8192, 8, 1, "auto", "bfloat16"), 8192 * 1152),
        (shape(Latent(512, 64), index_topk=2048), REQUEST, 2048 * 1152),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_step_reads_of_a_cache(found, request_, size):
    assert read_of(found, request_) == size


def test_windows_attend_to_no_more_than_they_hold():
    whole = attention_flops(shape(FULL), 4096)
    assert whole == 2 * 32 * 256 * 4096**2 / 2
    assert attention_flops(shape(Window(8, 128, 128, window=4096)), 4096) == whole
    assert attention_flops(shape(Window(8, 128, 128, window=1)), 4096) == 2 * 32 * 256 * (4096 - 0.5)


@pytest.mark.parametrize("name", ["google/gemma-3-27b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
def test_nothing_reads_more_than_it_holds(name):
    """The bytes read of one request are those of its pool, or fewer: windows and pages round up."""
    plan = kvplan.plan(name, gpu="h200", tensor_parallel_size=4, max_model_len=8192)
    step = roofline(plan).decode[0]
    assert 0 < step.kv_bytes <= plan.kv.sequence_bytes
    assert step.weight_bytes < plan.weights_per_rank
    assert (step.weight_bytes + step.kv_bytes) / GB < 40
