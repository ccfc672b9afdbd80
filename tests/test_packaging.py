"""The packaging guard: what is built is what the checkout holds, under one name, and runs by itself."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """Build the sdist, unpack it somewhere else, and build the wheel from that."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*build, "--sdist", str(ROOT)], check=True, capture_output=True)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    subprocess.run([*build, "--wheel", str(out / sdist.name.removesuffix(".tar.gz"))], check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_one_package_and_its_metadata(built):
    tops = {name.partition("/")[0] for name in names(built[1])}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kvplan"}
    assert len(tops) == 2


@pytest.mark.parametrize("folder", ["profiles", "kernels"])
def test_profiles_and_kernels_go_with_it(built, folder):
    inside = {
        name.removeprefix(f"kvplan/_assets/{folder}/") for name in names(built[1]) if f"_assets/{folder}/" in name
    }
    here = {
        str(path.relative_to(ROOT / folder))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == here


def test_the_package_is_typed_and_whole(built):
    inside = set(names(built[1]))
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "kvplan").rglob("*.py") if "_assets" not in path.parts}
    assert {"kvplan/py.typed", *here} <= inside


def test_kernels_stay_a_namespace_folder():
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_it_runs_in_a_venv_where_nothing_else_is(built, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(site)
    code = "import kvplan, kvplan.kernels; from kvplan.hardware import gpu_names; print(len(gpu_names())); "
    code += "print(kvplan.plan('meta-llama/Llama-3.1-8B', gpu='h100').kv.bytes_per_token); print(kvplan.__file__)"
    told = subprocess.run([home / "bin/python", "-I", "-c", code], cwd="/", capture_output=True, text=True, check=True)
    cards, size, file = told.stdout.split()
    assert int(cards) > 200
    assert int(size) == 131_072
    assert str(site.resolve()) in str(Path(file).resolve())
