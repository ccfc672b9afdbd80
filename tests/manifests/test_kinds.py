"""Each kind of manifest: what is found in it, and where."""

from __future__ import annotations

import pkgutil

import pytest
from manifests.kind_cases import CASES
from manifests.reading import reading_of, values

from kvplan.manifests import kinds
from kvplan.manifests.deployment import Deployment


def facts(found: Deployment) -> dict[str, object]:
    return {
        "where": found.where, "engine": found.engine, "model": found.model, "source": found.source, "role": found.role,
        "release": found.release, "served": found.served_model_name, "unresolved": found.unresolved,
        "confidence": found.confidence, "gpus": found.topology.gpus, "nodes": found.topology.nodes,
        "gpu": found.topology.gpu, "replicas": found.topology.replicas,
    }  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_kind(name):
    text, expected = CASES[name]
    reading = reading_of(text)
    assert not reading.problems
    assert len(reading.deployments) == len(expected)
    for found, want in zip(reading.deployments, expected, strict=True):
        told = facts(found)
        assert {key: told[key] for key in want if key in told} == {key: want[key] for key in want if key in told}
        assert want.get("args", {}).items() <= values(found).items()
        assert {key: found.place_of(key).line for key in want.get("lines", {})} == want.get("lines", {})
        assert found.topology.nodes == want.get("nodes", 1)
        assert found.engine == want.get("engine", "vllm")


def test_every_kind_has_a_case():
    modules = {module.name for module in pkgutil.iter_modules(kinds.__path__)}
    assert modules == {name.partition(":")[0] for name in CASES}


def test_nothing_is_reported_that_is_not_written():
    for text, _ in CASES.values():
        folded = text.replace("-", "").replace("_", "").lower()
        for found in reading_of(text).deployments:
            for argument in found.arguments.values():
                assert argument.flag.lstrip("-").partition(".")[0].replace("-", "").replace("_", "").lower() in folded


@pytest.mark.parametrize(
    "text",
    [
        "on: push\njobs: {a: {steps: [{run: vllm serve org/m}]}}",
        "apiVersion: v1\nkind: Service\nmetadata: {name: vllm}",
        "- a\n- vllm",
        "vllm",
        "apiVersion: a/v1\nkind: InferenceService\nspec: {predictor: {model: {modelFormat: {name: sklearn}}}} # vllm",
        "kind: Deployment\napiVersion: apps/v1\nspec: [vllm]",
        "services: {vllm: [x]}\n",
        "services: {vllm: {image: vllm/vllm-openai}}",
        "servingEngineSpec: {modelSpec: [x, {name: y}]}",
        "modelArtifacts: vllm\ndecode: {containers: [x]}",
        "apiVersion: kaito.sh/v1beta1\nkind: Workspace\ninference: {preset: x}",
        "run: vllm\nresources: x",
    ],
)
def test_what_deploys_nothing_gives_nothing(text):
    reading = reading_of(text)
    assert (reading.deployments, reading.problems) == ([], [])


def test_objects_are_joined_over_files(tmp_path, monkeypatch):
    from kvplan.manifests.read import read_paths

    monkeypatch.chdir(tmp_path)
    first, second = CASES["kaito"][0].split("---\n")
    (tmp_path / "params.yaml").write_text(first)
    (tmp_path / "ws.yaml").write_text(second)
    found = read_paths(["."]).deployments
    assert [each.value("tensor_parallel_size") for each in found] == [2]


def test_a_bad_document_hides_no_other():
    text = "a: [\n---\n" + CASES["kubeai"][0] + "---\n<<<<<<< HEAD\n"
    reading = reading_of(text)
    assert [each.model for each in reading.deployments] == ["org/m"]
    assert [(problem.place.line, problem.grave) for problem in reading.problems] == [(2, True), (8, True)]


def test_a_template_is_said_to_want_rendering():
    problem = reading_of("{{- if .Values.vllm }}\nkind: Pod\n{{- end }}\n").problems[0]
    assert "helm template" in problem.message
    assert not problem.grave
