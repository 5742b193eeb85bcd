"""litellm as a client: what a body asks through it is measured, counted once, stopped, played, recorded and replayed.

It sends over the SDK of openai, over httpx, and, where it is asynchronous, over a transport of its own that aiohttp
carries: one request passes several taps.

Needs the package `litellm`; it is in no extra, since some hundred packages come with its proxy.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.litellm_proxy import need
from tests.support.small_gateway import SmallGateway
from tests.support.suites import SuiteRun, run_suite, untraced

need("litellm")

PATIENCE = 60.0

HEAD = """
import litellm
import pytest

# What litellm and the libraries below it warn of themselves.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class .* `ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    # It never closes its clients, nor their connections when a loop ends.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in.*(socket|Transport):pytest.PytestUnraisableExceptionWarning"
    ),
]
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
both_wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def asked(gateway, wire="openai", stream=False, text="hello", **further):
    "Arguments of a request to the gateway of the run."
    address = str(gateway.openai().base_url).rstrip("/")
    if wire == "anthropic":
        address = address.removesuffix("/v1")
    elif stream:
        further["stream_options"] = {"include_usage": True}
    messages = [{"role": "user", "content": text}]
    return {"model": f"{wire}/{gateway.model}", "api_base": address, "api_key": "k", "messages": messages,
            "stream": stream, **further}


async def text_of(reply, stream):
    if not stream:
        return reply.choices[0].message.content
    return "".join([chunk.choices[0].delta.content or "" async for chunk in reply])


def blocking_text_of(reply, stream):
    if not stream:
        return reply.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in reply)
"""

LIVE = (
    HEAD
    + """
LEVELS = ["p99 < 60s", "success_rate == 100%", "call_success_rate == 100%", "calls == 12", "retries == 0"]


@both_ways
@pytest.mark.swarm(tasks=12, concurrency=4, model="priced")
@pytest.mark.sla(*LEVELS, "cost == $0.012")
async def test_async(gateway, agent, stream):
    text = f"hello {agent.index}"
    reply = await litellm.acompletion(**asked(gateway, stream=stream, text=text))
    assert await text_of(reply, stream) == text


@both_ways
@pytest.mark.swarm(tasks=12, concurrency=4, model="priced")
@pytest.mark.sla(*LEVELS, "cost == $0.012")
def test_sync(gateway, agent, stream):
    text = f"hello {agent.index}"
    reply = litellm.completion(**asked(gateway, stream=stream, text=text))
    assert blocking_text_of(reply, stream) == text


@pytest.mark.parametrize("setting", ["max_retries", "num_retries"])
@pytest.mark.swarm(tasks=4, concurrency=1, model="flaky")
@pytest.mark.sla("success_rate == 100%", "calls == 4", "retries >= 1")
async def test_retries(gateway, setting):
    await litellm.acompletion(**asked(gateway, **{setting: 1}))


@pytest.mark.swarm(tasks=4, concurrency=1, model="flaky")
@pytest.mark.sla("success_rate == 100%", "calls >= 5", "retries == 0")
async def test_router(gateway):
    asked_for = asked(gateway)
    parameters = {key: asked_for[key] for key in ("model", "api_base", "api_key")}
    router = litellm.Router(model_list=[{"model_name": "mine", "litellm_params": parameters}], num_retries=1)
    await router.acompletion(model="mine", messages=asked_for["messages"])


@pytest.mark.parametrize("model", ["status-503", "quota"])
@pytest.mark.swarm(tasks=3)
@pytest.mark.sla("success_rate == 0%", "calls == 3", "cost == $0")
def test_errors(gateway, model):
    litellm.completion(**asked(gateway, max_retries=0))


@pytest.mark.swarm(tasks=3, concurrency=1, model="verbose", max_cost=1)
async def test_ceiling(gateway):
    await litellm.acompletion(**asked(gateway, max_tokens=100))
"""
)
DEAR = """
[tool.pytest_swarm.prices.verbose]
input = 0
output = 1_000_000
"""
RECORDED = (
    HEAD
    + """
LEVELS = ["success_rate == 100%", "calls == 6", "cost == $0.006"]


@both_ways
@pytest.mark.swarm(tasks=6, concurrency=3, model="priced")
@pytest.mark.sla(*LEVELS)
async def test_async(gateway, agent, stream):
    text = f"hello {agent.index}"
    reply = await litellm.acompletion(**asked(gateway, stream=stream, text=text))
    assert await text_of(reply, stream) == text


@both_ways
@pytest.mark.swarm(tasks=6, concurrency=3, model="priced")
@pytest.mark.sla(*LEVELS)
def test_sync(gateway, agent, stream):
    text = f"hello {agent.index}"
    reply = litellm.completion(**asked(gateway, stream=stream, text=text))
    assert blocking_text_of(reply, stream) == text
