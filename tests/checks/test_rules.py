"""Each rule with a manifest that breaks it and one that does not: `# expect` marks the line that it must point at."""

from __future__ import annotations

import pkgutil
import re
import shutil
from pathlib import Path

import pytest
from checks.checking import kvplan, pod

from kvplan.checks import rules as package
from kvplan.checks.finding import Report, Severity
from kvplan.checks.registry import find_rule, rules
from kvplan.checks.run import Settings, report, run
from kvplan.errors import UsageError

FIXTURES = Path(__file__).parent / "rules"
IDS = [rule.id for rule in rules()]


def checked(*paths: str) -> Report:
    return report(run(Settings(paths=paths)))


def prepared(folder: Path, rule: str, which: str, capsys) -> str:
    """Lay a fixture out as deployment.yaml, with its settings and its lock."""
    source = FIXTURES / rule
    if (source / "kvplan.yaml").exists():
        shutil.copy(source / "kvplan.yaml", folder)
    if (source / "locked.yaml").exists():
        shutil.copy(source / "locked.yaml", folder / "deployment.yaml")
        assert kvplan(capsys, "lock deployment.yaml").code == 0
    shutil.copy(source / f"{which}.yaml", folder / "deployment.yaml")
    return (source / f"{which}.yaml").read_text()


@pytest.mark.parametrize("rule", IDS)
def test_a_bad_manifest_is_found_on_its_line(folder, capsys, rule):
    text = prepared(folder, rule, "bad", capsys)
    expected = [number for number, line in enumerate(text.split("\n"), 1) if "# expect" in line]
    found = [finding for finding in checked("deployment.yaml").findings if finding.rule == rule]
    assert expected
    assert sorted({finding.place.line for finding in found}) == expected
    assert all(finding.message and finding.fix for finding in found)


@pytest.mark.parametrize("rule", IDS)
def test_a_good_manifest_passes_every_rule(folder, capsys, rule):
    prepared(folder, rule, "good", capsys)
    told = checked("deployment.yaml")
    assert told.findings == ()
    assert told.cases[0].plan is not None
    assert told.cases[0].plan.verdict == "fits"


def test_every_rule_is_documented_and_has_its_fixtures():
    assert len(IDS) == len({rule.name for rule in rules()}) == len(list(pkgutil.iter_modules(package.__path__)))
    assert {path.name for path in FIXTURES.iterdir()} == set(IDS)
    for rule in rules():
        assert re.fullmatch(r"KVP\d{3}", rule.id)
        assert all(re.search(rf"^{word}: ", rule.documentation, re.MULTILINE) for word in ("Bad", "Good", "Fix"))
        assert rule.title.endswith(".")


def test_a_rule_is_found_by_id_or_name_and_a_near_miss_is_named():
    assert find_rule("kvp001") is find_rule("tp-exceeds-gpus")
    with pytest.raises(UsageError) as error:
        find_rule("tp-exceed-gpus")
    assert "tp-exceeds-gpus" in error.value.hint


TOPOLOGY = """\
apiVersion: {api}
kind: {kind}
metadata: {{name: x}}
spec: {spec}
"""


@pytest.mark.parametrize(
    ("words", "gpus", "count"),
    [
        ("-tp, '4'", "1", 1),
        ("-tp, '4'", "4", 0),
        ("-tp, '2', -pp, '2'", "2", 1),
        ("-tp, '2', -dp, '4'", "4", 1),
        ("-tp, '1', -dp, '16', --data-parallel-size-local, '8'", "8", 0),
        ("-tp, '1', -dp, '16', --data-parallel-external-lb", "1", 0),
        ("-tp, '${TP}'", "1", 0),
        ("-tp, '4'", "${TP}", 0),
        ("-tp, four", "1", 0),
    ],
)
def test_ranks_against_gpus(folder, words, gpus, count):
    text = pod(words, model="unknown/model", gpus=1).replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: '{gpus}'")
    (folder / "m.yaml").write_text(text)
    assert [finding.rule for finding in checked("m.yaml").findings] == ["KVP001"] * count


