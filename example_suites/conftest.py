"""In a replay, suites of which no recording is kept are skipped: some are too large for a repository."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config, items):
    if not config.getoption("swarm_replay"):
        return
    cassettes = Path(config.getoption("swarm_cassette_dir") or config.rootpath / "cassettes")
    for item in items:
        module = item.nodeid.partition("::")[0].removesuffix(".py")
        if not (cassettes / module).is_dir():
            item.add_marker(pytest.mark.skip(f"no recording of {module} is kept in {cassettes.name}/"))