"""
)
WIRES = (
    HEAD
    + """
@both_ways
@both_wires
@pytest.mark.swarm(tasks=20, concurrency=10)
@pytest.mark.sla("success_rate >= 50%", "calls == 20", "cost > $0", "output_tokens.min > 1")
async def test_async(gateway, wire, stream):
    reply = await litellm.acompletion(**asked(gateway, wire, stream))
    assert await text_of(reply, stream)


@both_ways
@both_wires
@pytest.mark.swarm(tasks=4, concurrency=4)
@pytest.mark.sla("success_rate >= 0%", "calls == 4")
def test_sync(gateway, wire, stream):
    reply = litellm.completion(**asked(gateway, wire, stream))
    assert blocking_text_of(reply, stream)


@both_ways
@pytest.mark.swarm(tasks=4)
@pytest.mark.sla("success_rate >= 0%", "calls == 4")
async def test_responses(gateway, stream):
    address = str(gateway.openai().base_url)
    reply = await litellm.aresponses(
        model=f"openai/{gateway.model}", api_base=address, api_key="k", input="hello", stream=stream
    )
    assert [event async for event in reply] if stream else reply.output
"""
)
SIMULATED = (
    WIRES
    + """

OWN = [("openai", "gpt-4o"), ("anthropic", "claude-3-5-haiku-20241022")]
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(("vendor", "name"), OWN, ids=["openai", "anthropic"])
@pytest.mark.swarm(tasks=1)
async def test_own_host(vendor, name):
    await litellm.acompletion(model=f"{vendor}/{name}", api_key="sk-none", messages=MESSAGES)


@pytest.mark.parametrize(("vendor", "name"), OWN, ids=["openai", "anthropic"])
@pytest.mark.swarm(tasks=1)
def test_own_host_sync(vendor, name):
    litellm.completion(model=f"{vendor}/{name}", api_key="sk-none", messages=MESSAGES)
"""
)


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """In the runs of the suites warnings are errors, and litellm does not fetch its list of prices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", "-W error")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        yield


def calls_of(run: SuiteRun) -> list[dict[str, Any]]:
    return [call for test in run.report["tests"] for call in test["calls"]]


# --- over the network ---


@dataclass(frozen=True)
class Live:
    """One run against the small gateway, and what that was asked."""

    run: SuiteRun
    requests: list[dict[str, Any]]


