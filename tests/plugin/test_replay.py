"""`--swarm-replay`: the same figures again without a server, and what is said when that cannot be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.small_gateway import SmallGateway

SECONDS = 120.0
INI = """[pytest]
asyncio_default_fixture_loop_scope = function
swarm_match_ignore = metadata.trace
swarm_model = echo
"""
SUITE = """
import asyncio, os, socket, urllib.request
import pytest

CHANGED = bool(os.environ.get("CHANGED"))

@pytest.mark.swarm(tasks=6, concurrency=2)
@pytest.mark.sla("p99 < 30s", "success_rate >= 0%")
async def test_chat(gateway, agent):
    word = "Hallo" if CHANGED else "Hello"
    try:
        reply = await gateway.chat(f"{word} {agent.index}", stream=agent.index % 2 == 0)
    except Exception:
        assert CHANGED
    else:
        assert reply.text == f"Hello {agent.index}"

@pytest.mark.swarm(tasks=3, timeout={"first_token": 0.2})
@pytest.mark.sla("success_rate >= 0%")
async def test_errors(gateway, agent):
    await gateway.chat("x", model=["hang", "status-503", "echo"][agent.index])

@pytest.mark.swarm(tasks=12, concurrency=12 if CHANGED else 2, model="slow")
async def test_slow(gateway, agent):
    await gateway.chat(f"{agent.index}")

@pytest.mark.swarm(tasks=12, concurrency=2, model="slow", limit="2/s burst 1" if CHANGED else None)
async def test_limited(gateway, agent):
    await gateway.chat(f"{agent.index}")

@pytest.mark.swarm(tasks=4 if CHANGED else 6)
async def test_fewer(gateway, agent):
    await gateway.chat(f"{agent.index}")

@pytest.mark.swarm(tasks=2, repeat=2 if CHANGED else 1)
async def test_more(gateway, agent):
    await gateway.chat(f"{agent.index}")

@pytest.mark.swarm(tasks=2)
async def test_traced(gateway, agent):
    await gateway.chat("x", metadata={"trace": os.urandom(4).hex()})

@pytest.mark.asyncio
async def test_inside(swarm, gateway):
    async def body(gateway):
        await gateway.chat("inside")
    result = await swarm.run(body, tasks=2)
    assert result["success_rate"] == 1
    try:
        await gateway.chat("beyond" if CHANGED else "beside")
    except Exception:
        assert CHANGED

@pytest.mark.asyncio
async def test_inner(swarm):
    async def body(gateway):
        try:
            await gateway.chat("within" if CHANGED else "inner")
        except Exception:
            assert CHANGED
    await swarm.run(body, tasks=2)

@pytest.mark.swarm(tasks=2)
@pytest.mark.sla("success_rate >= 0%")
async def test_outwards(gateway, agent):
    await gateway.chat(f"Hello {agent.index}")
    if CHANGED:
        try:
            if agent.index:
                await asyncio.to_thread(urllib.request.urlopen, "http://metrics.example.com/")
            else:
                socket.create_connection(("192.0.2.1", 80), timeout=1)
        except OSError:
            pass

def test_sockets_are_as_before():
    assert "connect" not in vars(socket.socket)
    assert socket.getaddrinfo.__module__ == "socket"

@pytest.mark.swarm(tasks=2)
async def test_clients(gateway, agent):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("openai")
    await gateway.openai().chat.completions.create(model="echo", messages=[{"role": "user", "content": "sdk"}])
    # Wherever its client would send it.
    async with httpx.AsyncClient(base_url=os.environ.get("GATEWAY", "http://127.0.0.1:9/v1")) as client:
        body = {"model": "echo", "messages": [{"role": "user", "content": f"mine {agent.index}"}]}
        response = await client.post("/chat/completions", json=body)
        assert response.json()["choices"][0]["message"]["content"] == f"mine {agent.index}"
        if CHANGED:
            await client.get("http://example.com/")
    import aiohttp
    async with aiohttp.ClientSession() as session:
        url = os.environ.get("GATEWAY", "http://127.0.0.1:9/v1")
        body = {"model": "echo", "stream": True, "messages": [{"role": "user", "content": f"aio {agent.index}"}]}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            assert b"[DONE]" in await response.read()

