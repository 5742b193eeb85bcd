"""The cost ceiling of the whole pytest run: in one process, or over all workers of pytest-xdist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pytest_swarm.traffic.budget import BaseBudget, Standing
    from pytest_swarm.traffic.shared_budget import SharedBudget

__all__ = ["SessionCeiling"]

NAME: Final = "--swarm-max-cost"
HANDED: Final = "swarm_budget"
"""Key of a worker's input: the path of the account that all workers share."""


class SessionCeiling:
    """Holds the account. In the controller of xdist it is a plugin that hands the account to every worker."""

    def __init__(self, config: pytest.Config, ceiling: float | None) -> None:
        """`ceiling` is in US dollars; None where there is none."""
        self._ceiling = ceiling
        self._handed: str | None = getattr(config, "workerinput", {}).get(HANDED)
        self._budget: BaseBudget | None = None
        self._created: SharedBudget | None = None

    @property
    def budget(self) -> BaseBudget | None:
        """The account to keep. Raises `SettingError` in a worker that cannot reach the one it was handed."""
        if self._budget is None and self._ceiling is not None:
            if self._handed is None:
                from pytest_swarm.traffic.budget import Budget

                self._budget = Budget(self._ceiling, NAME)
            else:
                from pytest_swarm.traffic.shared_budget import SharedBudget

                self._budget = SharedBudget(Path(self._handed), self._ceiling, NAME)
        return self._budget

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker of xdist is about to be started."""
        if self._ceiling is None:
            return
        if self._created is None:
            from pytest_swarm.traffic.shared_budget import SharedBudget

            self._budget = self._created = SharedBudget.create(self._ceiling, NAME)
        node.workerinput[HANDED] = str(self._created.path)

    def standing(self) -> Standing | None:
        """How the account stands; None where there is no ceiling."""
        budget = self.budget
        return None if budget is None else budget.standing()

    def close(self) -> None:
        """The session is over."""
        if self._created is not None:
            self._created.remove()
