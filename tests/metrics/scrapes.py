"""Scrapes in the words of each engine, built from figures: `vllm(running=48, usage=0.97)`."""

from __future__ import annotations


def vllm(
    *, running=8, waiting=0, usage=0.6, preemptions=0, finished=1000, hits=400_000, queries=1_000_000, extra=""
) -> str:
    label = 'engine="0",model_name="meta-llama/Llama-3.1-8B"'
    return f"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{label}}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{label}}} {waiting}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{{label}}} {usage}
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{{label}}} {preemptions}
vllm:num_preemptions_created{{{label}}} 1.76e+09
vllm:prefix_cache_queries_total{{{label}}} {queries:e}
vllm:prefix_cache_hits_total{{{label}}} {hits:e}
vllm:request_success_total{{{label},finished_reason="stop"}} {max(0, finished - 10)}
vllm:request_success_total{{{label},finished_reason="length"}} {min(10, finished)}
vllm:cache_config_info{{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="27896"}} 1.0
process_open_fds 45.0
{extra}"""


def vllm_old(*, running, waiting, usage) -> str:
    """The names of vLLM 0.4 to 0.10."""
    return f"""vllm:num_requests_running{{model_name="q"}} {running}
vllm:num_requests_waiting{{model_name="q"}} {waiting}
vllm:num_requests_swapped{{model_name="q"}} 0.0
vllm:gpu_cache_usage_perc{{model_name="q"}} {usage}
vllm:cpu_cache_usage_perc{{model_name="q"}} 0.0
vllm:gpu_prefix_cache_hit_rate{{model_name="q"}} -1.0
vllm:num_preemptions_total{{model_name="q"}} 0.0
vllm:request_success_total{{model_name="q",finished_reason="stop"}} 7.0
"""


def sglang(*, running, waiting, usage, retracted=0, finished=500, ranks=1, prefill="") -> str:
    lines = ["# TYPE sglang:num_running_reqs gauge"]
    for rank in range(ranks):
        label = f'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="{rank}"'
        lines += [
            f"sglang:num_running_reqs{{{label}}} {running}",
            f"sglang:num_queue_reqs{{{label}}} {waiting}",
            f"sglang:token_usage{{{label}}} {usage}",
            f"sglang:num_retracted_requests_total{{{label}}} {retracted}",
            f'sglang:num_retracted_reqs{{{label},pid="{900 + rank}"}} 3',
            f"sglang:max_total_num_tokens{{{label}}} 524288",
        ]
    lines += [f'sglang:num_requests_total{{model_name="m",is_streaming="True"}} {finished}', prefill]
    return "\n".join(lines) + "\n"
