"""What one pytest session holds: its settings, the trials that go on, the records of those that are over."""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_swarm.errors import CassetteError, SettingError, SwarmError
from pytest_swarm.fixtures import bound
from pytest_swarm.items import has_event_loop, own_fixture, shared_fixtures
from pytest_swarm.progresswatch import ProgressWatch
from pytest_swarm.rowfolder import RowFolder
from pytest_swarm.sessionceiling import SessionCeiling
from pytest_swarm.tap.routing import outside
from pytest_swarm.verdicts import conclude

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_swarm.demands import Demands, Surroundings
    from pytest_swarm.reports.baseline_file import FormerReport
    from pytest_swarm.reports.progress import ProgressLine
    from pytest_swarm.settings import Settings
    from pytest_swarm.sources.cassette.recordings import Recordings
    from pytest_swarm.sources.simulated.systems import System
    from pytest_swarm.trial import Trial

__all__ = ["CHECKED", "DEMANDS", "SESSION", "TRIAL", "SwarmSession"]


class SwarmSession:
    """Lives in the config's stash from `pytest_configure` on. Raises `SettingError` for a baseline that is none."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.rows = RowFolder(config)
        self.progress = _progress_line(config, settings)
        self.ceiling = SessionCeiling(config, settings.max_cost)
        self._former = _former_report(settings)
        self._live: dict[str, Trial] = {}
        self._tapped = False

    @functools.cached_property
    def around(self) -> Surroundings:
        """What all trials share."""
        from pytest_swarm.demands import Surroundings
        from pytest_swarm.judging.genai import GenaiRates
        from pytest_swarm.judging.prices import PriceTable
        from pytest_swarm.swarm.outcomes import TestOutcomes

        outcomes = TestOutcomes(pytest.skip.Exception, (KeyboardInterrupt, pytest.exit.Exception))
        settings = self.settings
        # A live call costs what it costs on the day on which it is made; one day for the whole session.
        day = settings.prices_date or datetime.now(UTC).date()
        public = GenaiRates(day, settings.base_url)
        prices = PriceTable(settings.prices, public)
        return Surroundings(settings, prices, self.systems, outcomes, public, self.ceiling.budget, self._former)

    @functools.cached_property
    def cassette_dir(self) -> Path:
        """Where cassettes are."""
        return self.settings.cassette_dir or self.config.rootpath / "cassettes"

    @functools.cached_property
    def recordings(self) -> Recordings | None:
        """What is recorded; None where nothing is."""
        from pytest_swarm.sources.cassette.recordings import Recordings
        from pytest_swarm.sources.cassette.scan import live_secrets

        settings = self.settings
        if not settings.record:
            return None
        given = [(f"--swarm-header {name}", value.reveal()) for name, value in settings.headers]
        if settings.api_key is not None:
            given.append((f"the key from {settings.api_key_variable}", settings.api_key.reveal()))
        worker: dict[str, str] = getattr(self.config, "workerinput", {})
        return Recordings(
            self.cassette_dir,
            settings.record_mode,
            settings.cassette_format,
            settings.redact_fields,
            lambda: live_secrets(os.environ, given),
            worker.get("workerid", ""),
            worker.get("testrunuid", ""),
        )

    @functools.cached_property
    def systems(self) -> Mapping[str, System]:
        """The simulated gateway's systems, by name."""
        from pytest_swarm.sources.simulated.systems import builtin_systems, load_systems

        return builtin_systems() if self.settings.systems is None else load_systems(self.settings.systems)

    def check_model(self, demands: Demands) -> None:
        """Raise `SettingError` for a model that the simulated gateway does not have."""
        from pytest_swarm.sources.simulated.systems import find_system

        if self.settings.base_url is None and not self.settings.replay:
            find_system(demands.model, self.systems)

    def open_trial(self, item: pytest.Function, demands: Demands) -> Trial:
        """Get a test ready to be measured."""
        if inspect.iscoroutinefunction(item.obj) and not has_event_loop(item):
            pytest.fail(
                "swarm: an async test needs pytest-asyncio, which is not loaded or has not claimed this test; "
                "drop -p no:asyncio, or mark the test with @pytest.mark.asyncio",
                pytrace=False,
            )
        names = shared_fixtures(item)
        if names and item.get_closest_marker("swarm") is not None:
            item.warn(pytest.PytestWarning(f"agents of a swarm share {', '.join(names)}: it holds what all of them do"))
        try:
            trial = item.stash[TRIAL] = self._trial(item, demands)
        except (SettingError, CassetteError) as error:
            problem = str(error)
        else:
            outside.append(trial.outside)
            return trial
        pytest.fail(f"swarm: {problem}", pytrace=False)

    def open_inline(self, item: pytest.Function, demands: Demands) -> Trial:
        """Get a swarm inside a test ready."""
        number = len(item.stash.setdefault(INLINE, [])) + 1
        trial = self._trial(item, demands, number)
        item.stash[INLINE].append(trial)
        self._live[f"{item.nodeid} {number}"] = trial
        return trial

    def _trial(self, item: pytest.Function, demands: Demands, number: int = 0) -> Trial:
        """A trial; the tap is set with the first."""
        from pytest_swarm.searchtrial import SearchTrial
        from pytest_swarm.tap import aiohttp, httpx
        from pytest_swarm.trial import Trial

        aiohttp.install()
        httpx.install()
        self._tapped = True
        watcher = None if self.progress is None else ProgressWatch(self.progress, item.name)
        # A swarm inside a test has a coroutine function for its body, whatever pytest-asyncio made of the test.
        is_async = number > 0 or inspect.iscoroutinefunction(item.obj)
        if demands.search is not None:
            if self.settings.replay:
                raise SettingError(
                    "--swarm-replay cannot replay a capacity search, whose loads were not recorded; drop one"
                )
            if self.recordings is not None:
                raise SettingError("--swarm-record cannot record a capacity search, which makes many runs; drop one")
            return SearchTrial(
                item.nodeid,
                demands,
                self.around,
                lambda: self.rows.open(item.nodeid),
                is_async=is_async,
                number=number,
                watcher=watcher,
            )
        if self.recordings is not None and self.recordings.mode == "check":
            from pytest_swarm.rechecktrial import RecheckTrial

            cassette = self.recordings.existing(item.nodeid, number)
            rows = self.rows.open(item.nodeid)
            return RecheckTrial(item.nodeid, demands, self.around, rows, cassette, number=number, watcher=watcher)
        recordings = self.recordings
        if self.settings.replay or (recordings is not None and not recordings.wants(item.nodeid, number)):
            return self._replayed(item, demands, number, is_async=is_async, watcher=watcher)
        return Trial(
            item.nodeid,
            demands,
            self.around,
            self.rows.open(item.nodeid),
            is_async=is_async,
            number=number,
            watcher=watcher,
            recorder=None if recordings is None else recordings.open(item.nodeid, number),
        )

    def _replayed(
        self, item: pytest.Function, demands: Demands, number: int, *, is_async: bool, watcher: ProgressWatch | None
    ) -> Trial:
        """A trial whose replies come from a cassette."""
        from pytest_swarm.replaying import open_replay
        from pytest_swarm.trial import Trial

        inside = number == 0 and own_fixture(item, ("swarm",))
        replaying = open_replay(
            self.cassette_dir, item.nodeid, number, self.settings, is_async=is_async, optional=inside
        )
        rows = self.rows.open(item.nodeid)
        return Trial(
            item.nodeid,
            demands,
            self.around,
            rows,
            is_async=is_async,
            number=number,
            watcher=watcher,
            replaying=replaying,
        )

    def records_of(self, item: pytest.Item) -> list[dict[str, Any]]:
        """The records of all swarms of a test that were judged."""
        trials = [item.stash.get(TRIAL, None), *item.stash.get(INLINE, [])]
        return [trial.record for trial in trials if trial is not None and trial.record is not None]

    @contextmanager
    def swarming(self, item: pytest.Function, trial: Trial) -> Iterator[None]:
        """For the length of the block, the test function is one that runs the swarm and judges it."""
        from pytest_swarm.gateway.sdk import load_early

        original = item.obj
        self._live[item.nodeid] = trial
        is_async = inspect.iscoroutinefunction(original)
        load_early(original)
        item.obj = self._async_test(item, trial, original) if is_async else self._sync_test(item, trial, original)
        try:
            yield
        finally:
            item.obj = original

    def _async_test(self, item: pytest.Function, trial: Trial, original: Any) -> Any:
        @functools.wraps(original)
        async def swarm(**arguments: Any) -> None:
            __tracebackhide__ = True
            with self._followed():
                await trial.run(lambda agent: bound(original, arguments, agent))
            conclude(item, trial)

        return swarm

    def _sync_test(self, item: pytest.Function, trial: Trial, original: Any) -> Any:
        @functools.wraps(original)
        def swarm(**arguments: Any) -> None:
            __tracebackhide__ = True
            with self._followed():
                trial.run_in_threads(lambda agent, blocking: bound(original, arguments, agent, blocking))
            conclude(item, trial)

        return swarm

    @contextmanager
    def _followed(self) -> Iterator[None]:
        """Show how the swarm gets on, and turn our own errors into a failure of one line."""
        __tracebackhide__ = True
        problem = None
        try:
            yield
        except SwarmError as error:
            problem = str(error)
        finally:
            if self.progress is not None:
                self.progress.erase()
        if problem is not None:
            pytest.fail(f"swarm: {problem}", pytrace=False)

    def close_trials(self, item: pytest.Item) -> None:
        """A test is over, whatever came of it."""
        trials = [trial for trial in (item.stash.get(TRIAL, None), *item.stash.get(INLINE, [])) if trial is not None]
        problems = []
        for trial in trials:
            problems += trial.finish_recording()
            trial.rows.close()
            if trial.outside in outside:
                outside.remove(trial.outside)
        self._live = {name: trial for name, trial in self._live.items() if trial not in trials}
        if problems:
            pytest.fail(f"swarm: {'; '.join(problems)}", pytrace=False)

    def unfinished(self) -> list[Trial]:
        """The trials that were going on when the session was stopped."""
        return list(self._live.values())

    def close(self) -> None:
        """The session is over: give the HTTP clients back."""
        self.ceiling.close()
        if self._tapped:
            from pytest_swarm.tap import aiohttp, httpx

            httpx.uninstall()
            aiohttp.uninstall()


def _former_report(settings: Settings) -> FormerReport | None:
    """What is compared with."""
    if settings.baseline is None:
        return None
    from pytest_swarm.reports.baseline_file import read_baseline

    return read_baseline(settings.baseline)


def _progress_line(config: pytest.Config, settings: Settings) -> ProgressLine | None:
    """A line on a duplicate of the terminal's stderr: pytest captures the usual one."""
    if settings.no_progress or hasattr(config, "workerinput"):
        return None
    capture = config.pluginmanager.getplugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        try:
            if not os.isatty(2):
                return None
            stream = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
        except OSError:
            return None
    from pytest_swarm.reports.progress import ProgressLine

    return ProgressLine(stream, time.monotonic)


SESSION: pytest.StashKey[SwarmSession] = pytest.StashKey()
CHECKED: pytest.StashKey[list[pytest.Mark]] = pytest.StashKey()
"""The markers with which an item was checked: a conftest may add some later."""
DEMANDS: pytest.StashKey[Demands] = pytest.StashKey()
TRIAL: pytest.StashKey[Trial] = pytest.StashKey()
INLINE: pytest.StashKey[list[Trial]] = pytest.StashKey()
