"""Mistakes that newcomers make: each is answered in one line, before any task ran."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.support.small_gateway import SmallGateway

BODY = "async def test_it(gateway):\n    print('a task', 'ran')\n"
MARKED = "@pytest.mark.swarm(2)\n"

OPTIONS = {
    "concurrency": (["--swarm-concurrency=0"], "--swarm-concurrency: '0' is not*"),
    "concurrency text": (["--swarm-concurrency=many"], "--swarm-concurrency: 'many' is not*"),
    "later option": (["--swarm-workers=2"], "--swarm-workers is not available yet in this version"),
    "later path": (["--swarm-html=out.html"], "--swarm-html is not available yet in this version"),
    "record mode without recording": (["--swarm-record-mode=all"], "--swarm-record-mode all *add --swarm-record"),
    "record and replay": (
        ["--swarm-record", "--swarm-replay"],
        "--swarm-record and --swarm-replay exclude each other*",
    ),
    "URL": (["--swarm-base-url=localhost:8080"], "--swarm-base-url: *http*"),
    "URL with a password": (
        ["--swarm-base-url=http://me:secret@localhost/v1"],
        "--swarm-base-url: *user name or password*",
    ),
    "key variable": (["--swarm-api-key-env=NOT_SET_ANYWHERE"], "--swarm-api-key-env: *NOT_SET_ANYWHERE*"),
    "key instead of its variable": (["--swarm-api-key-env=sk-abcdefghijkl0123456789"], "--swarm-api-key-env: *NAME*"),
    "header": (["--swarm-header=just-a-value"], "--swarm-header: *"),
    "clock": (["--swarm-clock=vrtual"], "--swarm-clock: 'vrtual' *did you mean 'virtual'?"),
}

MARKERS = {
    "argument": (
        "@pytest.mark.swarm(2, concurency=2)\n",
        "swarm(concurency=...): no such argument*did you mean 'concurrency'?",
    ),
    "tasks": ("@pytest.mark.swarm(tasks=0)\n", "swarm(tasks=...): 0 is not*"),
    "duration": ('@pytest.mark.swarm(2, task_timeout="3 sec")\n', "swarm(task_timeout=...): '3 sec' is not*"),
    "timeout name": (
        '@pytest.mark.swarm(2, timeout={"first": 3})\n',
        "swarm(timeout=...): 'first' is no timeout; allowed are*",
    ),
    "later argument": ("@pytest.mark.swarm(2, workers=2)\n", "swarm(workers=...) is not available yet in this version"),
    "unknown metric": (MARKED + '@pytest.mark.sla("latncy.p99 < 3s")\n', "sla(...): *latncy*did you mean 'latency'?"),
    "no statistic": (MARKED + '@pytest.mark.sla("latency < 3s")\n', "sla(...): *latency*latency.p99*"),
    "unit": (MARKED + '@pytest.mark.sla("p99 < 3 tokens")\n', "sla(...): *tokens*"),
    "rate above one": (MARKED + '@pytest.mark.sla("success_rate >= 95")\n', "sla(...): *95%*"),
    "two comparisons": (MARKED + '@pytest.mark.sla("1s < p99 < 3s")\n', "sla(...): *one comparison*"),
    "no string": (MARKED + "@pytest.mark.sla(3)\n", "sla(...): 3 is no expression*"),
    "sla alone": ('@pytest.mark.sla("p99 < 3s")\n', "*this test has no @pytest.mark.swarm*"),
    "schema": (MARKED + '@pytest.mark.json_output({"type": "objekt"})\n', "json_output(schema=...): *objekt*"),
    "schema kind": (MARKED + "@pytest.mark.json_output(7)\n", "json_output(schema=...): 7 is no schema*"),
    "json mode": (MARKED + '@pytest.mark.json_output({}, "lenint")\n', "*'lenint' is no mode*did you mean 'lenient'?"),
}


@pytest.mark.parametrize("mistake", OPTIONS)
def test_a_wrong_option_is_a_usage_error(suite: Any, mistake: str) -> None:
    options, answer = OPTIONS[mistake]
    result = suite(MARKED + BODY, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line.strip()]
    assert len(lines) == 1, lines
    result.stderr.fnmatch_lines([f"ERROR: swarm: {answer}"])
    assert "secret" not in lines[0]
    assert "abcdefghijkl" not in lines[0]


def test_wrong_markers_are_collection_errors_that_name_the_test(suite: Any, pytester: pytest.Pytester) -> None:
    files = {f"test_m{number}": markers for number, (markers, _) in enumerate(MARKERS.values())}
    pytester.makepyfile(**{name: f"import pytest\n{markers}{BODY}" for name, markers in files.items()})
    for options in ([], ["--collect-only"]):
        result = suite("", *options)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.assert_outcomes(errors=len(MARKERS))
        assert "a task ran" not in result.stdout.str()
        for number, (_, answer) in enumerate(MARKERS.values()):
            result.stdout.fnmatch_lines([f"test_m{number}.py::test_it: {answer}"])


def test_a_wrong_marker_from_a_conftest_is_found_too(suite: Any, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        "    for item in items: item.add_marker(pytest.mark.swarm(concurency=2))\n"
    )
    result = suite(BODY)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: swarm: test_it.py::test_it: swarm(concurency=...): no such argument*"])


def failed_in_one_line(result: pytest.RunResult, answer: str) -> None:
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"swarm: {answer}"])
    assert "a task ran" not in result.stdout.str()


def test_an_unreachable_server_is_named(suite: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        result = suite(MARKED + BODY, gateway=url)
    failed_in_one_line(result, f"no gateway answers at {url} (*refused*); check --swarm-base-url")


def test_a_missing_key_and_a_wrong_key_are_told_apart(suite: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with SmallGateway(key="right-key-0123456789") as server:
        failed_in_one_line(
            suite(MARKED + BODY, gateway=server.base_url), "*HTTP 401*: no key was sent; set SWARM_API_KEY*"
        )
        monkeypatch.setenv("SWARM_API_KEY", "wrong-key-9876543210")
        result = suite(MARKED + BODY, gateway=server.base_url)
        failed_in_one_line(result, "*HTTP 401*: check the key in SWARM_API_KEY")
        assert "wrong-key" not in result.stdout.str()
        monkeypatch.setenv("SWARM_API_KEY", "right-key-0123456789")
        suite(MARKED + BODY, gateway=server.base_url).assert_outcomes(passed=1)


def test_an_unknown_model_is_told_with_those_that_exist(suite: Any) -> None:
    failed_in_one_line(
        suite(MARKED + BODY, model="echoo"), "*has no model 'echoo'; it lists echo, slow*did you mean 'echo'?"
    )


def test_no_model_at_all_is_told(suite: Any, small_gateway: SmallGateway) -> None:
    code = MARKED + 'async def test_it(gateway): await gateway.chat("hi")\n'
    result = suite(code, f"--swarm-base-url={small_gateway.base_url}", gateway=None)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no model is named: give gateway.chat*--swarm-model*"])
    assert not [body for body in small_gateway.requests if body["model"] is None]


def test_a_key_that_is_refused_in_the_run_stops_it(suite: Any, report: Any) -> None:
    code = '@pytest.mark.swarm(50, 2)\nasync def test_it(gateway): await gateway.chat("hi", model="status-401")\n'
    result = suite(code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the gateway refused the key again (HTTP 401)*"])
    assert len(report()["tests"][0]["calls"]) <= 6


def test_the_foreign_distribution_of_the_same_package_is_refused(
    suite: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = pytester.path / "foreign" / "pytest_swarm-0.1.7.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-swarm\nVersion: 0.1.7\n")
    monkeypatch.setenv("PYTHONPATH", str(metadata.parent), prepend=":")
    result = suite(MARKED + BODY)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *'pytest-swarm' is installed beside*pip uninstall -y pytest-swarm pytest-llm-swarm*"]
    )


def test_a_broken_table_in_pyproject_is_told(suite: Any, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\n[tool.pytest_swarm.prises."m"]\ninput = 1\n')
    result = suite(MARKED + BODY)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: swarm: *prises*did you mean 'prices'?"])
