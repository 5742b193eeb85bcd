"""Plain text that says nothing: the visible part of a simulated reply."""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["Prose"]

_OPENINGS: Final = ("The report", "Each agent", "The first draft", "This summary", "A short review", "The second pass")
_VERBS: Final = ("covers", "compares", "lists", "explains", "checks", "orders")
_OBJECTS: Final = ("the open questions", "two sources", "the main figures", "every step", "the costs", "three options")
_ENDINGS: Final = (
    "and keeps the rest for later",
    "before it draws a conclusion",
    "with one example for each",
    "in the order they came",
    "and notes what is missing",
)
SENTENCES: Final = 64


class Prose:
    """A stock of sentences, drawn once; every text takes some of them in a row."""

    def __init__(self, random: Random) -> None:
        self._random = random
        parts = (_OPENINGS, _VERBS, _OBJECTS, _ENDINGS)
        self._sentences = [" ".join(map(random.choice, parts)) + "." for _ in range(SENTENCES)]

    def sentence(self) -> str:
        """One sentence."""
        return self._random.choice(self._sentences)

    def text(self, characters: int) -> str:
        """Sentences of about so many characters, at least one."""
        at = self._random.randrange(SENTENCES)
        taken: list[str] = []
        length = 0
        while length < characters or not taken:
            taken.append(self._sentences[at])
            length += len(taken[-1]) + 1
            at = (at + 1) % SENTENCES
        return " ".join(taken)
