"""`--swarm-record`: what a user sees, what is on disk, and what an interruption leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: F401 - for the whole module: pytester forgets what a test imports first

from pytest_swarm.sources.cassette.file import Cassette, read_cassette
from tests.plugin.conftest import HEADER, Run
from tests.support.small_gateway import SmallGateway
from tests.support.suites import untraced

CHAT = """
@pytest.mark.swarm(tasks=4, concurrency=2)
async def test_chat(gateway, agent):
    await gateway.chat(f"Hello {agent.index}", stream=True)
"""
PLACE = Path("cassettes/test_it/test_chat.yaml")


def cassette(pytester: pytest.Pytester, place: Path = PLACE) -> Cassette:
    return read_cassette(pytester.path / place)


def files(pytester: pytest.Pytester) -> list[str]:
    folder = pytester.path / "cassettes"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


SECRET = "correct-horse-battery-99"


def test_a_live_swarm_is_recorded_without_its_secrets(
    suite: Run, pytester: pytest.Pytester, report: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_API_KEY", SECRET)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nswarm_redact_fields = customer\n")
    code = CHAT.replace("stream=True", "stream=True, user='bob-the-user', customer={'name': 'carol'}")
    code = code.replace("@pytest", '@pytest.mark.sla("p99 < 0.001ms")\n@pytest')
    result = suite(code, "--swarm-record", f"--swarm-header=x-team: {SECRET}-team")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "swarm: 1 swarm test, live gateway http://127.0.0.1*",
            "swarm: recording swarms that have no cassette to cassettes/, playing the others from it",
            "*note *recorded 4 exchanges to*",
        ]
    )
    assert any("recorded 4 exchanges" in note for note in report()["tests"][0]["notes"])
    found = cassette(pytester)
    assert (found.complete, found.timed, found.models) == (True, True, ("echo",))
    assert {one.agent for one in found.interactions} == {0, 1, 2, 3}
    assert {one.source for one in found.interactions} == {"live"}
    assert all(sum(size for _, size in one.chunks) == len(one.body) > 0 for one in found.interactions)
    text = (pytester.path / PLACE).read_text()
    for gone in (SECRET, "bob-the-user", "carol", "uthorization", "x-team"):
        assert gone not in text
    assert "Hello 0" in text


def test_every_swarm_has_a_file_of_its_own(suite: Run, pytester: pytest.Pytester) -> None:
    code = """
import pytest_asyncio

@pytest.mark.parametrize("model", ["gpt-6-agent", "kimi-k2.5-swarm"])
@pytest.mark.swarm(2, timeout=60)
async def test_both(gateway, model):
    await gateway.chat("hi", model=model)

@pytest.mark.asyncio
async def test_inside(swarm, gateway):
    async def body(gateway):
        await gateway.chat("inside")
    await swarm.run(body, tasks=2)
    await swarm.run(body, tasks=3)
    await gateway.chat("beside")

@pytest.mark.swarm(2)
async def test_nothing(gateway):
    pass

class TestIt:
    @pytest.mark.asyncio
    async def test_unmarked(self, gateway):
        await gateway.chat("one")

@pytest_asyncio.fixture
async def warm(gateway):
    await gateway.chat("before")
    yield
    await gateway.chat("after")

@pytest.mark.swarm(2)
async def test_fixture(gateway, warm):
    await gateway.chat("hi")
"""
    suite(code, "--swarm-record", gateway=None)
    found = {name: cassette(pytester, Path("cassettes") / name) for name in files(pytester)}
    counts = {name.removeprefix("test_it/"): len(one.interactions) for name, one in found.items()}
    unmarked = next(name for name in counts if name.startswith("TestIt.test_unmarked"))
    assert counts == {
        "test_both[gpt-6-agent].yaml": 2,
        "test_both[kimi-k2.5-swarm].yaml": 2,
        "test_fixture.yaml": 4,
        "test_inside.swarm-1.yaml": 2,
        "test_inside.swarm-2.yaml": 3,
        "test_inside.yaml": 1,
        "test_nothing.yaml": 0,
        unmarked: 1,
    }
    assert {one.source for file in found.values() for one in file.interactions} == {"simulated"}
    assert found["test_it/test_both[gpt-6-agent].yaml"].simulated == "gpt-6-agent;1"
    around = [one for one in found["test_it/test_fixture.yaml"].interactions if one.agent is None]
    assert [(one.sequence, b"before" in one.request.body) for one in around] == [(0, True), (1, False)]


def test_an_older_cassette_is_kept_until_a_new_one_is_whole(
    suite: Run, pytester: pytest.Pytester, report: Callable[[], Any]
) -> None:
    suite(CHAT, "--swarm-record")
    before = (pytester.path / PLACE).read_bytes()
    result = suite(CHAT + CHAT.replace("test_chat", "test_more"), "--swarm-record")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["swarm: recording swarms that have no cassette to cassettes/, playing the others from it"]
    )
    assert [test["gateway"]["kind"] for test in report()["tests"]] == ["replay", "live"]
    assert (pytester.path / PLACE).read_bytes() == before
    assert files(pytester) == ["test_it/test_chat.yaml", "test_it/test_more.yaml"]

    anew = ("--swarm-record", "--swarm-record-mode=all")
    stopped = CHAT.replace("    await", "    if agent.index == 3: pytest.exit('enough')\n    await")
    result = suite(stopped, *anew)
    result.stdout.fnmatch_lines(["swarm: recording every swarm anew to cassettes/"])
    assert (pytester.path / PLACE).read_bytes() == before
    part = cassette(pytester, PLACE.with_name("test_chat.yaml.part"))
    assert not part.complete
    assert 0 < len(part.interactions) <= 4

    suite(CHAT.replace("Hello", "Good morning"), *anew).assert_outcomes(passed=1)
    assert all(b"Good morning" in one.request.body for one in cassette(pytester).interactions)
    assert files(pytester) == ["test_it/test_chat.yaml", "test_it/test_more.yaml"]


def test_a_killed_session_leaves_every_finished_exchange(
    pytester: pytest.Pytester, small_gateway: SmallGateway
) -> None:
    code = """
