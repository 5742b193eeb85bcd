"""The live line: what it says, how often it is drawn, and that it never stands in the way."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.reports import progress as module
from pytest_swarm.reports.figures import cells
from pytest_swarm.reports.progress import Progress, ProgressLine, progress_text

HALF = Progress("test_summarise[gpt]", 430, 1000, 50, 2.1, 3, 0.12)


class Screen(io.StringIO):
    """A terminal that is no file."""

    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


def test_the_line_says_how_far_and_how_well():
    text = "test_summarise[gpt] 430/1000 done · 50 in flight · p95 2.10s · 3 failed · $0.12"
    assert progress_text(HALF, 80) == text


def test_what_is_not_known_yet_is_not_said():
    assert progress_text(Progress("test_a", 0, None, 8), 80) == "test_a 0 done · 8 in flight"


@given(st.text(max_size=100), st.integers(20, 120))
def test_the_line_fits_whatever_the_name(name, width):
    text = progress_text(Progress(name, 430, 1000, 50, 2.1, 3, 0.12), width)
    assert cells(text) <= width
    assert "\n" not in text


def test_a_long_name_gives_way_to_the_figures():
    text = progress_text(Progress("test_" + "long_" * 20, 430, 1000, 50, 2.1, 3, 0.12), 79)
    assert text.endswith(" 430/1000 done · 50 in flight · p95 2.10s · 3 failed · $0.12")


def test_it_is_drawn_five_times_a_second_and_asks_for_the_state_only_then():
    screen, clock, asked = Screen(), Clock(), []
    line = ProgressLine(screen, clock)
    for tick in range(100):
        clock.now = 100.0 + tick / 64
        line.update(lambda: asked.append(clock.now) or HALF)
    assert len(asked) == 8
    assert screen.getvalue().count("\r\x1b[K") == 8
    assert min(later - sooner for sooner, later in pairwise(asked)) >= 0.2


def test_erasing_leaves_an_empty_line_and_the_next_state_is_drawn_at_once():
    screen, clock = Screen(), Clock()
    line = ProgressLine(screen, clock)
    line.update(lambda: HALF)
    line.erase()
    assert screen.getvalue().endswith("$0.12\r\x1b[K")
    line.update(lambda: HALF)
    assert screen.getvalue().endswith("$0.12")


def test_erasing_what_was_never_drawn_writes_nothing():
    screen = Screen()
    ProgressLine(screen, Clock()).erase()
    assert screen.getvalue() == ""


def test_it_is_silent_on_anything_but_a_terminal(monkeypatch):
    file = io.StringIO()
    ProgressLine(file, Clock()).update(lambda: pytest.fail("the state was asked for"))
    assert file.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    ProgressLine(Screen(), Clock()).update(lambda: pytest.fail("the state was asked for"))


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(5, "gone"), ValueError("closed file")])
def test_a_terminal_that_is_gone_ends_the_line_and_not_the_run(error):
    class Gone(Screen):
        def write(self, text):
            raise error

    clock = Clock()
    line = ProgressLine(Gone(), clock)
    line.update(lambda: HALF)
    clock.now += 10
    line.update(lambda: pytest.fail("the state was asked for"))
    line.erase()


def test_one_column_stays_free(monkeypatch):
    monkeypatch.setattr(module.os, "get_terminal_size", lambda descriptor: module.os.terminal_size((60, 24)))

    class Real(Screen):
        def fileno(self):
            return 2

    screen = Real()
    ProgressLine(screen, Clock()).update(lambda: Progress("test_" + "long_" * 20, 430, 1000, 50, 2.1, 3, 0.12))
    assert cells(screen.getvalue().removeprefix("\r\x1b[K")) == 59