@pytest.mark.swarm(tasks=3)
def test_sync(gateway, agent):
    gateway.chat(f"Hello {agent.index}", stream=True)

@pytest.mark.swarm(tasks=2, model="priced")
@pytest.mark.sla("cost > $0.0019")
async def test_priced(gateway):
    await gateway.chat("x")

@pytest.mark.swarm(10)
@pytest.mark.swarm_search("concurrency", low=1, high=4, sla=["p50 < 1s"])
async def test_search(gateway):
    await gateway.chat("x")

@pytest.mark.swarm(2)
async def test_chats(gateway):
    await gateway.chat("x")

@pytest.mark.swarm(2)
async def test_torn(gateway):
    await gateway.chat("x")
"""


@dataclass(frozen=True)
class Finished:
    """One run of pytest on the suite."""

    output: str
    report: dict[str, Any]

    def test(self, name: str) -> dict[str, Any]:
        (found,) = (test for test in self.report["tests"] if test["nodeid"].endswith(f"::{name}"))
        return found

    @property
    def outcomes(self) -> dict[str, str]:
        """By test, what pytest made of it: a test may pass and have an error after it."""
        found: dict[str, str] = {}
        for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR) test_it\.py::(\w+)", self.output, re.MULTILINE):
            found[name] = f"{found[name]} {outcome}" if name in found else outcome
        return found

    def says(self, text: str) -> int:
        """How often the output has a text, wherever its lines are broken."""
        return re.sub(r"\s+", " ", self.output).count(text)


class Bench:
    """A directory with a suite and its cassettes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "pytest.ini").write_text(INI)
        (path / "test_it.py").write_text(SUITE)

    def run(self, *options: str, **variables: str) -> Finished:
        drop = ("SWARM_BASE_URL", "SWARM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PYTEST_ADDOPTS")
        environ = {name: value for name, value in os.environ.items() if name not in drop}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--swarm-json=out.json", *options],
            cwd=self.path,
            env={**environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        report = self.path / "out.json"
        return Finished(done.stdout, json.loads(report.read_text()) if report.exists() else {})

    def cassette(self, test: str) -> Path:
        return self.path / "cassettes" / "test_it" / f"{test}.yaml"


@dataclass(frozen=True)
class Shelf:
    """A suite that was recorded, and what replays of it came to."""

    bench: Bench
    base_url: str
    recorded: Finished
    replayed: Finished
    again: Finished
    changed: Finished
    """Every test does something else than what was recorded."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    bench = Bench(tmp_path_factory.mktemp("shelf"))
    with SmallGateway() as gateway:
        live = ("--swarm-record", f"--swarm-base-url={gateway.base_url}")
        chosen = "not search and not chats and not torn"
        recorded = bench.run(*live, "-k", chosen, GATEWAY=gateway.base_url)
    bench.cassette("test_torn").with_suffix(".yaml.part").write_text("version: 1\ninteractions:\n")
    replayed, again = (bench.run("--swarm-replay", "-k", "not test_sync") for _ in range(2))
    changed = bench.run("--swarm-replay", "--swarm-max-cost=$0.0001", CHANGED="1")
    return Shelf(bench, gateway.base_url, recorded, replayed, again, changed)


def test_a_live_suite_is_replayed_without_its_gateway(shelf: Shelf) -> None:
    assert set(shelf.recorded.outcomes.values()) == {"PASSED"}, shelf.recorded.output
    missing = {"test_search", "test_chats", "test_torn"}
    found = shelf.replayed.outcomes
    assert {name for name, outcome in found.items() if outcome != "PASSED"} == missing, shelf.replayed.output
    assert "REPLAY of the cassettes in cassettes/, virtual time: no model is called" in shelf.replayed.output
    assert re.search(r"^test_it.py::test_chat +PASS \(REPLAY\)$", shelf.replayed.output, re.MULTILINE)
    assert shelf.replayed.says(f"REPLAY of {shelf.base_url} (echo), recorded 20")

    test, live = (finished.test("test_chat") for finished in (shelf.replayed, shelf.recorded))
    assert test["gateway"] == {"kind": "replay", "base_url": shelf.base_url}
    assert (test["clock"], test["model"], test["verdict"]) == ("virtual", "echo", "pass")
    assert {call["source"] for call in test["calls"]} == {"replay"}
    held = {key: test["replay"][key] for key in ("recorded", "asked", "missed", "unused", "timed", "simulated")}
    assert held == {"recorded": 6, "asked": 6, "missed": 0, "unused": 0, "timed": True, "simulated": None}
    mine, theirs = (sorted(one["calls"], key=lambda call: call["task"]) for one in (test, live))
    for call, before in zip(mine, theirs, strict=True):
        for figure in ("ttft", "latency", "connect"):
            assert call[figure] == (None if before[figure] is None else pytest.approx(before[figure], abs=2e-6))
        assert call["output_tokens"] == before["output_tokens"]


def test_replays_of_the_same_cassettes_give_the_same_report(shelf: Shelf) -> None:
    one, other = ({**run.report, "created": None} for run in (shelf.replayed, shelf.again))
    assert one == other


def test_errors_are_replayed_as_they_ended(shelf: Shelf) -> None:
    outcomes = {
        call["model"]: (call["outcome"], call["latency"]) for call in shelf.replayed.test("test_errors")["calls"]
    }
    # The client's own timeout, which the virtual clock keeps to the digit.
    assert outcomes["hang"] == ("first_token_timeout", pytest.approx(0.2, abs=2e-6))
    assert (outcomes["status-503"][0], outcomes["echo"][0]) == ("server_error", "ok")


def test_another_plan_is_simulated_around_the_recorded_service_times(shelf: Shelf) -> None:
    before, wider = (finished.test("test_slow") for finished in (shelf.replayed, shelf.changed))
    assert not any("in flight at once" in note for note in before["notes"])
    assert any("up to 12 requests were in flight at once, 2 when it was recorded" in note for note in wider["notes"])
    assert wider["metrics"]["throughput"] > 3 * before["metrics"]["throughput"]
    assert wider["metrics"]["call_latency.p50"] == pytest.approx(before["metrics"]["call_latency.p50"])
    # Eleven waits of half a second, and the last answer.
    limited = shelf.changed.test("test_limited")["metrics"]
    assert 12 / limited["throughput"] == pytest.approx(5.5 + limited["call_latency.p50"], abs=0.1)


def test_fields_can_be_left_out_of_the_comparison(shelf: Shelf) -> None:
    assert shelf.replayed.test("test_traced")["replay"]["missed"] == 0


def test_it_costs_what_the_recording_cost_and_no_ceiling_counts_it(shelf: Shelf) -> None:
    assert shelf.changed.outcomes["test_priced"] == "PASSED"
    assert shelf.changed.test("test_priced")["metrics"]["cost"] == pytest.approx(0.002)
    assert shelf.changed.report["cost"]["ceiling"]["spent"] == 0


# --- what is not in the cassette --------------------------------------------------------------------------------------


def test_a_miss_fails_the_test_once_whatever_the_body_made_of_it(shelf: Shelf) -> None:
    assert shelf.changed.outcomes["test_chat"] == "FAILED"
    sentence = (
        "6 requests are not in the cassette cassettes/test_it/test_chat.yaml: task 0 asked for POST /chat/completions, "
        'nearest is the request of task 0; what differs: messages[0].content is "Hallo 0", recorded "Hello 0"'
    )
    assert shelf.changed.says(f"swarm FAILED: {sentence}") == 1
    test = shelf.changed.test("test_chat")
    assert test["verdict"] == "fail"
    assert test["reasons"][0].startswith(sentence)
    assert (test["replay"]["missed"], test["replay"]["unused"]) == (6, 6)
    assert "fewer requests than recorded: 0 of 6 exchanges were asked for" in test["notes"]
    assert "more requests than recorded: 6 of 6 found no answer" in test["notes"]


def test_fewer_and_more_requests_than_recorded_are_counted(shelf: Shelf) -> None:
    assert shelf.changed.outcomes["test_fewer"] == "PASSED"
    fewer, more = (shelf.changed.test(name) for name in ("test_fewer", "test_more"))
    assert "fewer requests than recorded: 4 of 6 exchanges were asked for" in fewer["notes"]
    assert more["reasons"][0].startswith(
        "2 requests are not in the cassette cassettes/test_it/test_more.yaml: task 0 in run 1 asked for POST "
        "/chat/completions, a second time; it was recorded once"
    )


def test_a_test_without_a_cassette_says_how_to_record_one(shelf: Shelf) -> None:
    assert shelf.replayed.says(
        "swarm: nothing to replay: there is no cassette cassettes/test_it/test_chats.yaml; record it with: pytest "
        "--swarm-record 'test_it.py::test_chats'; nearest is 'test_it/test_chat.yaml'"
    )
    assert shelf.replayed.says("a recording was begun and not completed (test_torn.yaml.part)")
    assert shelf.replayed.says("swarm: --swarm-replay cannot replay a capacity search")


def test_a_miss_inside_or_beside_the_swarms_of_a_test_fails_it_too(shelf: Shelf) -> None:
    assert shelf.changed.outcomes["test_inner"] == "PASSED ERROR"
    assert shelf.changed.outcomes["test_inside"] == "PASSED ERROR"
    assert shelf.changed.says(
        "1 request is not in the cassette cassettes/test_it/test_inside.yaml: no task asked for POST "
        "/chat/completions, nearest is the request of no task; what differs: "
        'messages[0].content is "beyond", recorded "beside"'
    )


# --- nothing leaves the machine ---------------------------------------------------------------------------------------


def test_what_would_leave_the_machine_is_stopped_and_fails_the_test(shelf: Shelf) -> None:
    assert shelf.changed.outcomes["test_outwards"] == "FAILED"
    assert shelf.changed.outcomes["test_sockets_are_as_before"] == "PASSED"
    # By address or by name, whichever comes first.
    assert re.fullmatch(
        r"a connection to (192\.0\.2\.1|metrics\.example\.com) was stopped: this run is a replay and reaches loopback "
        r"only; list the host in the ini key swarm_hosts if it may be reached",
        shelf.changed.test("test_outwards")["reasons"][0],
    )


def test_any_client_is_answered_and_the_web_is_not(shelf: Shelf) -> None:
    assert shelf.replayed.test("test_clients")["metrics"]["calls"] == 6
    assert shelf.replayed.test("test_clients")["metrics"]["ttft.p50"] > 0
    assert shelf.changed.outcomes["test_clients"] == "FAILED"
    assert shelf.changed.says("a request to example.com was stopped: this run is a replay and reaches loopback only")


# --- clocks, age, foreign files ---------------------------------------------------------------------------------------


def test_it_goes_on_the_real_clock_at_any_speed(shelf: Shelf) -> None:
    virtual = shelf.replayed.test("test_slow")["metrics"]["latency.p50"]
    fast = shelf.bench.run("--swarm-replay", "--swarm-replay-speed=5", "-k", "test_slow or test_sync")
    test, sync = fast.test("test_slow"), fast.test("test_sync")
    assert (test["clock"], test["replay"]["speed"]) == ("real", 5)
    # In seconds of the recording, whatever the speed.
    assert virtual <= test["metrics"]["latency.p50"] < virtual + 1
    assert (sync["clock"], sync["replay"]["speed"]) == ("real", "real")
    assert "a sync body takes real time: it was replayed at the speed of the recording" in sync["notes"]
    assert fast.says("REPLAY of the cassettes in cassettes/, 5 times as fast")


def test_an_old_cassette_is_invalid_where_its_age_is_bounded(shelf: Shelf) -> None:
    for test, moment in (("test_chat", "2024-01-02T03:04:05Z"), ("test_traced", "")):
        place = shelf.bench.cassette(test)
        place.write_text(re.sub(r'"recorded_at": "[^"]+"', f'"recorded_at": "{moment}"', place.read_text()))
    (shelf.bench.path / "pytest.ini").write_text(f"{INI}swarm_cassette_max_age = 720h\n")
    finished = shelf.bench.run("--swarm-replay", "-k", "test_chat or test_traced or test_slow")
    failed = {"test_chat": "FAILED", "test_traced": "FAILED", "test_chats": "ERROR", "test_slow": "PASSED"}
    assert finished.outcomes == failed
    assert finished.test("test_chat")["verdict"] == "invalid"
    (reason,) = finished.test("test_chat")["reasons"]
    assert re.fullmatch(
        r"the cassette cassettes/test_it/test_chat.yaml is [\d,]+ days old, recorded 2024-01-02T03:04:05Z, and "
        r"swarm_cassette_max_age allows 30 days: record it again",
        reason,
    )
    (reason,) = finished.test("test_traced")["reasons"]
    assert "test_traced.yaml does not say when it was recorded, and swarm_cassette_max_age allows 30 days" in reason


def foreign(content: str, text: str) -> dict[str, Any]:
    """An interaction as plain vcrpy writes it."""
    body = {"messages": [{"content": content, "role": "user"}], "model": "echo"}
    answer = {
        "model": "echo",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }
    headers = {"Content-Type": ["application/json"]}
    uri = "https://api.openai.com/v1/chat/completions"
    return {
        "request": {"method": "POST", "uri": uri, "headers": headers, "body": json.dumps(body)},
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": headers,
            "body": {"string": json.dumps(answer)},
        },
    }


FOREIGN = """
import pytest

@pytest.mark.swarm(tasks=3)
@pytest.mark.sla("success_rate >= 99%", "output_tokens.mean <= 5")
async def test_counted(gateway, agent):
    reply = await gateway.chat(f"Hello {agent.index}")
    assert reply.text == f"reply {agent.index}"

@pytest.mark.swarm(tasks=3)
@pytest.mark.sla("p99 < 30s", "success_rate >= 99%", "goodput_rate > 0%", per_task=["latency < 3s"])
async def test_timed(gateway, agent):
    await gateway.chat(f"Hello {agent.index}")
"""


def test_a_foreign_cassette_is_replayed_and_no_time_of_it_is_believed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "test_it.py").write_text(FOREIGN)
    interactions = [foreign(f"Hello {at}", f"reply {at}") for at in range(3)]
    for test in ("test_counted", "test_timed"):
        bench.cassette(test).parent.mkdir(parents=True, exist_ok=True)
        bench.cassette(test).write_text(yaml.safe_dump({"version": 1, "interactions": interactions}))
    finished = bench.run("--swarm-replay")
    assert finished.outcomes == {"test_counted": "PASSED", "test_timed": "FAILED"}, finished.output
    assert finished.says("REPLAY of https://api.openai.com/v1 (echo), recorded at an unknown time")
    assert finished.says("was recorded without timing: no time and no rate is known")
    test = finished.test("test_counted")
    times = ("latency.p50", "ttft.p50", "call_latency.p99", "throughput", "output_token_rate")
    assert [test["metrics"][name] for name in times] == [None] * 5
    assert test["metrics"]["output_tokens.mean"] == 5
    assert {call[name] for call in test["calls"] for name in ("sent", "latency", "ttft", "attempt_latency")} == {None}
    assert {task[name] for task in test["tasks"] for name in ("due", "start", "end")} == {None}
    lines = {line["expression"]: (line["verdict"], line["reason"]) for line in finished.test("test_timed")["sla"]}
    why = "the cassette cassettes/test_it/test_timed.yaml was recorded without timing, so there is no latency"
    assert lines["latency.p99 < 30s"] == ("invalid", f"latency.p99 < 30s: no data: {why}")
    assert lines["goodput_rate > 0%"][0] == "invalid"
    assert lines["success_rate >= 99%"][0] == "pass"
