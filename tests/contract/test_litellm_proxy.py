"""The plugin against the LiteLLM proxy: its usage, its cost headers, its errors, its limits, its keys.

Models of the proxy's own answer, so all that comes over the wire is the proxy's, and nothing leaves the machine. A
whole reply of theirs has 10 tokens in and 20 out; in a stream the proxy counts for itself.

Needs the package `litellm[proxy]`; it is in no extra, since some hundred packages come with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.litellm_proxy import MASTER_KEY, LiteLLMProxy, litellm_proxy, mock_model, need
from tests.support.suites import INI, SECONDS, SuiteRun, run_suite

need("litellm", "fastapi", "anthropic", "openai")

TEXT = "The answer is yes, in all cases."
TASKS = 20
RPM = 5
"""Requests a minute that the limited models take."""
WRONG_KEY = "sk-wrong-0123456789abcdef0123456789abcdef"
SLOW_KEY = "sk-slow-0123456789abcdef0123456789abcdef"

CUT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "The answer"}}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 600},
    },
}
MODELS = [
    mock_model("gpt-4o-mini", TEXT),
    mock_model("cached", CUT),
    mock_model("house", TEXT, model="openai/house", input_cost_per_token=3e-6, output_cost_per_token=15e-6),
    # A markup: the proxy asks for twice the list price of the model that it names.
    mock_model("gpt-4o", TEXT, model="openai/gpt-4o", input_cost_per_token=5e-6, output_cost_per_token=20e-6),
    mock_model("broken", "litellm.InternalServerError"),
    mock_model("overloaded", "Exception: mock_streaming_error"),
    mock_model("busy", "litellm.RateLimitError"),
    mock_model("too-long", "litellm.ContextWindowExceededError"),
    mock_model("late", TEXT, mock_timeout=True, timeout=0.1),
    mock_model("limited", TEXT, rpm=RPM),
    mock_model("limited-again", TEXT, rpm=RPM),
]
PRICES = """
[tool.pytest_swarm.prices.cached]
input = 0.15
cache_read = 0.075
output = 0.60
"""
"""US dollars per million tokens of the model that the proxy takes `cached` for."""

SUITE = """
import pytest

LEVELS = ["p99 < 60s", "success_rate == 100%", "call_success_rate == 100%", "cost > $0"]
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
swarm = pytest.mark.swarm(tasks=20, concurrency=4)


@both_ways
@pytest.mark.parametrize("model", ["gpt-4o-mini", "house", "gpt-4o"])
@swarm
@pytest.mark.sla(*LEVELS)
async def test_answers(gateway, agent, model, stream):
    reply = await gateway.chat(f"hello {agent.index}", stream=stream)
    assert (reply.outcome, reply.text) == ("ok", "The answer is yes, in all cases.")


@pytest.mark.parametrize("model", ["cached"])
@swarm
@pytest.mark.sla(*LEVELS, "cache_hit_rate == 60%")
async def test_cut(gateway, model):
    assert (await gateway.chat("hello")).outcome == "incomplete"


@both_ways
@pytest.mark.parametrize("model", ["broken", "overloaded", "busy", "too-long", "late"])
@pytest.mark.swarm(tasks=3)
@pytest.mark.sla("success_rate == 0%", "calls == 3", "retries == 0", "cost == $0")
async def test_refused(gateway, model, stream):
    await gateway.chat("hello", stream=stream)


@pytest.mark.parametrize("model", ["limited"])
@pytest.mark.swarm(tasks=20, concurrency=4)
@pytest.mark.sla("success_rate >= 25%", "errors.rate_limited >= 5", "retries == 0")
async def test_limited(gateway, model):
    await gateway.chat("hello")


@pytest.mark.parametrize("model", ["limited-again"])
@pytest.mark.swarm(tasks=20, concurrency=10, retries=1)
@pytest.mark.sla("success_rate >= 25%", "errors.rate_limited >= 5", "retries >= 5")
async def test_limited_again(gateway, model):
    await gateway.chat("hello")


@pytest.mark.parametrize("model", ["gpt-4o-mini"])
@swarm
@pytest.mark.sla(*LEVELS, "check.text == 100%")
async def test_responses(gateway, agent, model):
    reply = await gateway.openai().responses.create(model=model, input="hello")
    agent.check("text", reply.output_text == "The answer is yes, in all cases.")
    agent.record("read", reply.usage.input_tokens)
    agent.record("written", reply.usage.output_tokens)


