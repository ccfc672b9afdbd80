"""--save: what was measured of a card is kept, used and named by later plans, and left out by --no-local."""

from __future__ import annotations

import json

import pytest
from fake_card import FakeFactory

from kvplan.errors import UnreadableInput, UsageError
from kvplan.hardware import find_gpu
from kvplan.planner import plan
from kvplan.units import GIB, MIB
from kvplan.verify.run import verify
from kvplan.verify.saved import observed_card, save_card

LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KVPLAN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def found(tmp_path):
    return verify(LLAMA, factory=FakeFactory(str(tmp_path), total=139 * GIB, context=500 * MIB))


def test_saved_card_is_used_and_named(found, home):
    assert save_card(found) == ["saved for later plans: 139.00 GiB usable, 0.49 GiB of context"]
    data = json.loads((home / "cards/h200-sxm.json").read_text())
    assert data["context_bytes"] == 500 * MIB
    assert data["read_bandwidth"] == 4_400_000_000_000
    made = plan(LLAMA, gpu="h200", local=True)
    assert made.gpu.memory_bytes == 139 * GIB
    assert made.gpu.start_loss_bytes == 500 * MIB
    assert made.gpu.bandwidth == 4_400_000_000_000
    note = next(note for note in made.warnings if note.code == "card_observed")
    assert "measured on this machine by verify" in note.message
    assert note.hint == "--no-local leaves it out"


def test_other_plans_do_not_read_it(found):
    save_card(found)
    assert plan(LLAMA, gpu="h200").gpu == find_gpu("h200")
    assert not any(note.code == "card_observed" for note in plan(LLAMA, gpu="h100", local=True).warnings)


@pytest.mark.parametrize("changed", [{"memory_bytes": 500 * GIB}, {"context_bytes": 100 * GIB}])
def test_what_no_such_card_measures_is_left_out_with_a_note(found, home, changed):
    save_card(found)
    path = home / "cards/h200-sxm.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    card, (note,) = observed_card(find_gpu("h200"))
    assert (card, note.code) == (find_gpu("h200"), "card_left_out")


def test_nothing_saved():
    card = find_gpu("h200")
    assert observed_card(card) == (card, ())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "\x00\xff", '{"gpu": 1}', "[" * 5000,
     '{"gpu": "h", "memory_bytes": -1, "context_bytes": 1, "read_bandwidth": 1, "copy_bandwidth": 1, "saved": "x"}',
     '{"gpu": "h", "memory_bytes": 1, "context_bytes": 1, "read_bandwidth": 1, "copy_bandwidth": 1, "saved": 5}'],
)  # fmt: skip
def test_a_file_that_is_no_measurement(home, text):
    (home / "cards").mkdir(parents=True)
    (home / "cards/h200-sxm.json").write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableInput, match="is no measurement of a card"):
        observed_card(find_gpu("h200"))


def test_a_folder_that_cannot_be_written(found, home):
    home.write_text("a file where the folder should be")
    with pytest.raises(UsageError, match="cannot write"):
        save_card(found)
