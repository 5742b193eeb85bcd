"""Settings read from real pytest configs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_swarm import available
from pytest_swarm.credentials import Secret
from pytest_swarm.errors import NotAvailable, SettingError
from pytest_swarm.judging.sla import parse
from pytest_swarm.judging.workloads import Workload
from pytest_swarm.options import OPTIONS, Option, register
from pytest_swarm.settings import Settings, read_settings
from pytest_swarm.swarm.plan import Layer, plan_from

Read = Callable[..., Settings]

PROPER = {
    "abort": None,
    "baseline": "there.json",
    "cassette-dir": "cassettes",
    "confidence": "0.95",
    "duration": "30s",
    "html": "out.html",
    "max-cost": "$2",
    "plan": None,
    "project": "1_000_000/month",
    "rate": "40/s",
    "ray-address": "127.0.0.1:6379",
    "record": None,
    "record-mode": "all",
    "replay": None,
    "replay-speed": "real",
    "samples": "out.jsonl",
    "systems": "there.json",
    "workers": "2",
}
"""A right value for every option of the command line that is not available yet."""


@pytest.fixture
def everything_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "OPTIONS", frozenset(option.name for option in OPTIONS))


def test_nothing_given_means_the_defaults(read: Read) -> None:
    assert read() == Settings()


def test_the_command_line_is_typed(read: Read, pytester: pytest.Pytester) -> None:
    settings = read(
        "--swarm-concurrency=50",
        "--swarm-tasks=1_000",
        "--swarm-repeat=3",
        "--swarm-seed=0",
        "--swarm-model=gpt-6-agent",
        "--swarm-base-url=http://127.0.0.1:8000/v1/",
        "--swarm-header=X-Team: search",
        "--swarm-header=X-Run: 7",
        "--swarm-clock=real",
        "--swarm-sla=p99 < 3s",
        "--swarm-sla=success_rate >= 90%",
        "--swarm-json=out/report.json",
        "--swarm-no-progress",
    )
    assert settings == Settings(
        command_line=Layer(concurrency=50, tasks=1000, repeat=3, seed=0, model="gpt-6-agent"),
        base_url="http://127.0.0.1:8000/v1",
        headers=(("X-Team", Secret("search")), ("X-Run", Secret("7"))),
        clock="real",
        sla=("p99 < 3s", "success_rate >= 90%"),
        json=pytester.path / "out" / "report.json",
        no_progress=True,
    )


def test_the_ini_file_is_typed(read: Read) -> None:
    settings = read(
        ini="swarm_concurrency = 50\n"
        "swarm_model = gpt-6-agent\n"
        "swarm_base_url = http://127.0.0.1:8000/v1\n"
        "swarm_header =\n  X-Team: search\n  X-Run: 7\n"
        "swarm_sla =\n  p99 < 3s\n  success_rate >= 90%\n"
        "swarm_no_progress = true"
    )
    assert settings == Settings(
        ini=Layer(concurrency=50, model="gpt-6-agent"),
        base_url="http://127.0.0.1:8000/v1",
        headers=(("X-Team", Secret("search")), ("X-Run", Secret("7"))),
        sla=("p99 < 3s", "success_rate >= 90%"),
        no_progress=True,
    )


def test_everything_that_is_not_available_is_typed_too(
    read: Read, pytester: pytest.Pytester, everything_available: None
) -> None:
    Path("there.json").touch()
    flags = [f"--swarm-{name}" if value is None else f"--swarm-{name}={value}" for name, value in PROPER.items()]
    flags.remove("--swarm-replay")
    settings = read(
        *flags,
        ini="swarm_hosts = API.example.com\nswarm_match_ignore =\n  $.user\nswarm_cassette_max_age = 720h\n"
        "swarm_prices_date = 2026-12-01",
    )
    there = pytester.path / "there.json"
    assert settings == Settings(
        command_line=Layer(rate=40.0, duration=30.0, workers=2, confidence=0.95, abort=True),
        systems=there,
        record=True,
        record_mode="all",
        replay_speed="real",
        cassette_dir=pytester.path / "cassettes",
        max_cost=2.0,
        plan=True,
        baseline=there,
        html=pytester.path / "out.html",
        samples=pytester.path / "out.jsonl",
        project=1_000_000,
        ray_address="127.0.0.1:6379",
        hosts=("api.example.com",),
        match_ignore=("$.user",),
        cassette_max_age=2_592_000.0,
        prices_date=date(2026, 12, 1),
    )


def test_command_line_and_ini_file_are_kept_apart_where_a_marker_stands_between(read: Read) -> None:
    settings = read("--swarm-tasks=5", ini="swarm_tasks = 7\nswarm_seed = 3")
    assert settings.command_line == Layer(tasks=5)
    assert settings.ini == Layer(tasks=7, seed=3)


def test_the_command_line_beats_the_ini_file_elsewhere(read: Read) -> None:
    settings = read("--swarm-clock=real", "--swarm-sla=p50 < 1s", ini="swarm_clock = auto\nswarm_sla = p99 < 3s")
    assert settings.clock == "real"
    assert settings.sla == ("p50 < 1s",)


def test_paths_of_the_ini_file_count_from_it(read: Read, pytester: pytest.Pytester) -> None:
    pytester.mkdir("below")
    Path("below/pytest.ini").write_text("[pytest]\nswarm_json = out.json\n", encoding="utf-8")
    assert read("-c", "below/pytest.ini").json == pytester.path / "below" / "out.json"


def test_without_an_ini_file_overrides_count_from_the_root(read: Read, pytester: pytest.Pytester) -> None:
    assert read("-o", "swarm_json=out.json").json == pytester.path / "out.json"


def test_tables_come_from_pyproject(read: Read) -> None:
    settings = read(
        pyproject='[tool.pytest_swarm.prices."openai/gpt-4o"]\ninput = 2.5\n'
        '[tool.pytest_swarm.workloads]\nchat = ["p99 < 3s"]\n'
        'batch = {sla = ["not measurable: team size"], note = "x"}\n'
    )
    assert settings.prices == {"openai/gpt-4o": {"input": 2.5}}
    assert settings.workloads == (
        Workload("chat", (parse("p99 < 3s"),)),
        Workload("batch", ("team size",), "x"),
    )


def test_a_wrong_workload_is_refused_before_anything_runs(read: Read) -> None:
    with pytest.raises(SettingError) as error:
        read(pyproject='[tool.pytest_swarm.workloads]\nchat = ["trougput > 3/s"]\n')
    assert str(error.value) == (
        "pyproject.toml: [tool.pytest_swarm.workloads] chat: unknown metric 'trougput'; did you mean 'throughput'?"
    )


def test_a_projection_can_stand_in_the_ini_file(read: Read) -> None:
    assert read(ini="swarm_project = 1M/month").project == 1_000_000
    assert read("--swarm-project=5/month", ini="swarm_project = 1M/month").project == 5


@pytest.mark.parametrize(
    ("arguments", "environ", "ini", "url"),
    [
        (["--swarm-base-url=http://a"], {"SWARM_BASE_URL": "http://b"}, "swarm_base_url = http://c", "http://a"),
        ([], {"SWARM_BASE_URL": "http://b/"}, "swarm_base_url = http://c", "http://b"),
        ([], {"SWARM_BASE_URL": ""}, "swarm_base_url = http://c", "http://c"),
        ([], {}, "", None),
    ],
)
def test_the_base_url_comes_from_command_line_then_environment_then_ini_file(
    read: Read, arguments: list[str], environ: dict[str, str], ini: str, url: str | None
) -> None:
    assert read(*arguments, environ=environ, ini=ini).base_url == url


def test_a_wrong_base_url_in_the_environment_is_named(read: Read) -> None:
    with pytest.raises(SettingError, match=r"^environment variable SWARM_BASE_URL: 'gateway' has no scheme"):
        read(environ={"SWARM_BASE_URL": "gateway"})


def test_the_key_is_found_and_never_shown(read: Read) -> None:
    settings = read(
        "--swarm-base-url=https://api.openai.com/v1",
        "--swarm-header=X-Other: hush too",
        environ={"OPENAI_API_KEY": "hush"},
    )
    assert settings.api_key == Secret("hush")
    assert settings.api_key_variable == "OPENAI_API_KEY"
    assert "hush" not in repr(settings)


def test_the_variable_of_the_key_can_stand_in_the_ini_file(read: Read) -> None:
    ini = "swarm_api_key_env = MINE"
    assert read(ini=ini, environ={"MINE": "hush"}).api_key == Secret("hush")
    with pytest.raises(SettingError, match=r"^ini option swarm_api_key_env: the environment variable MINE is not set"):
        read(ini=ini)


def test_a_replay_needs_no_key(read: Read, everything_available: None) -> None:
    settings = read("--swarm-replay", ini="swarm_api_key_env = MINE", environ={"SWARM_API_KEY": "hush"})
    assert settings.api_key is None


def test_recording_and_replaying_exclude_each_other(read: Read) -> None:
    with pytest.raises(SettingError, match=r"^--swarm-record and --swarm-replay exclude each other; drop one$"):
        read("--swarm-record", "--swarm-replay")
    with pytest.raises(SettingError, match=r"^ini options swarm_record and swarm_replay exclude each other; drop one$"):
        read(ini="swarm_record = true\nswarm_replay = true")


def test_a_way_to_record_needs_a_recording(read: Read) -> None:
    with pytest.raises(SettingError, match=r"^--swarm-record-mode all says how to record, .*; add --swarm-record$"):
        read("--swarm-record-mode=all")
    assert read("--swarm-record-mode=all", ini="swarm_record = true").record_mode == "all"
    assert not read(ini="swarm_record_mode = all").record


def test_fields_to_redact_are_named_without_a_path(read: Read) -> None:
    assert read(ini="swarm_redact_fields =\n    ssn\n    customer_id").redact_fields == ("ssn", "customer_id")
    with pytest.raises(SettingError, match=r"^ini option swarm_redact_fields: .* did you mean 'ssn'\?$"):
        read(ini="swarm_redact_fields = $.user.ssn")


def test_a_cassette_is_yaml_or_json(read: Read) -> None:
    assert read(ini="swarm_cassette_format = json").cassette_format == "json"
    with pytest.raises(SettingError, match=r"^ini option swarm_cassette_format: .*choose one of yaml, json"):
        read(ini="swarm_cassette_format = toml")


def test_either_on_the_command_line_turns_off_the_other_in_the_ini_file(read: Read, everything_available: None) -> None:
    settings = read("--swarm-replay", ini="swarm_record = true")
    assert (settings.record, settings.replay) == (False, True)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if not option.available and not option.ini_only], ids=lambda o: o.name
)
def test_a_right_value_of_an_option_that_comes_later_is_refused(read: Read, option: Option) -> None:
    Path("there.json").touch()
    value = PROPER[option.name]
    with pytest.raises(NotAvailable) as error:
        read(option.flag if value is None else f"{option.flag}={value}")
    assert str(error.value) == f"{option.flag} is not available yet in this version"


def test_a_concurrency_may_adapt(read: Read) -> None:
    assert read("--swarm-concurrency=8..256").command_line.concurrency == (8, 256)


def test_an_ini_option_that_comes_later_is_refused(read: Read) -> None:
    with pytest.raises(NotAvailable, match=r"^ini option swarm_workers is not available yet in this version$"):
        read(ini="swarm_workers = 4")


def test_the_default_of_an_option_that_comes_later_can_be_given(read: Read) -> None:
    assert read("--swarm-record-mode=missing", ini="swarm_record = false\nswarm_abort = false") == Settings(
        ini=Layer(abort=False)
    )


def test_a_wrong_value_beats_an_option_that_comes_later(read: Read) -> None:
    with pytest.raises(SettingError, match="'soon' is not a duration"):
        read("--swarm-replay", "--swarm-duration=soon")


def test_a_later_value_in_the_ini_file_is_no_matter_when_it_does_not_hold(read: Read) -> None:
    settings = read("--swarm-concurrency=4", ini="swarm_concurrency = 8..256")
    assert settings.command_line.concurrency == 4


def test_a_directory_where_a_file_belongs_and_the_reverse(read: Read) -> None:
    Path("there.json").touch()
    with pytest.raises(SettingError, match=r"^--swarm-cassette-dir: 'there.json' is a file; name a directory$"):
        read("--swarm-cassette-dir=there.json")


def test_a_path_that_the_system_refuses(read: Read) -> None:
    with pytest.raises(SettingError, match=r"^--swarm-json: 'xxx.*…? cannot be used \(File name too long\)"):
        read(f"--swarm-json={'x' * 5000}")


def test_values_of_the_wrong_type_in_toml_are_one_clear_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict:
        rootpath = pytester.path
        inipath = None

        def getoption(self, name: str) -> None:
            return None

        def getini(self, name: str) -> None:
            raise TypeError(f"config option '{name}' expects a string,\n got int: 50")

    with pytest.raises(SettingError) as error:
        read_settings(Strict(), {})
    assert str(error.value) == (
        "ini option swarm_concurrency: config option 'swarm_concurrency' expects a string, got int: 50; "
        "write a text, in quotes in TOML"
    )


def test_settings_stand_between_which_a_plan_is_made(read: Read) -> None:
    settings = read("--swarm-concurrency=50", ini="swarm_repeat = 3\nswarm_concurrency = 7")
    plan = plan_from((), {"tasks": 20, "concurrency": 5}, settings)
    assert (plan.tasks, plan.concurrency, plan.repeat) == (20, 50, 3)


def test_every_option_is_a_field_of_the_settings_or_of_a_layer() -> None:
    known = {item.name for item in (*fields(Settings), *fields(Layer))}
    renamed = {"header": "headers", "api_key_env": "api_key_variable"}
    keys = {option.key.removeprefix("swarm_") for option in OPTIONS}
    assert {renamed.get(key, key) for key in keys} <= known


def test_every_available_name_is_an_option() -> None:
    assert {option.name for option in OPTIONS} >= available.OPTIONS


def test_defaults_of_table_and_settings_agree() -> None:
    settings = Settings()
    for option in OPTIONS:
        field = option.key.removeprefix("swarm_")
        if hasattr(settings, field):
            assert getattr(settings, field) == option.default, option.name


def test_help_tells_what_is_not_available_yet(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugin = SimpleNamespace(pytest_addoption=register)
    text = " ".join(pytester.runpytest_inprocess("--help", plugins=[plugin]).stdout.str().split())
    assert "--swarm-tasks=N tasks of each swarm" in text
    assert "--swarm-workers=N processes that share the tasks of a swarm (not available yet)" in text
    assert "swarm_hosts (linelist):" in text
