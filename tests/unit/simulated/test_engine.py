"""What a system does with requests, from arrival to the last byte, on a timeline without an event loop."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from simulated_parts import ANSWER, CHAT, Bench, Client, ask, chat_body, plain_system

from pytest_swarm.exchange import Ending
from pytest_swarm.sources.simulated.capacity import ElasticPool
from pytest_swarm.sources.simulated.engine import Engine
from pytest_swarm.sources.simulated.faults import Fate
from pytest_swarm.sources.simulated.profile import Cache, Capacity, Faults, Limits, Prices, Service, Stream, Tokens
from pytest_swarm.sources.simulated.systems import builtin_systems
from pytest_swarm.sources.simulated.timeline import EventTimeline

STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def events(client: Client) -> list[Any]:
    """The data of every event but the end mark."""
    blocks = client.body.decode().split("\n\n")[:-1]
    assert blocks[-1] == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


# --- queue and work ---------------------------------------------------------------------------------------------------


def test_an_answer_comes_when_the_work_on_it_is_done() -> None:
    client = Bench(plain_system(3.0)).ask(chat_body())
    assert (client.status, client.head_at) == (200, client.ended)
    assert client.ended == pytest.approx(3.0)
    assert client.ending is Ending.COMPLETE
    assert client.headers["content-type"] == "application/json"
    assert client.headers["x-swarm-simulated"] == "plain;1"
    assert client.headers["x-request-id"].startswith("req_")


def test_requests_queue_for_workers_in_order_of_arrival() -> None:
    bench = Bench(plain_system(1.0, capacity=Capacity("fixed", 2)))
    clients = [bench.send(chat_body()) for _ in range(5)]
    bench.timeline.run()
    assert [client.ended for client in clients] == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_a_client_that_goes_frees_its_worker_or_its_place_in_the_queue() -> None:
    bench = Bench(plain_system(1.0))
    working, waiting, patient = (bench.send(chat_body()) for _ in range(3))
    for gone in (working, waiting):
        assert gone.visit is not None
        bench.timeline.call_at(0.25, gone.visit.abandon)
    bench.timeline.run()
    assert patient.ended == 1.25
    assert working.ending is waiting.ending is None


def test_abandoning_what_has_ended_changes_nothing() -> None:
    bench = Bench(plain_system(1.0))
    client = bench.ask(chat_body())
    assert client.visit is not None
    client.visit.abandon()
    assert client.visit.ended == 1.0
    assert bench.ask(chat_body()).ended == 2.0


def test_the_swarm_grows_with_the_load_and_shrinks_after_it() -> None:
    bench = Bench(builtin_systems()["kimi-k2.5-swarm"])
    for _ in range(100):
        bench.send(chat_body("kimi-k2.5-swarm"))
    bench.timeline.run()
    pool = bench.reception.engine("kimi-k2.5-swarm").pool
    assert isinstance(pool, ElasticPool)
    sizes = [size for _, size in pool.curve()]
    top = sizes.index(max(sizes))
    assert sizes[0] == 8
    assert max(sizes) == 100
    assert sizes[: top + 1] == sorted(sizes[: top + 1])
    assert pool.curve()[top][0] == pytest.approx(4 * 0.12)
    bench.timeline.run(until=bench.timeline.time() + 10.0)
    assert pool.size() == 8


def test_no_more_than_the_maximum_is_spawned() -> None:
    bench = Bench(builtin_systems()["kimi-k2.5-swarm"])
    for _ in range(1000):
        bench.send(chat_body("kimi-k2.5-swarm"))
    bench.timeline.run()
    pool = bench.reception.engine("kimi-k2.5-swarm").pool
    assert isinstance(pool, ElasticPool)
    assert max(size for _, size in pool.curve()) == 256


# --- tokens, cost -----------------------------------------------------------------------------------------------------


def test_usage_and_cost_are_those_of_the_profile() -> None:
    system = plain_system(tokens=Tokens(1000, 0.0), prices=Prices(input=1.0, output=10.0))
    usage = Bench(system).ask(chat_body(text="x" * 395)).json["usage"]
    assert usage["prompt_tokens"] == 100
    assert usage["completion_tokens"] == 1000
    assert usage["total_tokens"] == 1100
    assert usage["cost"] == pytest.approx((100 + 10_000) / 1e6)
    text_tokens = usage["completion_tokens"] - usage["completion_tokens_details"]["reasoning_tokens"]
    assert 0 < text_tokens < 200


def test_max_tokens_is_honoured_and_saves_the_time_of_the_rest() -> None:
    client = Bench(plain_system(10.0, tokens=Tokens(1000, 0.0))).ask(chat_body(max_tokens=250))
    choice = client.json["choices"][0]
    assert client.json["usage"]["completion_tokens"] == 250
    assert choice["finish_reason"] == "length"
    assert 0 < len(choice["message"]["content"]) <= 1000
    assert client.ended == pytest.approx(2.0 + 8.0 / 4)


def test_a_bound_above_the_reply_changes_nothing() -> None:
    client = Bench(plain_system(10.0, tokens=Tokens(1000, 0.0))).ask(chat_body(max_completion_tokens=1000))
    assert client.json["choices"][0]["finish_reason"] == "stop"
    assert client.ended == pytest.approx(10.0)


@pytest.mark.parametrize("bound", [1, 2, 7])
def test_the_smallest_bounds_still_leave_a_reply(bound: int) -> None:
    reply = Bench(plain_system()).ask(chat_body(max_tokens=bound)).json
    assert reply["usage"]["completion_tokens"] == bound
    assert reply["choices"][0]["message"]["content"]
    assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] >= 0


# --- cache ------------------------------------------------------------------------------------------------------------

CACHED = Cache("shared", min_tokens=100, block_tokens=10, ttl_seconds=60.0)
LONG = "y" * 795


def details(client: Client) -> tuple[int, int]:
    usage = client.json["usage"]["prompt_tokens_details"]
    return usage["cached_tokens"], usage["cache_write_tokens"]


def test_a_prompt_seen_before_is_cached_and_cheaper() -> None:
    system = plain_system(cache=CACHED, prices=Prices(input=10.0, cached_input=5.0), tokens=Tokens(10, 0.0))
    bench = Bench(system)
    first, second = bench.ask(chat_body(text=LONG)), bench.ask(chat_body(text=LONG))
    assert (details(first), details(second)) == ((0, 200), (200, 0))
    assert second.json["usage"]["cost"] == pytest.approx(first.json["usage"]["cost"] / 2)


def test_a_cached_prompt_expires() -> None:
    bench = Bench(plain_system(1.0, cache=CACHED))
    bench.ask(chat_body(text=LONG))
    bench.timeline.run(until=70.0)
    assert details(bench.ask(chat_body(text=LONG))) == (0, 200)


def test_what_is_worked_on_at_the_same_time_finds_nothing_in_the_cache() -> None:
    bench = Bench(plain_system(1.0, cache=CACHED, capacity=Capacity("fixed", 2)))
    clients = [bench.send(chat_body(text=LONG)) for _ in range(3)]
    bench.timeline.run()
    assert [details(client)[0] for client in clients] == [0, 0, 200]


def test_workers_with_caches_of_their_own_know_only_what_they_did() -> None:
    bench = Bench(plain_system(1.0, cache=replace(CACHED, scope="worker"), capacity=Capacity("fixed", 2)))
    found = [details(bench.ask(chat_body(text=LONG)))[0] for _ in range(3)]
    assert found == [0, 0, 200]


def conversation(first_reply: str) -> bytes:
    messages = [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": first_reply},
        {"role": "user", "content": "go on"},
    ]
    return json.dumps({"model": "plain", "messages": messages}).encode()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_growing_context_finds_its_earlier_replies_in_the_cache(keeps: bool) -> None:
    bench = Bench(plain_system(cache=replace(CACHED, keeps_replies=keeps)))
    text = bench.ask(chat_body(text=LONG)).text
    reply_tokens = -(-len(f"assistant\n{text}") // 4)
    cached, _ = details(bench.ask(conversation(text)))
    assert 200 + reply_tokens - 10 <= cached <= 200 + reply_tokens if keeps else cached == 200


def test_a_reply_too_short_to_be_cached_is_not() -> None:
    bench = Bench(plain_system(cache=replace(CACHED, keeps_replies=True, min_tokens=10_000)))
    text = bench.ask(chat_body(text=LONG)).text
    assert details(bench.ask(conversation(text))) == (0, 0)


def test_a_cache_mark_of_the_client_decides_what_is_written() -> None:
    parts = [
        {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": LONG},
    ]
    bench = Bench(plain_system(cache=CACHED))
    body = json.dumps({"model": "plain", "messages": [{"role": "user", "content": parts}]}).encode()
    assert [details(bench.ask(body)) for _ in range(2)] == [(0, 200), (200, 0)]


# --- faults -----------------------------------------------------------------------------------------------------------


def faulty(**faults: Any) -> Bench:
    return Bench(plain_system(1.0, faults=Faults(**faults)))


def test_a_doomed_request_fails_fast_and_is_free() -> None:
    client = faulty(doomed_rate=1.0, doomed_seconds=0.1, doomed_status=529).ask(chat_body())
    assert (client.status, client.ended) == (529, pytest.approx(0.1))
    assert client.json["error"]["code"] == "simulated_failure"
    assert client.visit is not None
    assert client.visit.cost == 0.0


def test_after_a_transient_fault_the_request_leaves_its_worker_and_queues_again() -> None:
    bench = faulty(transient_rate=1.0, transient_share=0.5, max_retries=1, backoff_seconds=10.0, doomed_seconds=0.0)
    clients = [bench.send(chat_body()) for _ in range(2)]
    bench.timeline.run()
    # Each works for half a second before its fault; none waits for the other's pause.
    for client, earliest in zip(clients, (5.5, 6.0), strict=True):
        assert client.status == 503
        assert client.ended is not None
        assert earliest <= client.ended <= earliest + 10.0


def test_a_rescheduled_request_is_taken_by_another_worker_at_once() -> None:
    system = plain_system(
        1.0,
        capacity=Capacity("fixed", 2),
        faults=Faults(
            transient_rate=1.0, transient_share=0.25, recovery="reschedule", max_retries=1, doomed_seconds=0.0
        ),
    )
    client = Bench(system).ask(chat_body())
    assert client.ended == 0.25
    assert client.visit is not None
    assert client.visit.worker == 1


def test_a_rescheduled_request_goes_before_those_that_wait() -> None:
    faults = Faults(transient_rate=1.0, transient_share=1.0, recovery="reschedule", max_retries=1, doomed_seconds=0.0)
    bench = Bench(plain_system(1.0, faults=faults))
    first, second = bench.send(chat_body()), bench.send(chat_body())
    bench.timeline.run()
    assert (first.ended, second.ended) == (1.0, 2.0)


def test_a_hung_request_is_never_answered_and_holds_no_worker() -> None:
    bench = faulty(hang_rate=1.0, hang_seconds=30.0)
    clients = [bench.send(chat_body()) for _ in range(2)]
    bench.timeline.run()
    assert [(client.status, client.ending, client.ended) for client in clients] == [
        (None, Ending.DISCONNECTED, 30.0)
    ] * 2
    assert clients[0].visit is not None
    assert clients[0].visit.cost == 0.0


def test_a_stalled_stream_has_its_head_in_time_and_its_first_token_late() -> None:
    client = faulty(stall_rate=1.0, stall_seconds=5.0).ask(chat_body(**STREAM))
    assert client.head_at == pytest.approx(0.2)
    assert client.feeds[0][0] == pytest.approx(5.2)
    assert client.ended == pytest.approx(6.0)
    assert client.ending is Ending.COMPLETE


def test_a_stalled_document_is_late() -> None:
    assert faulty(stall_rate=1.0, stall_seconds=5.0).ask(chat_body()).ended == pytest.approx(6.0)


@pytest.mark.parametrize("fields", [{}, STREAM])
def test_a_cut_reply_breaks_off_and_frees_its_worker(fields: dict[str, Any]) -> None:
    bench = faulty(cut_rate=1.0)
    client, after = bench.send(chat_body(**fields)), bench.send(chat_body(**fields))
    bench.timeline.run()
    assert client.status == 200
    assert client.ending is after.ending is Ending.DISCONNECTED
    assert client.body
    assert b"[DONE]" not in client.body
    if not fields:
        with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
            client.json  # noqa: B018 - reading it is what fails


def test_an_error_inside_a_stream_comes_after_some_tokens() -> None:
    client = faulty(stream_error_rate=1.0).ask(chat_body(**STREAM))
    assert client.ending is Ending.COMPLETE
    blocks = client.body.decode().split("\n\n")[:-1]
    assert json.loads(blocks[-1].removeprefix("data: "))["error"]["code"] == "simulated_failure"
    assert len(blocks) == 1 + 8 + 1


def test_an_error_inside_a_stream_spares_documents() -> None:
    assert faulty(stream_error_rate=1.0).ask(chat_body()).text


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_has_at_most_sixteen_pieces_over_the_time_of_its_work() -> None:
    client = Bench(plain_system(1.0)).ask(chat_body(**STREAM))
    assert client.headers["content-type"].startswith("text/event-stream")
    times = [when for when, _ in client.feeds]
    assert len(times) == 16
    assert client.head_at == times[0] == pytest.approx(0.2)
    assert times[-1] == client.ended == pytest.approx(1.0)
    assert all(after - before == pytest.approx(0.8 / 15) for before, after in pairwise(times))


def test_a_system_may_send_more_pieces() -> None:
    assert len(Bench(plain_system(stream=Stream(max_chunks=40))).ask(chat_body(**STREAM)).feeds) == 40


def test_gaps_stray_and_pieces_keep_their_order() -> None:
    times = [when for when, _ in Bench(plain_system(stream=Stream(gap_jitter=1.0))).ask(chat_body(**STREAM)).feeds]
    assert times == sorted(times)
    assert len({round(after - before, 6) for before, after in pairwise(times)}) > 3


def test_a_short_answer_comes_in_one_piece_at_the_end() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": 1}}}
    client = Bench(plain_system(2.0)).ask(chat_body(**STREAM, response_format=schema))
    assert [when for when, _ in client.feeds] == [2.0]


def test_a_stream_says_the_same_as_a_document() -> None:
    streamed = events(Bench(plain_system()).ask(chat_body(**STREAM)))
    document = Bench(plain_system()).ask(chat_body()).json
    assert streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in streamed[:-1])
    assert text == document["choices"][0]["message"]["content"]
    assert streamed[-2]["choices"][0]["finish_reason"] == "stop"
    assert streamed[-1]["choices"] == []
    assert streamed[-1]["usage"] == document["usage"]


def test_a_stream_without_the_option_ends_without_usage() -> None:
    assert all(event.get("usage") is None for event in events(Bench(plain_system()).ask(chat_body(stream=True))))


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_answers_fit_the_schema_of_the_response_format() -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}
    answer = json.loads(Bench(plain_system()).ask(chat_body(response_format=asked)).text)
    assert isinstance(answer["answer"], str)
    assert 0 <= answer["confidence"] <= 1


def test_any_object_will_do_without_a_schema() -> None:
    answer = json.loads(Bench(plain_system()).ask(chat_body(response_format={"type": "json_object"})).text)
    assert isinstance(answer, dict)


def test_prose_is_answered_to_the_format_text() -> None:
    assert "." in Bench(plain_system()).ask(chat_body(response_format={"type": "text"})).text


# --- refusals ---------------------------------------------------------------------------------------------------------

BAD_FORMAT = {"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "a"}}}
REFUSED = {
    "no json": (b"{", 400, "the body is not JSON"),
    "deep json": (b"[" * 100_000, 400, "the body is not JSON"),
    "no object": (b"[1]", 400, "the body is not a JSON object"),
    "no messages": (b"{}", 400, "messages must be a list"),
    "odd message": (b'{"messages":[1]}', 400, "each of messages must be an object"),
    "odd model": (b'{"model":1,"messages":[{}]}', 400, "model must be a text"),
    "two choices": (chat_body(n=2), 400, "n must be 1"),
    "odd bound": (chat_body(max_tokens=0), 400, "max_tokens must be a whole number of at least 1"),
    "odd format": (chat_body(response_format={"type": "json"}), 400, "type must be one of text, json_object"),
    "format is a text": (chat_body(response_format="json"), 400, "response_format.type must be one of"),
    "format without schema": (chat_body(response_format={"type": "json_schema"}), 400, "names no JSON schema"),
    "odd schema": (chat_body(response_format=BAD_FORMAT), 400, "cannot answer this schema: a text for a pattern"),
    "unknown model": (chat_body("plan"), 404, "called 'plan'; there are plain; did you mean 'plain'?"),
}


@pytest.mark.parametrize(("body", "status", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused_at_once(body: bytes, status: int, message: str) -> None:
    bench = Bench(plain_system())
    client = bench.send(body)
    assert (client.status, client.ending, client.ended, client.visit) == (status, Ending.COMPLETE, 0.0, None)
    assert message in client.json["error"]["message"]
    assert "x-swarm-simulated" in client.headers


def test_an_unknown_model_has_a_code_of_its_own() -> None:
    assert Bench(plain_system()).send(chat_body("none")).json["error"]["code"] == "model_not_found"


def test_nothing_answers_at_other_addresses() -> None:
    client = Bench(plain_system()).send(chat_body(), "http://simulated/v1/embeddings")
    assert client.status == 404
    assert "/chat/completions" in client.json["error"]["message"]


def test_who_asks_too_much_is_told_when_to_come_back() -> None:
    bench = Bench(plain_system(limits=Limits(requests_per_minute=1)), speed=2.0)
    assert bench.send(chat_body()).status is None
    client = bench.send(chat_body())
    assert client.status == 429
    assert client.headers["retry-after-ms"] == "30000"
    assert client.headers["x-ratelimit-remaining-requests"] == "0"
    assert client.headers["x-swarm-simulated"] == "plain;2"
    assert client.json["error"]["code"] == "rate_limit_exceeded"
    bench.timeline.run(until=60.0)
    bench.ask(chat_body())
    assert bench.ask(chat_body()).status == 429


def test_a_request_without_a_model_goes_to_the_default_system() -> None:
    bench = Bench(*builtin_systems().values())
    client = bench.send(json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode())
    assert client.visit is not None
    assert client.visit.plan.answer.model == "gpt-6-agent"


# --- seeds ------------------------------------------------------------------------------------------------------------


def transcript(seed: str) -> list[tuple[Any, ...]]:
    bench = Bench(*builtin_systems().values(), seed=seed)
    models = ["gpt-6-agent", "kimi-k2.5-swarm"] * 60
    format_ = {"type": "json_schema", "json_schema": {"schema": ANSWER}}
    clients = [
        bench.send(chat_body(model, text=str(number), **(STREAM if number % 3 else {"response_format": format_})))
        for number, model in enumerate(models)
    ]
    bench.timeline.run()
    return [(client.status, tuple(sorted(client.headers.items())), client.feeds) for client in clients]


def test_the_same_seed_and_the_same_requests_give_the_same_bytes_at_the_same_times() -> None:
    assert transcript("42:a") == transcript("42:a")


def test_another_seed_gives_another_run() -> None:
    assert transcript("42:a") != transcript("43:a")


def test_one_system_is_not_disturbed_by_another() -> None:
    alone, together = (Bench(*builtin_systems().values(), seed="1") for _ in range(2))
    expected = [alone.ask(chat_body("gpt-6-agent")).body for _ in range(3)]
    found = []
    for _ in range(3):
        together.send(chat_body("kimi-k2.5-swarm"))
        found.append(together.send(chat_body("gpt-6-agent")))
    together.timeline.run()
    assert [client.text for client in found] == [
        json.loads(body)["choices"][0]["message"]["content"] for body in expected
    ]


def test_a_plan_is_made_in_order_of_arrival() -> None:
    timeline = EventTimeline()
    system = plain_system(service=Service((0.0, 1.0), (1.0, 2.0)), faults=Faults(doomed_rate=0.5))
    one, other = (Engine(system, "1", timeline) for _ in range(2))
    plans = [one.plan_reply(ask("a"), 0.0) for _ in range(20)]
    assert [plan.number for plan in plans] == list(range(20))
    again = [other.plan_reply(ask("b"), 0.0) for _ in range(20)]
    assert [plan.seconds for plan in plans] == [plan.seconds for plan in again]
    assert {plan.journey.fate for plan in plans} == {Fate.ANSWERED, Fate.DOOMED}


def test_the_address_may_be_a_path_alone() -> None:
    assert Bench(plain_system()).ask(chat_body(), CHAT.removeprefix("http://simulated")).status == 200