@pytest.mark.parametrize("model", ["gpt-4o-mini"])
@swarm
@pytest.mark.sla(*LEVELS, "check.text == 100%")
async def test_messages(gateway, agent, model):
    asked = [{"role": "user", "content": "hello"}]
    reply = await gateway.anthropic().messages.create(model=model, max_tokens=900, messages=asked)
    agent.check("text", reply.content[0].text == "The answer is yes, in all cases.")
    agent.record("read", reply.usage.input_tokens)
    agent.record("written", reply.usage.output_tokens)
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLLMProxy]:
    """A proxy with one key and no database, as most teams have it at first."""
    enforced = {"optional_pre_call_checks": ["enforce_model_rate_limits"]}
    with litellm_proxy(tmp_path_factory.mktemp("proxy"), MODELS, router_settings=enforced) as running:
        yield running


@pytest.fixture(scope="module")
def observed(proxy: LiteLLMProxy, tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    directory = tmp_path_factory.mktemp("proxy_suite")
    (directory / "pyproject.toml").write_text(PRICES, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWARM_API_KEY", MASTER_KEY)
        patch.setenv("PYTEST_ADDOPTS", "-W error")
        return run_suite(directory, SUITE, base_url=proxy.base_url)


def passed(observed: SuiteRun, name: str) -> dict[str, Any]:
    found = observed.test(name)
    assert found["verdict"] == "pass", found["reasons"]
    return found


def divergences(test: dict[str, Any]) -> list[str]:
    return [note for note in test["notes"] if note.startswith("the gateway reported")]


# --- replies ---


@pytest.mark.parametrize("model", ["gpt-4o-mini", "house", "gpt-4o"])
@pytest.mark.parametrize("way", ["json", "stream"])
def test_replies_are_measured(observed: SuiteRun, model: str, way: str) -> None:
    calls = passed(observed, f"test_answers[{model}-{way}]")["calls"]
    assert sorted(call["task"] for call in calls) == list(range(TASKS))
    assert {(call["outcome"], call["finish_reason"], call["attempts"]) for call in calls} == {("ok", "stop", 1)}
    if way == "json":
        assert {(call["input_tokens"], call["output_tokens"], call["ttft"]) for call in calls} == {(10, 20, None)}
    else:
        # The proxy puts the usage on a chunk that has a choice.
        assert all(call["input_tokens"] > 0 and call["output_tokens"] > 0 for call in calls)
        assert all(0 < call["ttft"] <= call["latency"] for call in calls)


@pytest.mark.parametrize("way", ["json", "stream"])
def test_our_list_price_is_what_the_proxy_reports(observed: SuiteRun, way: str) -> None:
    found = passed(observed, f"test_answers[gpt-4o-mini-{way}]")
    assert found["cost_sources"] == {"genai-prices": TASKS}
    assert all(call["cost"] == pytest.approx(call["reported_cost"], rel=1e-6) for call in found["calls"])
    assert divergences(found) == []


@pytest.mark.parametrize("way", ["json", "stream"])
def test_a_model_without_a_price_costs_what_the_proxy_reports(observed: SuiteRun, way: str) -> None:
    found = passed(observed, f"test_answers[house-{way}]")
    assert found["cost_sources"] == {"reported": TASKS}
    for call in found["calls"]:
        rated = (3 * call["input_tokens"] + 15 * call["output_tokens"]) / 1e6
        assert call["cost"] == call["reported_cost"] == pytest.approx(rated, rel=1e-6)


@pytest.mark.parametrize("way", ["json", "stream"])
def test_a_markup_of_the_proxy_is_told(observed: SuiteRun, way: str) -> None:
    found = passed(observed, f"test_answers[gpt-4o-{way}]")
    assert found["cost_sources"] == {"genai-prices": TASKS}
    assert all(call["reported_cost"] == pytest.approx(2 * call["cost"], rel=1e-6) for call in found["calls"])
    (told,) = divergences(found)
    assert f"(-50.0 %): {TASKS} of {TASKS} differ by more than 1%" in told


def test_cached_tokens_are_priced_as_the_proxy_prices_them(observed: SuiteRun) -> None:
    found = passed(observed, "test_cut[cached]")
    read = ("outcome", "finish_reason", "input_tokens", "cached_tokens", "output_tokens")
    assert {tuple(call[key] for key in read) for call in found["calls"]} == {("incomplete", "length", 1000, 600, 50)}
    assert found["cost_sources"] == {"table": TASKS}
    assert all(call["cost"] == pytest.approx(call["reported_cost"], rel=1e-6) for call in found["calls"])
    assert divergences(found) == []


@pytest.mark.parametrize("wire", ["test_responses", "test_messages"])
def test_the_other_wires_are_read_as_the_sdk_reads_them(observed: SuiteRun, wire: str) -> None:
    found = passed(observed, f"{wire}[gpt-4o-mini]")
    assert {call["outcome"] for call in found["calls"]} == {"ok"}
    for figure, key in (("read", "input_tokens"), ("written", "output_tokens")):
        assert {call[key] for call in found["calls"]} == {found["metrics"][f"my.{figure}.mean"]}


# --- errors and limits ---


@pytest.mark.parametrize("way", ["json", "stream"])
@pytest.mark.parametrize(
    ("model", "outcome", "status", "words"),
    [
        ("broken", "server_error", 500, "litellm.InternalServerError"),
        ("overloaded", "server_error", 529, "litellm.APIError"),
        ("busy", "rate_limited", 429, "litellm.RateLimitError"),
        ("too-long", "client_error", 400, "litellm.ContextWindowExceededError"),
        ("late", "client_error", 408, "litellm.Timeout"),
    ],
)
def test_errors_are_told_apart(observed: SuiteRun, model: str, way: str, outcome: str, status: int, words: str) -> None:
    found = passed(observed, f"test_refused[{model}-{way}]")
    assert found["errors"] == {outcome: 3}
    assert {call["status"] for call in found["calls"]} == {status}
    assert all(words in call["detail"] for call in found["calls"])


def test_what_exceeds_the_limit_of_a_model_is_rate_limited(observed: SuiteRun) -> None:
    calls = passed(observed, "test_limited[limited]")["calls"]
    outcomes = Counter(call["outcome"] for call in calls)
    assert set(outcomes) == {"ok", "rate_limited"}
    # The proxy counts by the minute of the clock, and a run may see the minute change.
    assert RPM <= outcomes["ok"] <= 3 * RPM
    assert {call["status"] for call in calls if call["outcome"] == "rate_limited"} == {429}


def test_retries_against_the_limit_of_a_model_are_shown(observed: SuiteRun) -> None:
    found = passed(observed, "test_limited_again[limited-again]")
    limited = [call for call in found["calls"] if call["outcome"] == "rate_limited"]
    for call in limited:
        assert [attempt["status"] for attempt in call["attempt_list"]] == [429, 429]
    assert found["errors"] == {"rate_limited": len(limited)}
    assert found["metrics"]["retries"] >= len(limited)


# --- keys ---

KEYED = """
import pytest


@pytest.mark.swarm(tasks=8, concurrency=2, model="gpt-4o-mini")
async def test_it(gateway):
    await gateway.chat("hello")
"""
GUARD = f"""
from fastapi import HTTPException
from litellm.proxy._types import UserAPIKeyAuth


async def check(request, api_key):
    if api_key != {SLOW_KEY!r}:
        raise HTTPException(401, f"no such key: {{api_key}}")
    return UserAPIKeyAuth(api_key=api_key, rpm_limit={RPM})
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLLMProxy]:
    """A proxy that checks keys by a function of its team's, and has a limit on one of them."""
    directory = tmp_path_factory.mktemp("guarded_proxy")
    (directory / "guard.py").write_text(GUARD, encoding="utf-8")
    with litellm_proxy(directory, MODELS[:1], general_settings={"custom_auth": "guard.check"}) as running:
        yield running


def run_keyed(directory: Path, proxy: LiteLLMProxy, key: str | None) -> str:
    """What a run with this key prints, all of which ends in a failed test, and writes."""
    (directory / "pytest.ini").write_text(INI, encoding="utf-8")
    (directory / "test_keyed.py").write_text(KEYED, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "SWARM_API_KEY"}
    report = directory / "report.json"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", f"--swarm-base-url={proxy.base_url}", f"--swarm-json={report}"],
        cwd=directory,
        env=environment if key is None else {**environment, "SWARM_API_KEY": key},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    return run.stdout + (report.read_text(encoding="utf-8") if report.exists() else "")


@pytest.mark.parametrize(("key", "remedy"), [(WRONG_KEY, "check the key in SWARM_API_KEY"), (None, "no key was sent")])
def test_a_wrong_key_is_one_clear_error(guarded: LiteLLMProxy, tmp_path: Path, key: str | None, remedy: str) -> None:
    told = run_keyed(tmp_path, guarded, key)
    assert f"the gateway at {guarded.base_url} refuses the request (HTTP 401): {remedy}" in told
    # No task ran.
    assert "CallFailed" not in told
    assert WRONG_KEY not in told


def test_the_limit_of_a_key_is_told_without_the_key(guarded: LiteLLMProxy, tmp_path: Path) -> None:
    told = run_keyed(tmp_path, guarded, SLOW_KEY)
    assert '"rate_limited": 3' in told
    assert "Rate limit exceeded for api_key" in told
    assert SLOW_KEY not in told


def test_a_wrong_key_is_never_shown_where_the_proxy_has_no_database(proxy: LiteLLMProxy, tmp_path: Path) -> None:
    told = run_keyed(tmp_path, proxy, WRONG_KEY)
    # Without one it cannot look the key up, and answers 400.
    assert "HTTP 400" in told
    assert "No connected db." in told
    assert WRONG_KEY not in told