@pytest.mark.swarm(tasks=10_000, concurrency=4)
async def test_chat(gateway, agent):
    await gateway.chat(f"Hello {agent.index}")
    with open("told.txt", "a") as told:
        told.write("x")
"""
    pytester.makepyfile(test_it=HEADER + code)
    options = [f"--swarm-base-url={small_gateway.base_url}", "--swarm-model=echo", "--swarm-record"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options], cwd=pytester.path, env=untraced(), stdout=subprocess.DEVNULL
    )
    told = pytester.path / "told.txt"
    until = time.monotonic() + 20
    while not (told.exists() and told.stat().st_size > 50):
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    part = cassette(pytester, PLACE.with_name("test_chat.yaml.part"))
    assert len(part.interactions) >= told.stat().st_size


def test_a_sample_is_asked_again_and_compared(
    suite: Run, pytester: pytest.Pytester, small_gateway: SmallGateway
) -> None:
    code = CHAT + CHAT.replace("test_chat", "test_moved").replace("async def", "def").replace("await ", "")
    suite(code, "--swarm-record").assert_outcomes(passed=2)
    moved = pytester.path / PLACE.with_name("test_moved.yaml")
    moved.write_text(moved.read_text().replace('"model": "echo"', '"model": "status-503"'))
    before = (pytester.path / PLACE).read_bytes()
    asked = len(small_gateway.requests)
    code = code.replace("gateway.chat(", "gateway.never(").replace("tasks=4", "tasks=40")
    code = code.replace("@pytest", '@pytest.mark.sla("p99 < 0.001ms")\n@pytest') + CHAT.replace("test_chat", "test_new")
    result = suite(code, "--swarm-record", "--swarm-record-mode=check")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "swarm: asking again a sample of each cassette in cassettes/",
            "swarm: test_it.py::test_new has no cassette to check; record it with --swarm-record",
            "*what was recorded as ok is answered as server_error*",
            "*drift: asked again 4 of 4 exchanges in*",
            "*drift: outcome: as recorded",
            "*drift: shape: as recorded",
            "*drift: output tokens: median 5, recorded 5 (+0%)",
            "*drift: time to the end: median 0.0*",
            "*drift: outcome: 4 of 4 moved: ok -> server_error (4)",
        ]
    )
    assert len(small_gateway.requests) == asked + 8
    assert (pytester.path / PLACE).read_bytes() == before
    assert files(pytester) == ["test_it/test_chat.yaml", "test_it/test_moved.yaml"]


def test_workers_of_xdist_record_each_and_merge(suite: Run, pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nswarm_cassette_format = json\n")
    code = CHAT + CHAT.replace("test_chat", "test_more")
    options = ("--dist=each", "--tx=2*popen", "--swarm-cassette-dir=elsewhere")
    suite(code, "--swarm-record", *options).assert_outcomes(passed=4)
    folder = pytester.path / "elsewhere" / "test_it"
    assert sorted(path.name for path in folder.iterdir()) == ["test_chat.json", "test_more.json"]
    for path in folder.iterdir():
        assert sorted(one.agent or 0 for one in read_cassette(path).interactions) == [0, 1, 2, 3]


def test_a_secret_fails_its_test_and_is_not_on_disk(suite: Run, pytester: pytest.Pytester) -> None:
    code = """
import pytest_asyncio

@pytest.fixture(autouse=True, scope="session")
def service():
    os.environ["MY_SERVICE_TOKEN"] = "correct-horse-battery-99"

@pytest_asyncio.fixture
async def late(gateway):
    yield
    await gateway.chat(os.environ["MY_SERVICE_TOKEN"])

@pytest.mark.swarm(2)
async def test_late(gateway, late):
    await gateway.chat("hi")

@pytest.mark.swarm(2)
async def test_prompt(gateway):
    await gateway.chat(os.environ["MY_SERVICE_TOKEN"])
"""
    result = suite(code, "--swarm-record", gateway=None)
    result.assert_outcomes(passed=1, errors=1, failed=1)
    place = "messages[[]0[]].content holds the value of the environment variable MY_SERVICE_TOKEN; *"
    result.stdout.fnmatch_lines(
        [f"swarm: no cassette *exchange 0 of no task in run 0, *{place}", f"swarm: no cassette *of task 0 in *{place}"]
    )
    assert files(pytester) == []
