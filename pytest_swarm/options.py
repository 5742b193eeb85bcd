"""The one table of options: from it come the command line, the ini keys, and how each value is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_swarm import available
from pytest_swarm.credentials import parse_base_url, parse_field, parse_header, parse_host, parse_key_variable
from pytest_swarm.values import (
    parse_choice,
    parse_concurrency,
    parse_count,
    parse_day,
    parse_duration,
    parse_money,
    parse_probability,
    parse_project,
    parse_rate,
    parse_speed,
    parse_text,
)

if TYPE_CHECKING:
    import pytest

__all__ = ["CASSETTE_FORMS", "CLOCKS", "OPTIONS", "RECORD_MODES", "Kind", "Option", "register"]

CLOCKS: Final = ("auto", "real", "virtual")
RECORD_MODES: Final = ("missing", "all", "check")
CASSETTE_FORMS: Final = ("yaml", "json")

Kind = Literal["value", "list", "flag", "input", "output", "folder"]
"""How often a value is given, and whether it is a path: an `input` must exist, an `output` will be written."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: a name on the command line, a key in the ini file, and how its text is read."""

    name: str
    """Without ``--swarm-``."""
    metavar: str | None
    help: str
    parse: Callable[[object, str], Any] = parse_text
    kind: Kind = "value"
    default: Any = None
    ini_only: bool = False

    @property
    def flag(self) -> str:
        """``--swarm-base-url``."""
        return f"--swarm-{self.name}"

    @property
    def key(self) -> str:
        """``swarm_base_url``: the ini key, and pytest's name of the option."""
        return f"swarm_{self.name.replace('-', '_')}"

    @property
    def available(self) -> bool:
        """Whether this version carries the option out."""
        return self.name in available.OPTIONS


_natural = partial(parse_count, minimum=0)

OPTIONS: Final[tuple[Option, ...]] = (
    Option("concurrency", "N", "tasks in flight at once; replaces the marker's", parse_concurrency),
    Option("tasks", "N", "tasks of each swarm", parse_count),
    Option("rate", "R", "task starts at a fixed rate, such as 40/s or 2400/min", parse_rate),
    Option("duration", "D", "end each run after this time, such as 30s or 2m", parse_duration),
    Option("repeat", "N", "runs of each swarm", parse_count),
    Option("seed", "N", "seed of everything that is drawn at random", _natural),
    Option("model", "M", "model to ask for"),
    Option("base-url", "URL", "base URL of the gateway; without one it is simulated", parse_base_url),
    Option("api-key-env", "NAME", "name of the environment variable that holds the API key", parse_key_variable),
    Option("header", "'NAME: VALUE'", "header sent with every model call; repeatable", parse_header, "list", ()),
    Option("clock", "|".join(CLOCKS), "which time runs", partial(parse_choice, allowed=CLOCKS), default="auto"),
    Option("systems", "FILE", "profiles of simulated gateways", kind="input"),
    Option("record", None, "record every exchange to cassettes", kind="flag", default=False),
    Option(
        "record-mode",
        "|".join(RECORD_MODES),
        "what to record",
        partial(parse_choice, allowed=RECORD_MODES),
        default="missing",
    ),
    Option("replay", None, "take every reply from cassettes", kind="flag", default=False),
    Option("replay-speed", "virtual|real|N", "how fast a replay goes", parse_speed, default="virtual"),
    Option("cassette-dir", "DIR", "where cassettes are", kind="folder"),
    Option("sla", "EXPR", "SLA expression that every swarm must meet; repeatable", kind="list", default=()),
    Option("confidence", "P", "confidence at which SLA expressions must hold, such as 0.95", parse_probability),
    Option("abort", None, "end a run once an SLA expression can no longer be met", kind="flag"),
    Option("max-cost", "DOLLARS", "ceiling for the cost of the whole pytest run", parse_money),
    Option(
        "plan", None, "show what would be sent and what it would cost, and send nothing", kind="flag", default=False
    ),
    Option("baseline", "FILE", "JSON report to compare with", kind="input"),
    Option("json", "PATH", "write the JSON report", kind="output"),
    Option("html", "PATH", "write the HTML report", kind="output"),
    Option("samples", "PATH", "write one row per task and call", kind="output"),
    Option("project", "TASKS/month", "project the cost to this many tasks a month", parse_project),
    Option("no-progress", None, "no progress line", kind="flag", default=False),
    Option("workers", "N", "processes that share the tasks of a swarm", parse_count),
    Option("ray-address", "ADDRESS", "Ray cluster that runs the workers"),
    Option("hosts", None, "hosts a simulated or replayed swarm may reach", parse_host, "list", (), ini_only=True),
    Option(
        "match-ignore",
        None,
        "JSON paths that do not count when a replay is matched",
        kind="list",
        default=(),
        ini_only=True,
    ),
    Option(
        "redact-fields",
        None,
        "JSON fields whose values are in no cassette, by name",
        parse_field,
        "list",
        (),
        ini_only=True,
    ),
    Option(
        "cassette-format",
        None,
        "form of the cassettes that are recorded: yaml or json",
        partial(parse_choice, allowed=CASSETTE_FORMS),
        default="yaml",
        ini_only=True,
    ),
    Option(
        "benchmark",
        None,
        "entries of pytest-benchmark in every run, not only where one of its options asks for a result",
        kind="flag",
        default=False,
        ini_only=True,
    ),
    Option("prices-date", None, "day of the prices of public models; else today", parse_day, ini_only=True),
    Option("cassette-max-age", None, "oldest cassette that is replayed, such as 720h", parse_duration, ini_only=True),
)

_INI_TYPES: Final[dict[Kind, Literal["string", "linelist", "bool"]]] = {
    "value": "string",
    "list": "linelist",
    "flag": "bool",
    "input": "string",
    "output": "string",
    "folder": "string",
}


def register(parser: pytest.Parser) -> None:
    """Tell pytest every option and ini key. Nothing is converted here, so that xdist can hand the texts to workers."""
    group = parser.getgroup("swarm", "load tests of LLM features")
    for option in OPTIONS:
        text = option.help if option.available else f"{option.help} (not available yet)"
        parser.addini(option.key, text, type=_INI_TYPES[option.kind], default=None)
        if option.ini_only:
            continue
        if option.kind == "flag":
            group.addoption(option.flag, dest=option.key, action="store_true", default=None, help=text)
        else:
            action = "append" if option.kind == "list" else "store"
            group.addoption(
                option.flag, dest=option.key, action=action, default=None, metavar=option.metavar, help=text
            )