@pytest.fixture(scope="module", params=["over aiohttp", "over httpx"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Live:
    directory = tmp_path_factory.mktemp("litellm_live")
    (directory / "pyproject.toml").write_text(DEAR, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, SmallGateway() as gateway:
        if request.param == "over httpx":
            patch.setenv("DISABLE_AIOHTTP_TRANSPORT", "True")
        run = run_suite(directory, LIVE, base_url=gateway.base_url, exit_code=pytest.ExitCode.TESTS_FAILED)
        return Live(run, gateway.requests)


@pytest.mark.parametrize("test", ["test_async", "test_sync"])
@pytest.mark.parametrize("way", ["json", "stream"])
def test_litellm_is_measured_and_priced(live: Live, test: str, way: str) -> None:
    found = live.run.test(f"{test}[{way}]")
    assert found["verdict"] == "pass", found["reasons"]
    assert sorted(call["task"] for call in found["calls"]) == list(range(12))
    read = {(call["outcome"], call["input_tokens"], call["output_tokens"]) for call in found["calls"]}
    assert read == {("ok", 10, 5)}
    assert found["cost_sources"] == {"reported": 12}
    assert {call["ttft"] is None for call in found["calls"]} == {way == "json"}


def test_every_request_of_litellm_is_counted_once(live: Live) -> None:
    counted = Counter(call["model"] for call in calls_of(live.run) for _ in call["attempt_list"])
    assert counted.pop("verbose") == 1
    assert counted == Counter(request["model"] for request in live.requests)
    assert counted["priced"] == 4 * 12


@pytest.mark.parametrize("setting", ["max_retries", "num_retries"])
def test_retries_of_litellm_are_attempts_of_one_call(live: Live, setting: str) -> None:
    found = live.run.test(f"test_retries[{setting}]")
    assert found["verdict"] == "pass", found["reasons"]
    assert {call["outcome"] for call in found["calls"]} == {"ok"}
    repeated = [call["attempt_list"] for call in found["calls"] if call["attempts"] == 2]
    assert repeated
    for first, second in repeated:
        assert (first["status"], first["outcome"], second["status"]) == (503, "server_error", 200)
        assert second["wait"] > 0


def test_what_a_router_of_litellm_asks_again_is_a_call_of_its_own(live: Live) -> None:
    found = live.run.test("test_router")
    assert found["verdict"] == "pass", found["reasons"]
    outcomes = Counter(call["outcome"] for call in found["calls"])
    assert (set(outcomes), outcomes["ok"]) == ({"ok", "server_error"}, 4)
    assert {call["attempts"] for call in found["calls"]} == {1}


@pytest.mark.parametrize(
    ("model", "outcome"),
    [("status-503", "server_error"), ("quota", "quota_exhausted")],
)
def test_errors_are_told_apart_whatever_litellm_raises(live: Live, model: str, outcome: str) -> None:
    found = live.run.test(f"test_errors[{model}]")
    assert found["verdict"] == "pass", found["reasons"]
    assert found["errors"] == {outcome: 3}


def test_a_cost_ceiling_stands_before_litellm(live: Live) -> None:
    found = live.run.test("test_ceiling")
    assert found["verdict"] == "invalid"
    assert "the cost ceiling of $1" in found["reasons"][0]
    assert [(call["outcome"], call["attempts"]) for call in found["calls"]] == [("budget", 1)]
    assert "verbose" not in {request["model"] for request in live.requests}


# --- on every wire ---


@contextmanager
def front() -> Iterator[str]:
    """The simulated gateway behind a real socket, ten times as fast as time."""
    command = [sys.executable, "-m", "pytest_swarm.cli", "gateway", "--port", "0", "--speed", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=untraced())
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "the gateway said nothing"
        yield process.stdout.readline().split(" at ")[1].split(" ")[0]
    finally:
        process.kill()
        process.communicate()


def test_litellm_is_counted_once_on_every_wire(tmp_path: Path) -> None:
    with front() as base_url:
        run = run_suite(tmp_path, WIRES, base_url=base_url, model="gpt-6-agent")
        with urllib.request.urlopen(base_url.removesuffix("/v1") + "/ledger", timeout=PATIENCE) as reply:
            ledger = json.load(reply)["requests"]
    assert {test["verdict"] for test in run.report["tests"]} == {"pass"}
    calls = calls_of(run)
    assert sum(call["attempts"] for call in calls) == len(ledger)
    answered = {entry["request_id"]: entry for entry in ledger if entry["status"] == 200}
    succeeded = {call["request_id"]: call for call in calls if call["outcome"] == "ok"}
    assert set(succeeded) == set(answered)
    for name, call in succeeded.items():
        entry = answered[name]
        assert (call["input_tokens"], call["output_tokens"]) == (entry["input_tokens"], entry["output_tokens"])
        assert call["cost"] == pytest.approx(entry["cost"], rel=1e-9)
        assert (call["ttft"] is not None) == entry["stream"]


# --- without a gateway ---


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("litellm_simulated"), SIMULATED, exit_code=pytest.ExitCode.TESTS_FAILED)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("way", ["json", "stream"])
def test_the_simulated_gateway_answers_litellm(simulated: SuiteRun, wire: str, way: str) -> None:
    for test, clock in (("test_async", "virtual"), ("test_sync", "real")):
        found = simulated.test(f"{test}[{wire}-{way}]")
        assert (found["verdict"], found["clock"]) == ("pass", clock), found["reasons"]
        assert {call["source"] for call in found["calls"]} == {"simulated"}
        assert {call["ttft"] is None for call in found["calls"] if call["outcome"] == "ok"} == {way == "json"}


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("test", ["test_own_host", "test_own_host_sync"])
def test_litellm_does_not_leave_the_machine_in_a_simulated_run(simulated: SuiteRun, test: str, vendor: str) -> None:
    found = simulated.test(f"{test}[{vendor}]")
    (task,) = found["tasks"]
    assert task["status"] == "failed"
    assert f"a request to api.{vendor}.com was stopped: this run is simulated" in task["error"]
    assert found["calls"] == []


def test_what_litellm_asked_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-W error --swarm-record")
    with SmallGateway() as gateway:
        recorded = run_suite(tmp_path, RECORDED, base_url=gateway.base_url)
        assert len(gateway.requests) == 4 * 6
    monkeypatch.setenv("PYTEST_ADDOPTS", "-W error --swarm-replay")
    replayed = run_suite(tmp_path, RECORDED)
    for test in replayed.report["tests"]:
        assert (test["verdict"], test["gateway"]["kind"]) == ("pass", "replay"), test["reasons"]
        assert (test["replay"]["recorded"], test["replay"]["missed"]) == (6, 0)
    read = ("task", "outcome", "input_tokens", "output_tokens", "cost", "finish_reason")
    first, second = ([[call[key] for key in read] for call in calls_of(run)] for run in (recorded, replayed))
    assert sorted(first) == sorted(second)
