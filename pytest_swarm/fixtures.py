"""The fixtures: `gateway`, `agent` and `swarm`, each also under a name that no other fixture takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_swarm.errors import SwarmError

if TYPE_CHECKING:
    from pytest_swarm.gateway.client import Gateway
    from pytest_swarm.inline import InlineSwarm
    from pytest_swarm.tap.routing import Agent
    from pytest_swarm.trial import Trial

__all__ = ["CurrentAgent", "agent", "bound", "gateway", "swarm", "swarm_agent", "swarm_gateway"]


class CurrentAgent:
    """Stands for the agent of whichever task uses it: fixtures are made once, and shared by all agents of a test."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_agent(), name)

    def __repr__(self) -> str:
        return "<the current agent>"


def _agent() -> Agent:
    from pytest_swarm.tap.routing import current

    found = current.get()
    if found is None:
        raise SwarmError(
            "`agent` was used outside of a swarm's task; it exists in the body of a @pytest.mark.swarm test"
        )
    return found.agent


@pytest.fixture
def agent() -> CurrentAgent:
    """Who runs the task: `index`, `rng`, `run`, `record(name, value)`, `check(name, ok)`."""
    return CurrentAgent()


@pytest.fixture
def swarm_agent() -> CurrentAgent:
    """The same as `agent`, whatever else is called `agent`."""
    return CurrentAgent()


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """The gateway under test: ``await gateway.chat("...")``."""
    return _gateway(request)


@pytest.fixture
def swarm_gateway(request: pytest.FixtureRequest) -> Gateway:
    """The same as `gateway`, whatever else is called `gateway`."""
    return _gateway(request)


def _gateway(request: pytest.FixtureRequest) -> Gateway:
    from pytest_swarm.session import TRIAL

    trial: Trial | None = request.node.stash.get(TRIAL, None)
    if trial is None:
        pytest.fail("the gateway fixture was asked for by name; a test must take it as an argument", pytrace=False)
    return trial.gateway


@pytest.fixture
def swarm(request: pytest.FixtureRequest) -> InlineSwarm:
    """A swarm inside a test: ``result = await swarm.run(body, tasks=100, concurrency=10)``."""
    from pytest_swarm.inline import InlineSwarm
    from pytest_swarm.items import parametrised_model
    from pytest_swarm.session import SESSION

    item = request.node
    session = item.config.stash[SESSION]
    return InlineSwarm(
        session.settings,
        lambda demands: session.open_inline(item, demands),
        item.nodeid.partition("[")[0],
        parametrised_model(item),
    )


def bound(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    agent: Agent,
    adapt: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """Call a test body for one agent, with the agent itself in place of its stand-in."""
    return function(
        **{name: agent if isinstance(value, CurrentAgent) else adapt(value) for name, value in arguments.items()}
    )
