"""Price files: as people write them, and as they break."""

from __future__ import annotations

import os

import pytest

from kvplan.errors import UnknownGpu, UnreadableInput
from kvplan.fit.prices import LIMIT, Offer, read_prices


def written(folder, text: str | bytes):
    path = folder / "prices.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_names_counts_and_instance_types(tmp_path):
    prices = read_prices(
        written(tmp_path, "currency: EUR\nL4: 0.8\nNVIDIA H100 80GB HBM3: 2.5\nh100-sxm x8: 18\np5.48xlarge: 17.5\n")
    )
    assert prices.currency == "EUR"
    assert prices.offers == {"l4": (Offer(1, 0.8),), "h100-sxm": (Offer(1, 2.5), Offer(8, 18.0), Offer(8, 17.5))}


@pytest.mark.parametrize(("gpus", "cost"), [(1, 2.5), (4, 10.0), (8, 17.5), (9, 22.5), (16, 35.0)])
def test_the_cheapest_offer_counts_and_units_are_whole(tmp_path, gpus, cost):
    assert read_prices(written(tmp_path, "h100-sxm: 2.5\np5.48xlarge: 17.5\n")).cost("h100-sxm", gpus) == cost


def test_a_price_of_nothing_is_a_price(tmp_path):
    assert read_prices(written(tmp_path, "h100-sxm: 0")).cost("h100-sxm", 8) == 0


@pytest.mark.parametrize(
    ("text", "error", "message", "hint"),
    [
        ("h1000: 1\n", UnknownGpu, "prices.yaml:1: unknown GPU 'h1000'", "did you mean h100"),
        ("l4: 1\nmi300z: 2", UnknownGpu, "prices.yaml:2: unknown GPU 'mi300z'", "mi300"),
        ("l4: cheap", UnreadableInput, "prices.yaml:1: cheap is no price", "such as 2.49"),
        ("l4: -1", UnreadableInput, "prices.yaml:1: -1 is no price", "such as 2.49"),
        ("l4: .nan", UnreadableInput, "prices.yaml:1: .nan is no price", "such as 2.49"),
        ("l4: 1e400", UnreadableInput, "prices.yaml:1: 1e400 is no price", "such as 2.49"),
        ("l4: " + "9" * 400, UnreadableInput, "is no price", "such as 2.49"),
        ("l4: 0x10", UnreadableInput, "is no price", "such as 2.49"),
        ("l4:", UnreadableInput, "is no price", "such as 2.49"),
        ("l4: 1\nl4: 2\n", UnreadableInput, "prices.yaml:2: l4 is there twice", "leave one"),
        ("l4: {price: 1}", UnreadableInput, "prices.yaml:1: a card and its price were expected", "l4: 0.80"),
        ("? [l4]\n: 1", UnreadableInput, "prices.yaml:1: a card and its price were expected", "l4: 0.80"),
        ("- l4", UnreadableInput, "holds no mapping", "l4: 0.80"),
        ("", UnreadableInput, "holds no mapping", "l4: 0.80"),
        ("currency: EUR", UnreadableInput, "holds no prices", "l4: 0.80"),
        ("currency: 'a\x1b[2J'\nl4: 1", UnreadableInput, "is not YAML", "l4: 0.80"),
        ('currency: "a\\e[2J"\nl4: 1', UnreadableInput, "is no currency", "EUR"),
        ("l4: [1", UnreadableInput, "is not YAML", "l4: 0.80"),
        ("l4: 1\n---\nl40s: 2\n", UnreadableInput, "is not YAML", "l4: 0.80"),
        ("[" * 2000, UnreadableInput, "is not YAML", "l4: 0.80"),
        ("a: &a [1,2]\nb: *a", UnreadableInput, "a card and its price were expected", "l4: 0.80"),
        ("!!python/object/apply:os.system [l4]: 1", UnreadableInput, "a card and its price were expected", "l4: 0.80"),
        (b"\xff\xfe\x00", UnreadableInput, "is not UTF-8", "YAML"),
        ("#" * (LIMIT + 2), UnreadableInput, "is larger than 64 KiB", "one line a card"),
    ],
)
def test_what_is_no_price_file(tmp_path, text, error, message, hint):
    with pytest.raises(error) as told:
        read_prices(written(tmp_path, text))
    assert message in told.value.message
    assert hint in told.value.hint
    assert "\x1b" not in told.value.message


def test_a_missing_file_a_folder_and_a_fifo_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("none.yaml", ".", "fifo"):
        with pytest.raises(UnreadableInput):
            read_prices(tmp_path / name)
