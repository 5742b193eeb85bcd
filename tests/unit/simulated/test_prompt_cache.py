from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.sources.simulated import cache as cache_module
from pytest_swarm.sources.simulated.cache import Piece, PromptCache, prefixes_of
from pytest_swarm.sources.simulated.profile import Cache

BLOCK = 8
PROFILE = Cache("shared", min_tokens=10, block_tokens=BLOCK, ttl_seconds=60.0)


def words(tokens: int, letter: str = "a") -> str:
    return letter * (4 * tokens)


def blocks(text: str) -> list[str]:
    return [text[begin : begin + 4 * BLOCK] for begin in range(0, len(text), 4 * BLOCK)]


def used(cache: PromptCache, *texts: str | Piece, now: float = 0.0) -> int:
    """Tokens read by a prompt that is written after."""
    pieces = [text if isinstance(text, Piece) else Piece(text) for text in texts]
    prefixes = prefixes_of(pieces, BLOCK)
    read = cache.read(prefixes, now)
    cache.write(prefixes, now, now)
    return read


def test_the_same_prompt_again_is_read_as_a_whole() -> None:
    cache = PromptCache(PROFILE)
    assert used(cache, words(20)) == 0
    assert used(cache, words(20)) == 20


def test_a_common_beginning_is_read_in_blocks() -> None:
    cache = PromptCache(PROFILE)
    used(cache, words(20) + words(20, "b"))
    assert used(cache, words(20) + words(33, "c")) == 16
    assert used(cache, words(5, "x") + words(40)) == 0


def test_a_conversation_reads_its_earlier_turns() -> None:
    cache = PromptCache(PROFILE)
    used(cache, words(13), words(7, "u"))
    assert used(cache, words(13), words(7, "u"), words(9, "v")) == 20


def test_the_border_between_pieces_is_a_part_of_the_prompt() -> None:
    cache = PromptCache(PROFILE)
    used(cache, words(12), words(12))
    assert used(cache, words(24)) == 0


def test_a_short_prefix_is_not_cached() -> None:
    cache = PromptCache(PROFILE)
    used(cache, words(9))
    assert used(cache, words(9)) == 0


def test_an_entry_lives_as_long_as_it_is_used_within_its_time() -> None:
    cache = PromptCache(PROFILE)
    used(cache, words(20), now=0.0)
    assert used(cache, words(20), now=59.0) == 20
    assert used(cache, words(20), now=118.0) == 20
    assert used(cache, words(20), now=178.0) == 0


def test_reading_alone_keeps_an_entry_alive() -> None:
    cache = PromptCache(PROFILE)
    prefixes = prefixes_of([Piece(words(20))], BLOCK)
    cache.write(prefixes, 0.0, 0.0)
    assert cache.read(prefixes, 50.0) == 20
    assert cache.read(prefixes, 100.0) == 20


def test_nothing_is_read_before_it_has_been_worked_on() -> None:
    cache = PromptCache(PROFILE)
    prefixes = prefixes_of([Piece(words(20))], BLOCK)
    cache.write(prefixes, 0.0, 2.0)
    assert cache.read(prefixes, 1.0) == 0
    cache.write(prefixes, 1.0, 3.0)
    assert cache.read(prefixes, 2.0) == 20


def test_marks_decide_what_is_written() -> None:
    cache = PromptCache(PROFILE)
    used(cache, Piece(words(16), marked=True), words(16, "q"))
    assert used(cache, Piece(words(16), marked=True), words(16, "q")) == 16
    assert [prefix.tokens for prefix in cache.writable(prefixes_of([Piece(words(12), marked=True)], BLOCK))] == [12]


def test_the_prefix_that_was_used_longest_ago_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "ENTRIES", 2)
    cache = PromptCache(PROFILE)
    for letter in "abc":
        used(cache, words(12, letter).ljust(48), now=0.0)
    prefixes = {letter: prefixes_of([Piece(words(12, letter).ljust(48))], BLOCK) for letter in "ac"}
    assert cache.read(prefixes["a"], 0.0) == 0
    assert cache.read(prefixes["c"], 0.0) == 12


@given(st.lists(st.text(max_size=90), max_size=5), st.lists(st.text(max_size=90), max_size=5))
def test_two_prompts_share_prefixes_exactly_as_far_as_they_agree(one: list[str], other: list[str]) -> None:
    first, second = ([Piece(text) for text in texts] for texts in (one, other))
    shared = {prefix.digest for prefix in prefixes_of(first, BLOCK)} & {
        prefix.digest for prefix in prefixes_of(second, BLOCK)
    }
    agreed = 0
    for a, b in zip(one, other, strict=False):
        agreed += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(blocks(a), blocks(b), strict=False)))
        if a != b:
            break
    assert len(shared) == agreed


def test_any_text_can_be_cached() -> None:
    assert prefixes_of([Piece("\ud800 lone surrogate")], BLOCK)[0].tokens == 4
