from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from kvplan import gpu_catalogue as catalogue
from kvplan.cli import run
from kvplan.errors import UnknownGpu, UsageError
from kvplan.hardware import Gpu, find_gpu, gpu_names, gpus, parse_gpu
from kvplan.profile import plain
from kvplan.units import GIB, MIB

FAMILY_FILES = sorted(path for path in catalogue.GPUS.glob("*.yaml") if path.stem not in {"defaults", "instances"})
DOCUMENTS = [
    pytest.param(document, id=document.partition("\n")[0].removeprefix("name: "))
    for path in FAMILY_FILES
    for document in path.read_text(encoding="utf-8").split("\n---\n")[1:]
]
KINDS_OF_SOURCE = ("log", "datasheet", "table", "derived", "estimated", "recalled")


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "card"),
    [
        ("h100-sxm", "h100-sxm"),
        ("H100_SXM", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "h100-sxm"),
        ("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-SHARED", "h100-sxm"),
        ("nvidia-h100-80gb", "h100-sxm"),
        ("cloud.google.com/gke-accelerator=nvidia-h100-mega-80gb", "h100-sxm"),
        ("gpu.nvidia.com/model=H100_NVLINK_80GB", "h100-sxm"),
        ("p5.48xlarge", "h100-sxm"),
        ("node.kubernetes.io/instance-type=p5.48xlarge", "h100-sxm"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("H100 94GB", "h100-nvl"),
        ("h200", "h200-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("nvidia-tesla-a100", "a100-40gb-sxm"),
        ("nvidia-tesla-v100", "v100-16gb-sxm"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("l40s", "l40s"),
        ("L40S 48GB", "l40s"),
        ("NVIDIA B200", "b200"),
        ("B200 192GB", "b200"),
        ("gb200", "gb200"),
        ("4090", "rtx-4090"),
        ("RTX 4090 24 GiB", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 (24 GB)", "rtx-4090"),
        ("rtx4090-48gb", "rtx-4090-48gb"),
        ("RTX 5060 Ti 8GB", "rtx-5060-ti-8gb"),
        ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("RTX 6000D 84GB", "rtx-6000d"),
        ("GB10 (DGX Spark)", "gb10"),
        ("mi300x", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM", "mi300x"),
        ("Strix Halo (gfx1151)", "strix-halo-128gb"),
        ("Intel Gaudi 3", "gaudi3"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60"),
        ("Intel Arc Pro B70 32GB", "arc-pro-b70"),
        ("tpu-v5-lite-podslice", "tpu-v5e"),
        ("h100-sxm:1g.10gb", "h100-sxm-mig-1g.10gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100-40gb-sxm-mig-1g.5gb"),
        ("Standard_NC24ads_A100_v4", "a100-80gb-pcie"),
        ("nc24ads_a100_v4", "a100-80gb-pcie"),
    ],
)
def test_a_name_finds_its_card(asked: str, card: str) -> None:
    gpu = find_gpu(asked)
    assert (gpu.name, gpu.assumed_among) == (card, ())


@pytest.mark.parametrize(
    ("asked", "card", "others"),
    [
        ("h100", "h100-sxm", {"h100-pcie", "h100-nvl", "h100-96gb"}),
        ("H100 80GB", "h100-sxm", {"h100-pcie"}),
        ("a100", "a100-80gb-sxm", {"a100-80gb-pcie", "a100-40gb-sxm", "a100-40gb-pcie"}),
        ("A100 40 GB", "a100-40gb-sxm", {"a100-40gb-pcie"}),
        ("Tesla V100", "v100-32gb-sxm", {"v100-32gb-pcie", "v100-16gb-sxm", "v100-16gb-pcie", "v100s-32gb-pcie"}),
        ("V100 16GB", "v100-16gb-sxm", {"v100-16gb-pcie"}),
        ("RTX PRO 6000 96GB", "rtx-pro-6000-server", {"rtx-pro-6000-workstation", "rtx-pro-6000-max-q"}),
        ("NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti-16gb", {"rtx-5060-ti-8gb"}),
        ("gaudi", "gaudi3", {"gaudi2"}),
    ],
)
def test_a_name_of_several_cards_takes_the_default_and_names_the_rest(asked: str, card: str, others: set[str]) -> None:
    gpu = find_gpu(asked)
    assert (gpu.name, gpu.assumed_among[0], set(gpu.assumed_among[1:])) == (card, card, others)


def test_an_old_short_name_keeps_every_candidate() -> None:
    expected = {
        "rtx-6000-ada", "rtx-pro-6000-server", "rtx-pro-6000-workstation", "rtx-pro-6000-max-q", "quadro-rtx-6000",
    }  # fmt: skip
    assert set(find_gpu("rtx-6000").assumed_among) == expected
    assert find_gpu("rtx-6000").name == "rtx-6000-ada"


def test_a_memory_size_picks_among_the_candidates() -> None:
    assert find_gpu("rtx-6000 24GB").name == "quadro-rtx-6000"
    assert find_gpu("V100 16 GB").memory_bytes < 16 * GIB


@pytest.mark.parametrize(
    ("asked", "card", "count"),
    [
        ("h100", "h100-sxm", None),
        ("h100x4", "h100-sxm", 4),
        ("h200x8", "h200-sxm", 8),
        ("H200 x 8", "h200-sxm", 8),
        ("h100-sxm x2", "h100-sxm", 2),
        ("NVIDIA H100 80GB HBM3 X 2", "h100-sxm", 2),
        ("l4\u00d72", "l4", 2),
        ("rtx4090", "rtx-4090", None),
        ("4090x2", "rtx-4090", 2),
        ("rtx5090x1", "rtx-5090", 1),
        ("mi300x", "mi300x", None),
        ("mi300x8", "mi300x", 8),
        ("mi300xx8", "mi300x", 8),
        ("mi300x x 8", "mi300x", 8),
        ("mi250x8", "mi250x-gcd", 8),
        ("mi250 x 8", "mi250-gcd", 8),
        ("mi210x8", "mi210", 8),
        ("p5.48xlarge", "h100-sxm", 8),
        ("p5.48xlarge x 2", "h100-sxm", 16),
        ("g6.xlarge", "l4", 1),
        ("b200-8x", "b200", 8),
        ("gpu-h100-sxm", "h100-sxm", None),
        ("gpu-h100-sxm x 8", "h100-sxm", 8),
    ],
)
def test_a_count_follows_the_name(asked: str, card: str, count: int | None) -> None:
    gpu, found = parse_gpu(asked)
    assert (gpu.name, found) == (card, count)


HOSTILE = [
    "", " ", "x", "x4", "-", "=", "()", "shared", "nvidia", "gpu", "h100x-1", "h100x1.5", "h100x", "h1000", "rtx5999",
    "gtx1080", "RTX 4090 40GB", "80GB", "\0", "h100\0", "\x1b[31mh100", "h100" * 2500, "x" * 10_000, "9" * 10_000,
    "\udc80", "h100x\u0664", "../hopper", "nvidia.com/gpu.product=", "a=b=c", "{}", "name: h100-sxm", '"', "h100\u202e",
]  # fmt: skip


@pytest.mark.parametrize("asked", HOSTILE, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("ask", [find_gpu, parse_gpu])
def test_what_is_no_card_is_refused_in_one_printable_line(ask: Any, asked: str) -> None:
    with pytest.raises(UnknownGpu) as refusal:
        ask(asked)
    assert refusal.value.message.isprintable()
    assert len(refusal.value.message) < 250
    assert refusal.value.hint


@pytest.mark.parametrize("asked", ["h100x0", "h100 x 000", "h100x99999999999", "h100x" + "9" * 150])
def test_a_count_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="cards"):
        parse_gpu(asked)


def test_an_unknown_name_hears_the_near_ones() -> None:
    with pytest.raises(UnknownGpu) as refusal:
        find_gpu("h10O-sxm")
    assert "h100-sxm" in refusal.value.hint


def test_every_spelling_of_the_catalogue_finds_its_card() -> None:
    for spelling, name in catalogue.index().spellings.items():
        assert find_gpu(spelling).name == name, spelling
        if re.search(r"x[0-9]+$", catalogue.fold(spelling)) and "8x" not in spelling:
            assert parse_gpu(spelling) == (find_gpu(spelling), None), spelling


def test_every_label_finds_its_card() -> None:
    for parameter in DOCUMENTS:
        facts = plain(str(parameter.values[0]))
        for label in facts.get("labels", ()):
            assert find_gpu(label).name == facts["name"], label
            assert find_gpu(label.partition("=")[2] + "-SHARED").name == facts["name"], label


def test_every_instance_type_finds_its_card() -> None:
    listed = plain((catalogue.GPUS / "instances.yaml").read_text(encoding="utf-8"))
    assert len(listed) >= 181
    for instance, entry in listed.items():
        for spelling in (instance, *entry.get("aliases", ())):
            gpu, count = parse_gpu(spelling)
            assert (gpu.name, count, gpu.assumed_among) == (entry["gpu"], entry.get("count"), ()), spelling


# Figures --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gib", "low", "high", "basis"),
    [
        ("h100-sxm", 79.19, 79.175, 79.225, "measured"),
        ("h200-sxm", 139.81, 139.805, 139.815, "measured"),
        ("b200", 178.35, 178.345, 178.365, "measured"),
        ("l4", 22.03, 22.025, 22.035, "measured"),
        ("mi300x", 191.69, 191.685, 191.985, "measured"),
        ("h20", 94.99, 94.97, 95.22, "modelled"),
        ("l2", 22.05, 22.05 - 213 / 1024, 22.05 + 213 / 1024, "modelled"),
        ("arc-pro-b60", 22.7, 24 * 0.92, 24, "modelled"),
    ],
)
def test_memory_is_what_cuda_reports(name: str, gib: float, low: float, high: float, basis: str) -> None:
    gpu = find_gpu(name)
    assert gpu.memory_basis == basis
    found = (gpu.memory_bytes, gpu.memory_low, gpu.memory_high)
    assert found == pytest.approx((gib * GIB, low * GIB, high * GIB), abs=2)


@pytest.mark.parametrize(
    ("name", "loss", "driver", "capability"),
    [
        ("h100-sxm", 0.51, "NVIDIA H100 80GB HBM3", (9, 0)),
        ("b200", 0.69, "NVIDIA B200", (10, 0)),
        ("l4", 0.19, "NVIDIA L4", (8, 9)),
        ("l2", 0.49, "NVIDIA L2", (8, 9)),
        ("rtx-5060-ti-8gb", 0.49, "NVIDIA GeForce RTX 5060 Ti", (12, 0)),
        ("mi300x", 0.33, "AMD Instinct MI300X", None),
        ("tpu-v5e", 0.49, "", None),
    ],
)
def test_start_loss_and_driver(name: str, loss: float, driver: str, capability: tuple[int, int] | None) -> None:
    gpu = find_gpu(name)
    assert (gpu.start_loss_bytes, gpu.driver_name, gpu.compute_capability) == (round(loss * GIB), driver, capability)


def test_a_card_without_a_cuda_total_takes_the_rule() -> None:
    gpu = find_gpu("tpu-v5e")
    assert gpu.memory_bytes == pytest.approx((16384 - 406 - 0.002 * 16384) * MIB, abs=1)
    assert (gpu.memory_high - gpu.memory_low, gpu.memory_basis) == (2 * 213 * MIB, "modelled")
    assert "torch_from_smi" in gpu.memory_source


def test_rates_are_in_plain_units() -> None:
    gpu = find_gpu("h100-sxm")
    assert (gpu.bandwidth, gpu.sm_count, gpu.l2_mib, gpu.smi_memory_mib) == (3_350_000_000_000, 132, 50, 81559)
    assert gpu.tflops == {"bf16": 989.4, "fp16": 989.4, "fp8": 1978.9}
    assert find_gpu("b200").tflops["fp4"] > 4000
    assert hash(gpu) == hash(find_gpu("NVIDIA H100 80GB HBM3"))


@pytest.mark.parametrize("gpu", gpus(), ids=gpu_names())
def test_every_card_is_sane(gpu: Gpu) -> None:
    nominal = catalogue.card(gpu.name)["nominal_gb"]["value"]
    assert 4 * GIB < gpu.memory_low <= gpu.memory_bytes <= gpu.memory_high < 300 * GIB
    assert gpu.memory_high - gpu.memory_low >= 0.01 * GIB - 2
    # Strix Halo hands half of its memory to the GPU unless told otherwise, and a GB200 slice of "24gb" holds 20 GiB
    share = 0.48 if gpu.name == "strix-halo-128gb" else 0.83 if "-mig-" in gpu.name else 0.88
    assert share * nominal * GIB < gpu.memory_bytes <= nominal * GIB
    if gpu.smi_memory_mib is not None:
        assert gpu.memory_bytes <= gpu.smi_memory_mib * MIB * 1.0001
    assert 0 < gpu.start_loss_bytes < (6 if gpu.unified_memory else 3) * GIB
    assert gpu.bandwidth is not None
    assert 25e9 < gpu.bandwidth < 9e12
    assert (gpu.vendor == "nvidia") == (gpu.compute_capability is not None)
    assert (gpu.driver_name == "") == (gpu.vendor in {"google", "aws"})
    assert gpu.label.isprintable()
    assert gpu.assumed_among == ()


# Profiles -------------------------------------------------------------------------------------------------------------


def _sourced(text: str) -> str:
    assert text.startswith(KINDS_OF_SOURCE), f"a source begins with one of {KINDS_OF_SOURCE}: {text!r}"
    return text


Source = Annotated[str, AfterValidator(_sourced)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,60}$")]
Text = Annotated[str, Field(min_length=1, max_length=400)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Figure(Strict):
    value: Annotated[float, Field(ge=0)]
    source: Source


class Memory(Figure):
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def ordered(self) -> Memory:
        assert (self.low is None) == (self.high is None)
        assert self.low is None or self.high is None or self.low <= self.value <= self.high
        return self


class Said(Strict):
    value: Text
    source: Source
    detail: Text | None = None
    gb_s_per_dir: float | None = None


class Card(Strict):
    name: Name
    label: Text
    driver_names: list[Text] = []
    aliases: list[Text] = []
    shared_names: list[Text] = []
    labels: list[Annotated[str, Field(pattern=r"^[\w./-]+=[\w.()-]+$")]] = []
    labels_source: Source | None = None
    names_source: Text | None = None
    vendor: Literal["nvidia", "amd", "intel", "google", "aws"]
    architecture: Text
    compute_capability: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    gfx: Annotated[str, Field(pattern=r"^gfx[0-9a-f]+$")] | None = None
    form: Text
    unified_memory: bool = False
    memory_only: bool = False
    partition_of: Name | None = None
    shares_name_with: Name | None = None
    nominal_gb: Figure
    smi_total_mib: Figure | None = None
    torch_total_gib: Memory | None = None
    engine_start_loss_gib: Memory | None = None
    bandwidth_gb_s: Figure
    bf16_tflops: Figure | None = None
    fp16_tflops: Figure | None = None
    fp8_tflops: Figure | None = None
    fp4_tflops: Figure | None = None
    sm_count: Figure | None = None
    l2_mib: Figure | None = None
    fp8_kv: Said
    nvlink_gb_s: Figure | None = None
    pcie: Said | None = None
    host_link: Said | None = None
    tool: Text | None = None
    notes: Text | None = None

    @model_validator(mode="after")
    def whole(self) -> Card:
        assert self.smi_total_mib or self.torch_total_gib, "a card needs one total"
        for other in (self.partition_of, self.shares_name_with):
            assert other is None or other in gpu_names()
        return self


class Instance(Strict):
    provider: Literal["aws", "azure", "gcp", "oci", "lambda", "coreweave", "nebius"]
    gpu: Name
    count: Annotated[int, Field(ge=1)] | None = None
    aliases: list[Text] = []
    notes: Text | None = None
    source: Source


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_card_is_one_flat_document_with_sources(document: str) -> None:
    facts = yaml.safe_load(document)
    assert plain(document) == facts, "one `key: value` a line, each value JSON or a bare word"
    card = Card.model_validate(facts)
    keys = list(facts)
    opening = [key for key in ("name", "label", "driver_names", "aliases", "shared_names", "labels") if key in facts]
    assert keys[: len(opening)] == opening, "the keys that hold names open the document"
    assert card.name not in card.aliases


def test_a_file_is_a_comment_and_its_cards() -> None:
    for path in FAMILY_FILES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# "), path.name
        assert all(isinstance(facts, dict) for facts in yaml.safe_load_all(text)), path.name
    names = [parameter.id for parameter in DOCUMENTS]
    assert names == gpu_names()
    assert len(names) == len(set(names)) >= 209


def test_defaults_and_instances_are_flat_and_sourced() -> None:
    for stem in ("defaults", "instances"):
        text = (catalogue.GPUS / f"{stem}.yaml").read_text(encoding="utf-8")
        assert plain(text) == yaml.safe_load(text)
    for entry in plain((catalogue.GPUS / "instances.yaml").read_text(encoding="utf-8")).values():
        assert Instance.model_validate(entry).gpu in gpu_names()
    for entry in plain((catalogue.GPUS / "defaults.yaml").read_text(encoding="utf-8")).values():
        _sourced(entry["source"])


def test_no_name_belongs_to_two_cards() -> None:
    owners: dict[str, str] = {}
    labels: dict[str, str] = {}
    labelled: dict[str, str] = {}
    shared: list[tuple[str, str]] = []
    for parameter in DOCUMENTS:
        facts = plain(str(parameter.values[0]))
        name = facts["name"]
        for spelling in (name, *facts.get("driver_names", ()), *facts.get("aliases", ())):
            folded = catalogue.short(catalogue.fold(spelling))
            assert owners.setdefault(folded, name) == name, (
                f"{spelling} of {name} is {owners[folded]}'s: use shared_names"
            )
        for label in facts.get("labels", ()):
            value = catalogue.fold(label.partition("=")[2])
            assert labels.setdefault(value, name) == name, label
            labelled[name] = label
        shared += [(spelling, name) for spelling in facts.get("shared_names", ())]
    assert len(labelled) > 150
    for spelling, name in shared:
        assert owners.get(catalogue.short(catalogue.fold(spelling)), name) != name, f"no card has {spelling} as its own"
    assert not set(owners) & set(catalogue.instances())


def test_only_the_asked_card_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(catalogue, "plain", lambda document: (parsed.append(document), plain(document))[1])
    find_gpu("NVIDIA H100 80GB HBM3")
    assert [document.partition("\n")[0] for document in parsed if document.startswith("name: ")] == ["name: h100-sxm"]


def test_a_cold_look_up_imports_no_parser() -> None:
    program = (
        "import sys; from kvplan.hardware import find_gpu; find_gpu('a100'); "
        "print(sorted({'yaml', 'pydantic', 'torch', 'rich'} & set(sys.modules)))"
    )
    root = Path(__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert run.stdout.strip() == "[]"


# Public start-up logs, where the corpus is at hand --------------------------------------------------------------------

CORPUS = Path(os.environ.get("KVPLAN_CORPUS", "/nonexistent")) / "data" / "field_logs.jsonl"
NO_SINGLE_CARD = re.compile(
    r"class|TPU v5e-8|Ascend|WSL"
)  # a guess of the log's reader, a slice of eight, no catalogue


@pytest.mark.skipif(not CORPUS.is_file(), reason="KVPLAN_CORPUS names no corpus")
def test_start_up_logs_name_known_cards_and_print_totals_within_the_interval() -> None:
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    asked = [row for row in rows if row["gpu"] and not NO_SINGLE_CARD.search(row["gpu"])]
    assert len(asked) > 100
    for row in asked:
        gpu = find_gpu(row["gpu"])
        if total := row["total_gpu_memory_gib"]:
            assert gpu.memory_low - 2 <= total * GIB <= gpu.memory_high + 2, (row["gpu"], total)


# Sources --------------------------------------------------------------------------------------------------------------


def test_each_figure_names_its_source_and_estimates_are_marked():
    from_table, recalled = find_gpu("h100-sxm"), find_gpu("l4")
    assert from_table.sources.keys() >= {"bandwidth", "bf16_tflops", "sm_count", "l2_mib"}
    assert from_table.is_sure("bandwidth")
    assert recalled.sources["bandwidth"] == "recalled"
    assert not recalled.is_sure("bandwidth")


def test_one_card_is_shown_with_its_sources(capsys):
    assert run(["gpus", "l4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:4] == ["bandwidth", "300", "GB/s", "~"] and line.endswith("recalled") for line in lines)
    assert any(line.startswith("  memory") and "log: vLLM message" in line for line in lines)


def test_what_is_gone_at_the_start_is_a_range_where_memory_is_the_machines(capsys):
    assert run(["gpus", "gb10"]) == 0
    assert "5.6 to 15.8 GiB" in capsys.readouterr().out