def test_pods_of_a_group_count_together(folder):
    group = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: g}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec: {containers: [{name: c, command: [python3, -m, sglang.launch_server, --model-path, a/b, --tp, "SIZE"],
                           resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
    for size, count in (("2", 0), ("4", 1)):
        (folder / "m.yaml").write_text(group.replace("SIZE", size))
        assert len(checked("m.yaml").findings) == count


def test_what_was_assumed_lowers_the_confidence_of_what_rests_on_figures(folder):
    bad = pod("--max-model-len=131072, --kv-cache-memory-bytes=4294967296")
    (folder / "stated.yaml").write_text(bad)
    (folder / "latest.yaml").write_text(bad.replace("v0.33.0", "latest"))
    sure = {finding.file: finding.confidence for finding in checked(".").findings}
    assert sure == {"stated.yaml": "high", "latest.yaml": "medium"}


def test_a_flag_is_unknown_only_to_the_release_whose_table_is_known(folder):
    for release, count in (("v0.33.0", 1), ("v0.33.4", 1), ("v0.8.5", 0), ("latest", 0)):
        (folder / "m.yaml").write_text(pod("--swap-space=4, --max-model-len=8192").replace("v0.33.0", release))
        assert [f.rule for f in checked("m.yaml").findings].count("KVP011") == count
    sglang = (
        pod()
        .replace("vllm/vllm-openai", "lmsysorg/sglang")
        .replace("--max-model-len", "--context-length")
        .replace("args: [", "command: [python3, -m, sglang.launch_server], args: [--cuda-graph-bs=8, ")
    )
    for release, count in (("v0.5.23", 1), ("v0.5.5", 0)):
        (folder / "m.yaml").write_text(sglang.replace("v0.33.0", release).replace(", args", "\n      args"))
        assert [f.rule for f in checked("m.yaml").findings].count("KVP011") == count
    worker = pod().replace("args: [", "command: [python3, -m, dynamo.vllm], args: [--is-prefill-worker, ")
    (folder / "m.yaml").write_text(worker.replace(", args", "\n      args"))
    assert checked("m.yaml").findings == ()


def test_the_cheapest_fix_of_a_promise(folder):
    (folder / "kvplan.yaml").write_text("deployments: [{workload: {concurrency: 10, context_p95: 8192}}]")
    for flags, fix in (
        ("--kv-cache-memory-bytes=8589934592", "--kv-cache-dtype fp8"),
        ("--kv-cache-memory-bytes=4294967296", "replicas: 3"),
        ("--kv-cache-memory-bytes=34359738368, --max-num-seqs=4", "--max-num-seqs 10"),
    ):
        (folder / "m.yaml").write_text(pod(f"--max-model-len=16384, {flags}"))
        assert [finding.fix for finding in checked("m.yaml").findings] == [fix]


@pytest.mark.parametrize(
    ("card", "flags", "rules"),
    [
        ("NVIDIA-H100-80GB-HBM3", "", ["KVP006"]),
        ("NVIDIA-H200", ", --gpu-memory-utilization=0.65", ["KVP005"]),
        ("NVIDIA-H200", "", ["--data-parallel-size 8 --enable-expert-parallel, without tensor parallelism"]),
        # the weights of the attention, once a GPU, leave no room for a request of the full length: planned, and refused
        ("NVIDIA-H200", ", --gpu-memory-utilization=0.78", ["--decode-context-parallel-size 8"]),
    ],
)
def test_what_replaces_a_copied_cache_is_planned_before_it_is_advised(folder, card, flags, rules):
    text = pod(f"-tp, '8'{flags}", model="deepseek-ai/DeepSeek-R1", gpus=8)
    (folder / "m.yaml").write_text(text.replace("NVIDIA-H100-80GB-HBM3", card))
    assert [f.fix if f.rule == "KVP008" else f.rule for f in checked("m.yaml").findings] == rules


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        ("--gpu-memory-utilization=1.5", True),
        ("--gpu-memory-utilization=nan", True),
        ("--gpu-memory-utilization=90%", True),
        ("--max-model-len=32kb", True),
        ("--tensor-parallel-size=0", True),
        ("--max-num-seqs=-1", True),
        ("--dtype=int3", True),
        ("--max-model-len=32k", False),
        ("--gpu-memory-utilization=1", False),
        # what somebody's template fills in later, and what is too large for kvplan alone
        ("--gpu-memory-utilization=UTIL", False),
        ("--max-model-len=<LENGTH>", False),
        ("--dtype=__DTYPE__", False),
        ("--tensor-parallel-size=1000000000", False),
    ],
)
def test_a_value_that_the_engine_would_not_take(folder, flags, refused):
    (folder / "pod.yaml").write_text(pod(f"{flags}, --max-num-batched-tokens=2048"))
    found = [finding for finding in checked("pod.yaml").findings if finding.rule == "KVP002"]
    assert [flags.split("=")[0] in finding.message for finding in found] == [True] * refused
    assert all(finding.place.line and finding.fix for finding in found)


COMPOSE = """\
services:
  one: {image: vllm/vllm-openai:v0.33.0, command: --model a/b}
  two:
    image: vllm/vllm-openai:v0.33.0
    command: --model a/b
    command: --model c/d  # kvplan: ignore[KVP001]
    environment: {A: 1, A: 2}  # kvplan: ignore[KVP013] on purpose
"""


def test_a_key_that_is_given_twice_belongs_to_the_nearest_deployment(folder):
    (folder / "compose.yaml").write_text(COMPOSE)
    found = checked("compose.yaml")
    assert [(f.rule, f.place.line, f.deployment) for f in found.findings] == [("KVP013", 6, "services/two")]
    assert found.cases[1].deployment.model == "c/d"


def test_a_key_that_hides_an_engine_is_noted(folder, capsys):
    (folder / "m.yaml").write_text(pod() + "spec: {containers: []}\n")
    told = kvplan(capsys, "check m.yaml")
    assert "m.yaml:11:1: note: the key 'spec' is given twice, and hides what stands in line 4\n" in told.out
    assert told.code == 0


@pytest.mark.parametrize(
    ("image", "flag", "severities"),
    [
        ("vllm/vllm-openai:v0.11.0", "--gpu-memory-utilisation=0.9", [Severity.ERROR]),
        ("vllm/vllm-openai:latest", "--max-num-sesq=8", [Severity.WARNING]),
        ("vllm/vllm-openai:v0.99.0", "--served-model-names=a", [Severity.WARNING]),
        ("vllm/vllm-openai:v0.99.0", "--swap-space=16", []),
        ("vllm/vllm-openai:v0.11.0", "--swap-space=16", []),
        ("vllm/vllm-openai:v0.17.1", "--swap-space=16", []),
        ("vllm/vllm-openai:v0.18.0", "--swap-space=16", []),  # between 0.17.1, which has it, and 0.18.1, which has not
        ("vllm/vllm-openai:v0.18.1", "--swap-space=16", [Severity.ERROR]),
        ("vllm/vllm-openai:v0.9.2", "--async-scheduling", [Severity.ERROR]),
        ("vllm/vllm-openai:v0.10.0", "--async-scheduling", []),
        ("vllm/vllm-openai:v0.10.0", "--no-enable-prefix-caching", []),
        ("vllm/vllm-openai:v0.10.0", "--gpu-memory-util=0.9", []),  # the beginning of one flag stands for it
        ("vllm/vllm-openai:v0.20.0", "--compilation_config.level=3", []),
        ("vllm/vllm-openai:v0.11.0", "--max-num-seqs=8", []),
        ("vllm/vllm-openai:v0.33.0", "--gpu-memory-utilisation=0.9", [Severity.ERROR]),
    ],
)
def test_a_misspelt_flag_is_named_for_any_release(folder, image, flag, severities):
    (folder / "pod.yaml").write_text(pod(flag).replace("vllm/vllm-openai:v0.33.0", image))
    assert [f.severity for f in checked("pod.yaml").findings if f.rule == "KVP011"] == severities


@pytest.mark.parametrize(("length", "severities"), [(200000, [Severity.WARNING]), (131072, [])])
def test_tensorrt_llm_lowers_a_length_beyond_the_model(folder, length, severities):
    text = pod().replace("vllm/vllm-openai:v0.33.0", "nvcr.io/nvidia/tensorrt-llm/release:1.2.0")
    command = f"command: [trtllm-serve, meta-llama/Llama-3.1-8B, --max_seq_len, '{length}']\n"
    (folder / "pod.yaml").write_text(re.sub(r"args: .*\n", command, text))
    told = checked("pod.yaml")
    assert [f.severity for f in told.findings if f.rule == "KVP004"] == severities
    assert told.cases[0].plan is not None
    assert told.cases[0].plan.kv.max_model_len == 131_072
