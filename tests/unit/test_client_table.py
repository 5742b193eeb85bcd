"""Every claim of docs/clients.md names a test, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^(\d+)\. `(\w+)`$", PAGE, re.MULTILINE)


def test_every_number_of_the_page_is_in_its_list_and_the_other_way_round() -> None:
    numbers = [int(number) for number, _ in LISTED]
    assert numbers == list(range(1, len(numbers) + 1))
    used = {int(number) for number in re.findall(r"\[(\d+)\]", PAGE)}
    assert used == set(numbers)


def test_every_test_of_the_list_exists() -> None:
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {name for _, name in LISTED} <= tests
