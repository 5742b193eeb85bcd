"""Imports go one way, and what an unmarked run does not need is not imported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_swarm

PACKAGE = Path(pytest_swarm.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

PYTEST_SIDE = (
    "__init__",
    "demands",
    "fixtures",
    "gathering",
    "inline",
    "items",
    "options",
    "planning",
    "pricing",
    "progresswatch",
    "pytest_plugin",
    "rechecktrial",
    "replaying",
    "rowfolder",
    "searchtrial",
    "session",
    "sessionceiling",
    "settings",
    "tables",
    "trial",
    "verdicts",
)
SHARED = (
    "available",
    "clock",
    "columns",
    "credentials",
    "errors",
    "exchange",
    "records",
    "redaction",
    "rowfile",
    "values",
)
LAYERS = (
    (*PYTEST_SIDE, "cli"),
    ("reports",),
    ("swarm", "gateway"),
    ("tap",),
    ("sources", "traffic"),
    ("judging", "reading"),
    SHARED,
)
"""Rooms from the top down: each may import from its own layer and from those below it."""

LAYER_OF = {room: depth for depth, rooms in enumerate(LAYERS) for room in rooms}

PURE = ("judging", "reading")
IMPURE = frozenset(
    (
        "asyncio",
        "http.client",
        "pytest_swarm.clock",
        "selectors",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib.request",
    )
)
"""What a room that does no I/O and knows neither clock nor event loop has no use for."""

KNOWS_PYTEST = (*PYTEST_SIDE, "reports/benchmark")
PYTEST = frozenset({"_pytest", "pytest", "pytest_asyncio", "pytest_benchmark", "xdist"})

LOADED_ON_DEMAND = frozenset(
    (
        "gateway/preflight",
        "inline",
        "rechecktrial",
        "searchtrial",
        "sources/live",
        "sources/simulated/http_front",
        "tap/aiohttp",
        "tap/played_aiohttp",
        "trial",
    )
)
"""Modules that need a third-party package to load: others import them inside functions only."""


@dataclass(frozen=True)
class Import:
    """One imported name. `where` is the importing module as a path below the package, without suffix."""

    where: str
    line: int
    target: str
    on_load: bool
    """False inside a function: imported when that runs."""

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.where}.py:{self.line} imports {self.target}"


def imports_below(node: ast.AST, where: str, on_load: bool = True) -> Iterator[Import]:
    """Every import that can run, those for the type checker left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(where, child.lineno, alias.name, on_load) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{where}.py:{child.lineno}: a relative import"
            names = (
                [child.module] if child.module != "pytest_swarm" else [f"pytest_swarm.{a.name}" for a in child.names]
            )
            yield from (Import(where, child.lineno, name, on_load) for name in names if name)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from (found for other in child.orelse for found in imports_below(other, where, on_load))
        else:
            inside_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_below(child, where, on_load and not inside_function)


def name_below_package(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__")


def room(name: str) -> str:
    return name.partition("/")[0]


IMPORTS = [
    found
    for path in MODULES
    for found in imports_below(ast.parse(path.read_text(encoding="utf-8")), name_below_package(path))
]
INTERNAL = [found for found in IMPORTS if found.top == "pytest_swarm"]
FOREIGN = [found for found in IMPORTS if found.top != "pytest_swarm" and found.top not in sys.stdlib_module_names]


def target_name(found: Import) -> str:
    return found.target.removeprefix("pytest_swarm").removeprefix(".").replace(".", "/") or "__init__"


def violations(found: Iterator[Import]) -> list[str]:
    return [str(one) for one in found]


def test_every_module_stands_in_a_room_of_the_table() -> None:
    assert {room(name_below_package(path)) for path in MODULES} <= set(LAYER_OF)


def test_imports_go_one_way() -> None:
    assert not violations(
        found for found in INTERNAL if LAYER_OF[room(target_name(found))] < LAYER_OF[room(found.where)]
    )


def test_reading_and_judging_are_pure() -> None:
    assert not violations(
        found for found in IMPORTS if room(found.where) in PURE and not IMPURE.isdisjoint((found.top, found.target))
    )


def test_only_the_pytest_side_knows_pytest() -> None:
    assert not violations(found for found in FOREIGN if found.top in PYTEST and found.where not in KNOWS_PYTEST)


def test_only_modules_that_are_loaded_on_demand_need_a_third_party_package_to_load() -> None:
    at_load = [found for found in IMPORTS if found.on_load and found.top not in PYTEST]
    needed_by = {
        found.where: str(found) for found in at_load if found in FOREIGN or target_name(found) in LOADED_ON_DEMAND
    }
    assert needed_by.keys() == LOADED_ON_DEMAND, needed_by


UNMARKED = """
import sys

def test_shows_what_is_loaded():
    print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def packages_loaded_by(tmp_path: Path, *options: str) -> set[str]:
    """Top-level packages in memory while an unmarked test runs; only the named plugins are loaded."""
    (tmp_path / "test_unmarked.py").write_text(UNMARKED)
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin"]
    run = subprocess.run(
        [*command, *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("LOADED "))
    return set(line.split()[1:])


@pytest.fixture(scope="module")
def loaded_by_the_plugin(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    bare = packages_loaded_by(tmp_path_factory.mktemp("bare"))
    ours = packages_loaded_by(tmp_path_factory.mktemp("ours"), "-p", "pytest_swarm.pytest_plugin")
    return ours - bare


def test_an_unmarked_run_loads_no_third_party_package_through_the_plugin(loaded_by_the_plugin: set[str]) -> None:
    assert "pytest_swarm" in loaded_by_the_plugin
    assert loaded_by_the_plugin - sys.stdlib_module_names == {"pytest_swarm"}
