"""Which line of code blocks an event loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pytest_swarm.clock import real_now
from pytest_swarm.swarm.blockage import line_of, watched
from pytest_swarm.swarm.pulse import Pulse, pulse_of_loop

HERE = Path(__file__)


def found(work: Callable[[], Awaitable[object]]) -> str | None:
    async def run() -> str | None:
        pulse = Pulse(real_now, lambda: 0)
        with watched(pulse) as blockage, pulse_of_loop(pulse, asyncio.get_running_loop()):
            await work()
        return blockage.worst

    return asyncio.run(run())


def place(text: str, function: str) -> str:
    """Where the first line with this text is, as it is told."""
    number = next(number for number, line in enumerate(HERE.read_text().splitlines(), 1) if text in line)
    path = HERE.relative_to(Path.cwd()) if HERE.is_relative_to(Path.cwd()) else HERE.name
    return f"{path}:{number} in {function}"


def sleep_here() -> None:
    time.sleep(0.4)  # asleep


def count_here() -> None:
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        pass


async def in_a_library() -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)  # waits for a process


def test_a_sleeping_function_is_named_by_its_line() -> None:
    async def body() -> None:
        sleep_here()

    assert found(body) == place("time.sleep(0.4)  # asleep", "sleep_here")


def test_so_is_one_that_computes() -> None:
    async def body() -> None:
        count_here()

    where = found(body)
    assert where is not None
    assert where.endswith("in count_here")


def test_what_blocks_in_a_library_is_named_by_the_line_that_called_it() -> None:
    assert found(in_a_library) == place("check=True)  # waits for", "in_a_library")


def test_nothing_is_named_where_the_loop_only_waits() -> None:
    assert found(lambda: asyncio.sleep(0.3)) is None


def test_a_loop_at_rest_is_nobody_s_fault() -> None:
    """Where the machine had no time for it: the innermost frame is the one in which the loop waits."""
    seen: list[str | None] = []

    async def run() -> None:
        thread = threading.get_ident()
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> None:
            time.sleep(0.2)
            seen.append(line_of(sys._current_frames()[thread]))
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=look).start()
        await done.wait()

    asyncio.run(run())
    assert seen == [None]


def test_this_package_has_nobody_else_to_blame() -> None:
    seen: list[str | None] = []

    def now() -> float:
        frame = inspect.currentframe()
        assert frame is not None
        # The caller is the package: a pulse that asks what time it is.
        seen.append(line_of(frame.f_back))
        return 0.0

    Pulse(now, lambda: 0).beat()
    assert seen == [None, None]


def test_without_a_frame_there_is_no_line() -> None:
    assert line_of(None) is None
