"""What is said to wrong input: one line, in these very words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.settings import Settings
from pytest_swarm.swarm.plan import Layer, plan_from

DURATION = "write seconds, or a number with ms, s, m or h such as '30s'"
RATE = "write it per s or per min, such as '40/s' or '2400/min'"
RANGE = "write a number such as 50, or a range such as '8..256'"
LIMIT = "write '40/s burst 50' for requests or '200k tokens/min' for tokens"
MONEY = "is not an amount of US dollars above 0; write it as 2.50 or '$2.50'"

ON_THE_COMMAND_LINE = [
    ("--swarm-duration=30sec", f"'30sec' is not a duration; {DURATION}; did you mean '30s'?"),
    ("--swarm-duration=2 Minutes", f"'2 Minutes' is not a duration; {DURATION}; did you mean '2m'?"),
    ("--swarm-duration=30parsec", f"'30parsec' is not a duration; {DURATION}"),
    ("--swarm-duration=-5", f"'-5' is not a finite duration above 0; {DURATION}"),
    ("--swarm-duration=1e400", f"'1e400' is not a finite duration above 0; {DURATION}"),
    ("--swarm-duration=soon", f"'soon' is not a duration; {DURATION}"),
    ("--swarm-tasks=ten", "'ten' is not a whole number of at least 1; write one such as 50"),
    ("--swarm-tasks=0", "'0' is not a whole number of at least 1; write one such as 50"),
    ("--swarm-repeat=1.5", "'1.5' is not a whole number of at least 1; write one such as 50"),
    ("--swarm-seed=-1", "'-1' is not a whole number of at least 0; write one such as 50"),
    ("--swarm-concurrency=8-256", f"'8-256' is not a range of tasks in flight; {RANGE}; did you mean '8..256'?"),
    ("--swarm-concurrency=9..8", f"'9..8' is not a range of tasks in flight; {RANGE}; did you mean '8..9'?"),
    ("--swarm-concurrency=8..8", f"'8..8' is not a range of tasks in flight; {RANGE}"),
    ("--swarm-rate=40", f"'40' is not a rate; {RATE}; did you mean '40/s'?"),
    ("--swarm-rate=40/sec", f"'40/sec' is not a rate; {RATE}; did you mean '40/s'?"),
    ("--swarm-rate=90 rpm", f"'90 rpm' is not a rate; {RATE}; did you mean '90/min'?"),
    ("--swarm-rate=40/fortnight", f"'40/fortnight' is not a rate; {RATE}"),
    ("--swarm-rate=40 apples", f"'40 apples' is not a rate; {RATE}"),
    ("--swarm-rate=0/s", f"'0/s' is not a finite rate above 0; {RATE}"),
    ("--swarm-model=", "'' is not usable; write a text that is not empty"),
    ("--swarm-sla=", "'' is not usable; write a text that is not empty"),
    (
        "--swarm-base-url=gateway.example.com/v1",
        (
            "'gateway.example.com/v1' has no scheme; write http:// or https:// before it; "
            "did you mean 'https://gateway.example.com/v1'?"
        ),
    ),
    (
        "--swarm-base-url=localhost:8000",
        "'localhost:8000' has no scheme; write http:// or https:// before it; did you mean 'http://localhost:8000'?",
    ),
    (
        "--swarm-base-url=htps://gateway.example.com",
        "'htps://gateway.example.com' has the scheme 'htps'; allowed are http, https; did you mean 'https'?",
    ),
    (
        "--swarm-base-url=http://gateway:99999999",
        (
            "'http://gateway:99999999' is not a URL: its host or port cannot be read; "
            "write one such as 'http://127.0.0.1:8000/v1'"
        ),
    ),
    (
        "--swarm-base-url=https://:80",
        "'https://:80' names no host and port that can be reached; write one such as 'http://127.0.0.1:8000/v1'",
    ),
    (
        "--swarm-base-url=https://gate way",
        "'https://gate way' holds a space, a backslash or a control character; write it without",
    ),
    ("--swarm-base-url=", "'' is not a URL; write one such as 'https://gateway.example.com/v1'"),
    (
        "--swarm-base-url=https://me:hush@gateway.example.com",
        (
            "the URL holds a user name or password (not shown); leave it out and name a key's variable with "
            "--swarm-api-key-env"
        ),
    ),
    (
        "--swarm-base-url=https://gateway.example.com/v1?key=hush",
        "the URL has a query or fragment (not shown); end it at its path",
    ),
    (
        "--swarm-api-key-env=sk-proj-hush",
        (
            "the value (not shown, it may be a key) is no variable name; give the NAME of the variable that holds "
            "the key, such as SWARM_API_KEY"
        ),
    ),
    ("--swarm-api-key-env=NOPE", "the environment variable NOPE is not set; export it, or name another"),
    ("--swarm-header=Authorization hush", "the text (not shown) is not a header; write it as 'Name: value'"),
    ("--swarm-header=Bearer hush: x", "the text (not shown) is not a header; write it as 'Name: value'"),
    ("--swarm-header=X-Team:", "the header 'X-Team' has no value; write it as 'Name: value'"),
    (
        "--swarm-header=X-Team: hüsh",
        (
            "the value of 'X-Team' (not shown) holds a character that no header can carry; "
            "allowed are printable ASCII characters"
        ),
    ),
    (
        "--swarm-clock=virtul",
        "'virtul' is not allowed; choose one of auto, real, virtual; did you mean 'virtual'?",
    ),
    (
        "--swarm-record-mode=mising",
        "'mising' is not allowed; choose one of missing, all, check; did you mean 'missing'?",
    ),
    ("--swarm-replay-speed=fast", "'fast' is not a replay speed; write virtual, real, or a number above 0 such as 10"),
    (
        "--swarm-replay-speed=Virtual",
        "'Virtual' is not a replay speed; write virtual, real, or a number above 0 such as 10; did you mean 'virtual'?",
    ),
    ("--swarm-systems=nope.toml", "'nope.toml' does not exist; name a file that does"),
    ("--swarm-json=.", "'.' is a directory; name a file"),
    ("--swarm-confidence=95", "'95' is not a share between 0 and 1; write 0.95 or '95%'; did you mean '95%'?"),
    ("--swarm-confidence=1", "'1' is not a share between 0 and 1; write 0.95 or '95%'"),
    ("--swarm-max-cost=free", f"'free' {MONEY}"),
    (
        "--swarm-project=1_000_000",
        "'1_000_000' is not a number of tasks a month; write it as '1_000_000/month'; did you mean '1000000/month'?",
    ),
    ("--swarm-project=10/day", "'10/day' is not a number of tasks a month; write it as '1_000_000/month'"),
]

IN_THE_INI_FILE = [
    ("swarm_tasks = many", "swarm_tasks: 'many' is not a whole number of at least 1; write one such as 50"),
    ("swarm_record = maybe", "swarm_record: invalid truth value 'maybe'; write true or false"),
    (
        "swarm_hosts = https://api.example.com/v1",
        (
            "swarm_hosts: 'https://api.example.com/v1' is not a host; write its name alone, such as 'api.example.com'; "
            "did you mean 'api.example.com'?"
        ),
    ),
    (
        "swarm_hosts = https://me:hush@api.example.com",
        "swarm_hosts: the value (not shown) is more than a host; write its name alone",
    ),
    ("swarm_prices_date = 1.12.2026", "swarm_prices_date: '1.12.2026' is not a day; write one such as 2026-12-01"),
    ("swarm_cassette_max_age = 30d", f"swarm_cassette_max_age: '30d' is not a duration; {DURATION}"),
    (
        "swarm_header = Authorization hush",
        "swarm_header: the text (not shown) is not a header; write it as 'Name: value'",
    ),
]

IN_THE_MARKER: list[tuple[dict[str, Any], str]] = [
    (
        {"task": 3},
        (
            "swarm(task=...): no such argument; allowed are tasks, concurrency, rate, arrival, stages, duration, "
            "warmup, repeat, seed, model, timeout, task_timeout, retries, limit, backlog, reschedule, max_cost, "
            "workers; did you mean 'tasks'?"
        ),
    ),
    ({"tasks": True}, "swarm(tasks=...): True is not a whole number of at least 1; write one such as 50"),
    ({"tasks": 2.0}, "swarm(tasks=...): 2.0 is not a whole number of at least 1; write one such as 50"),
    ({"warmup": -1}, "swarm(warmup=...): -1 is not a whole number of at least 0; write one such as 50"),
    ({"retries": "two"}, "swarm(retries=...): 'two' is not a whole number of at least 0; write one such as 50"),
    ({"model": 4}, "swarm(model=...): 4 is not usable; write a text that is not empty"),
    (
        {"timeout": {"idl": 3}},
        "swarm(timeout=...): 'idl' is no timeout; allowed are connect, first_token, idle, total; did you mean 'idle'?",
    ),
    (
        {"timeout": {"idle": "30sec"}},
        f"swarm(timeout={{'idle': ...}}): '30sec' is not a duration; {DURATION}; did you mean '30s'?",
    ),
    ({"timeout": float("inf")}, f"swarm(timeout=...): inf is not a finite duration above 0; {DURATION}"),
    ({"task_timeout": True}, f"swarm(task_timeout=...): True is not a duration; {DURATION}"),
    (
        {"arrival": "poison"},
        (
            "swarm(arrival=...): 'poison' is not allowed; choose one of poisson, constant, bursty, gamma:<shape>, or "
            "name a trace, a .csv or .jsonl file; did you mean 'poisson'?"
        ),
    ),
    (
        {"rate": "4/s", "tasks": 2, "arrival": "gamma:0"},
        "swarm(arrival=...): 'gamma:0' is no arrival; write the shape as a number above 0: 'gamma:0.5'",
    ),
    (
        {"arrival": "bursty"},
        "swarm(arrival=...) spreads starts over time, and nothing sets a rate; add rate='40/s'",
    ),
    (
        {"arrival": "day.csv", "rate": "4/s", "tasks": 2},
        "swarm(arrival=...) and swarm(rate=...) exclude each other; drop one",
    ),
    (
        {"rate": "40/s", "tasks": 2, "concurrency": "8..256"},
        (
            "swarm(rate=...) sets the load, and swarm(concurrency=...): '8..256' would look for one; drop one of them, "
            "or write concurrency=256 as a ceiling"
        ),
    ),
    (
        {"backlog": 5},
        "swarm(backlog=...) needs a rate: a closed loop starts no task that must wait; add one, or drop it",
    ),
    (
        {"rate": "40/s", "tasks": 2, "backlog": 5},
        "swarm(backlog=...) needs a concurrency, above which tasks wait; add one, or drop it",
    ),
    ({"rate": 40}, f"swarm(rate=...): 40 is not a rate; {RATE}; did you mean '40/s'?"),
    ({"rate": "40/s"}, "swarm(rate=...): '40/s' alone never ends; add tasks, a duration, or both"),
    (
        {"stages": [("30s", 50), ("30s", "40/s")]},
        (
            "swarm(stages=...): [('30s', 50), ('30s', '40/s')] is not one kind of stages; "
            "give every stage a number of tasks, or every stage a rate"
        ),
    ),
    (
        {"stages": []},
        "swarm(stages=...): [] is not a list of stages; write [('30s', 50), ('1m', 100)] or [('30s', '40/s')]",
    ),
    (
        {"stages": ["30s"]},
        "swarm(stages=...): '30s' is not a stage; write a pair of duration and target: ('30s', 50) or ('30s', '40/s')",
    ),
    (
        {"stages": [("30s", 5)], "duration": "1m"},
        "swarm(stages=...) and swarm(duration=...) exclude each other; drop one",
    ),
    (
        {"limit": "200k token/min"},
        f"swarm(limit=...): '200k token/min' is not a limit; {LIMIT}; did you mean '200k tokens/min'?",
    ),
    ({"limit": "40 rpm"}, f"swarm(limit=...): '40 rpm' is not a limit; {LIMIT}; did you mean '40/min'?"),
    ({"limit": "40/s burst 0"}, f"swarm(limit=...): '40/s burst 0' is not a limit above 0; {LIMIT}"),
    (
        {"limit": ["40/s", "50/s"]},
        (
            "swarm(limit=...): ['40/s', '50/s'] is not a usable list of limits; "
            "give one limit on requests, one on tokens, or both"
        ),
    ),
    ({"max_cost": "$0"}, f"swarm(max_cost=...): '$0' {MONEY}"),
    ({"tasks": "9" * 90}, f"swarm(tasks=...): '{'9' * 58}… is not a whole number of at least 1; write one such as 50"),
]


@pytest.mark.parametrize(("argument", "answer"), ON_THE_COMMAND_LINE, ids=lambda value: value)
def test_a_wrong_option(read: Callable[..., Settings], argument: str, answer: str) -> None:
    with pytest.raises(SettingError) as error:
        read(argument)
    assert str(error.value) == f"{argument.partition('=')[0]}: {answer}"
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(("line", "answer"), IN_THE_INI_FILE, ids=lambda value: value)
def test_a_wrong_ini_value(read: Callable[..., Settings], line: str, answer: str) -> None:
    with pytest.raises(SettingError) as error:
        read(ini=line)
    assert str(error.value) == f"ini option {answer}"


@pytest.mark.parametrize(("arguments", "answer"), IN_THE_MARKER, ids=str)
def test_a_wrong_marker_argument(arguments: dict[str, Any], answer: str) -> None:
    with pytest.raises(SettingError) as error:
        plan_from((), arguments, Settings())
    assert str(error.value) == answer


def test_too_many_positional_arguments() -> None:
    with pytest.raises(SettingError) as error:
        plan_from((10, 5, "40/s"), {}, Settings())
    assert str(error.value) == "swarm(): '40/s' has no name; only tasks and concurrency are taken by position"


def test_an_argument_given_twice() -> None:
    with pytest.raises(SettingError) as error:
        plan_from((10,), {"tasks": 10}, Settings())
    assert str(error.value) == "swarm(tasks=...): given twice, by position and by name; drop one"


def test_a_rate_that_never_ends_names_the_place_it_came_from() -> None:
    for settings, place in (
        (Settings(command_line=Layer(rate=40.0)), "--swarm-rate"),
        (Settings(ini=Layer(rate=40.0)), "ini option swarm_rate"),
    ):
        with pytest.raises(SettingError) as error:
            plan_from((), {}, settings)
        assert str(error.value) == f"{place}: '40/s' alone never ends; add tasks, a duration, or both"
