"""Which recorded exchange answers which request, and what is told where none does."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.exchange import Asker, Request
from pytest_swarm.sources.cassette import match, nearest
from pytest_swarm.sources.cassette.interaction import Interaction
from pytest_swarm.sources.cassette.jsonpath import parse_json_path
from pytest_swarm.sources.cassette.match import Index, Matcher
from pytest_swarm.sources.cassette.nearest import difference
from pytest_swarm.sources.cassette.redact import Redactor
from tests.unit.cassette.cassette_samples import STREAMED, request

FIRST = Asker(0, False, 0)


def recorded(asked: Any, agent: int | None = 0, sequence: int = 0, *, run: int = 0, **more: Any) -> Interaction:
    return replace(STREAMED, request=request(asked), agent=agent, sequence=sequence, run=run, **more)


def index(*interactions: Interaction, ignored: tuple[str, ...] = ()) -> Index:
    return Index(interactions, Matcher([parse_json_path(path, "here") for path in ignored]))


def found(held: Index, body: Any, asker: Asker = FIRST, sequence: int = 0) -> Interaction | None:
    return held.take(held.matcher.key(request(body)), asker, sequence)


def test_neither_base_url_nor_order_of_keys_nor_form_of_numbers_counts() -> None:
    matcher = Matcher()
    one = Request("POST", "http://127.0.0.1:1/v1/chat/completions?a=1", {}, b'{"b": 1.0, "a": [1, {"d": "\\u00e9"}]}')
    other = Request("post", "https://h.example/x/v1/chat/completions", {}, '{"a":[1,{"d":"é"}],"b":1}'.encode())
    assert matcher.key(one) == matcher.key(other)
    for different in (b'{"b": 2, "a": [1, {"d": "\\u00e9"}]}', b'{"b": true, "a": [1, {"d": "\\u00e9"}]}', b"no json"):
        assert matcher.key(replace(one, body=different)) != matcher.key(one)
    assert matcher.key(replace(one, url="http://127.0.0.1:1/v1/messages")) != matcher.key(one)


def test_what_a_recording_leaves_out_does_not_count() -> None:
    asked = request({"model": "m", "user": "bob", "customer": "c", "metadata": {"user_id": "u"}})
    stored = Redactor(["customer"]).request(asked)
    assert b"bob" not in stored.body
    matcher = Matcher((), Redactor(["customer"]))
    assert matcher.key(asked) == matcher.key(stored)
    assert Matcher().key(asked) != Matcher().key(stored)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("$.seed", {"seed": 1}, {"seed": 2}),
        ("seed", {"seed": 1}, {}),
        ("metadata.request.id", {"metadata": {"request": {"id": 1}}}, {"metadata": {"request": {"id": 2}}}),
        ("messages[*].id", {"messages": [{"id": 1}, {"id": 2}]}, {"messages": [{"id": 3}, {}]}),
        ("messages[].id", {"messages": [{"id": 1}]}, {"messages": [{"id": 3}]}),
        ("messages[1]", {"messages": [1, 2]}, {"messages": [1, 3]}),
        ("['odd name'].x", {"odd name": {"x": 1}}, {"odd name": {}}),
    ],
)
def test_paths_can_be_left_out(path: str, one: Any, other: Any) -> None:
    matcher = Matcher([parse_json_path(path, "here")])
    assert matcher.key(request(one)) == matcher.key(request(other))
    assert Matcher().key(request(one)) != Matcher().key(request(other))


@pytest.mark.parametrize("path", ["messages[0]", "messages[7].id", "seed.deeper", "model[0]", "absent"])
def test_a_path_takes_nothing_else_out(path: str) -> None:
    matcher = Matcher([parse_json_path(path, "here")])
    one, other = ({"model": "m", "seed": 1, "messages": ["x", {"id": end}]} for end in (1, 2))
    assert matcher.key(request(one)) != matcher.key(request(other))


@pytest.mark.parametrize("path", ["", "$", "a b", "a[", "a[x]", "messages[0", "a..b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(SettingError, match=r"^here: .* is no path to a JSON value; write one such as 'metadata"):
        parse_json_path(path, "here")


def test_every_exchange_is_given_once() -> None:
    held = index(recorded({"a": 1}), recorded({"a": 2}))
    assert held.unused == 2
    assert found(held, {"a": 1}) is held.interactions[0]
    assert found(held, {"a": 1}) is None
    assert found(held, {"a": 3}) is None
    assert (held.unused, held.recorded(held.matcher.key(request({"a": 1})))) == (1, 1)


def test_twenty_users_who_ask_the_same_keep_their_own_retries() -> None:
    # By order alone, the answers to the retries would be mixed up with those to the first attempts.
    body = {"same": True}
    refused = [recorded(body, agent, 0, status=429) for agent in range(0, 20, 2)]
    answered = [recorded(body, agent, 0, status=200) for agent in range(1, 20, 2)]
    retried = [recorded(body, agent, 1, status=200) for agent in range(0, 20, 2)]
    held = index(*answered, *refused, *retried)
    for agent in range(20):
        first = found(held, body, Asker(0, False, agent), 0)
        assert first is not None
        assert first.status == (200 if agent % 2 else 429)
    for agent in range(0, 20, 2):
        second = found(held, body, Asker(0, False, agent), 1)
        assert second is not None
        assert (second.agent, second.status) == (agent, 200)


def test_of_one_asker_the_order_of_asking_counts_not_that_of_the_answers() -> None:
    held = index(recorded({}, 0, 2), recorded({}, 0, 0), recorded({}, 0, 1))
    # A number that was used by another request of the agent is in nobody's way.
    assert [one.sequence for _ in range(3) if (one := found(held, {}, FIRST, 9))] == [0, 1, 2]


def test_what_was_recorded_for_others_is_the_last_resort() -> None:
    held = index(recorded({}, 5, run=1), recorded({}, 4, warmup=True), recorded({}, 3), recorded({}, 0))
    taken = [found(held, {}) for _ in range(5)]
    assert [one and (one.agent, one.run, one.warmup) for one in taken] == [
        (0, 0, False),
        (3, 0, False),
        (5, 1, False),
        (4, 0, True),
        None,
    ]


def test_a_foreign_recording_is_played_in_its_order() -> None:
    held = index(*(recorded({}, None, timed=False, body=bytes([at])) for at in range(3)))
    assert [one.body for agent in (2, 0, 1) if (one := found(held, {}, Asker(0, False, agent)))] == [
        b"\0",
        b"\1",
        b"\2",
    ]


@pytest.mark.parametrize("bodies", [lambda at: {"messages": [at]}, lambda at: {"messages": ["same"]}])
def test_work_grows_with_the_number_of_exchanges_and_not_with_its_square(bodies: Any) -> None:
    def lines(many: int) -> int:
        """How many lines of the module run to load a cassette and to play it backwards."""
        interactions = [recorded(bodies(at), at % 100, at // 100) for at in range(many)]
        count = 0

        def line(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return line

        before = sys.gettrace()
        sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename == match.__file__ else None)
        try:
            held = index(*interactions)
            taken = [found(held, bodies(at), Asker(0, False, at % 100), 10_000) for at in reversed(range(many))]
        finally:
            sys.settrace(before)
        assert None not in taken
        assert held.unused == 0
        return count

    assert lines(5_000) < 11 * lines(500)


# --- misses -----------------------------------------------------------------------------------------------------------


def told(asked: Any, *bodies: Any, asker: Asker = FIRST) -> str:
    interactions = [recorded(body, agent) for agent, body in enumerate(bodies)]
    return difference(request(asked), asker, interactions, Matcher())


def test_the_nearest_request_is_named_with_what_differs() -> None:
    text = told(
        {"model": "m", "temperature": 0, "messages": [{"content": "How many apples are 7 and 9?"}]},
        {"model": "other", "messages": [{"content": "Write a poem"}]},
        {"model": "m", "messages": [{"content": "How many apples are 7 and 8?"}]},
    )
    assert text == (
        'nearest is the request of task 1; what differs: temperature is 0, not recorded; messages[0].content is "How '
        'many apples are 7 and 9?", recorded "How many apples are 7 and 8?"'
    )


def test_long_texts_are_shown_where_they_differ() -> None:
    long = "x" * 3000
    text = told({"p": f"{long}seven{long}"}, {"p": f"{long}eight{long}"}, asker=Asker(2, True, None))
    assert "seven" in text
    assert "eight" in text
    assert text.startswith('nearest is the request of task 0; what differs: p is "…xxx')
    assert len(text) < 300


def test_many_differences_are_counted() -> None:
    text = told({str(number): 1 for number in range(9)}, {str(number): True for number in range(9)})
    assert text.endswith("0 is 1, recorded true; 1 is 1, recorded true; 2 is 1, recorded true and 6 more")


def test_secrets_are_not_told() -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    assert key not in told({"p": f"my key is {key}"}, {"p": "mine"})


def test_another_path_and_no_json_and_nothing_at_all() -> None:
    other = replace(recorded({}), request=request({}, url="http://h/v1/messages"))
    assert difference(request({}), FIRST, [other], Matcher()) == (
        'nearest is the request of task 0; what differs: the path is "/chat/completions", recorded "/messages"'
    )
    raw = Request("POST", "http://h/v1/messages", {}, b"plain")
    assert 'the body is "plain", not recorded' in difference(raw, FIRST, [other], Matcher())
    assert difference(raw, FIRST, [], Matcher()) == "the cassette holds no exchange at all"


def test_of_ten_thousand_only_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    facts = nearest._facts
    monkeypatch.setattr(nearest, "_facts", lambda one, matcher: looked_at.append(one) or facts(one, matcher))
    bodies = [{"messages": [{"content": json.dumps([at] * 50)}]} for at in range(10_000)]
    interactions = [recorded(body, agent) for agent, body in enumerate(bodies)]
    asked = {"messages": [{"content": json.dumps([9_999] * 50)}], "n": 1}
    text = difference(request(asked), Asker(0, False, 9_999), interactions, Matcher())
    assert 1 < len(looked_at) <= nearest.LOOKED_AT + 2
    # The asker's own are looked at first.
    assert text == "nearest is the request of task 9999; what differs: n is 1, not recorded"
