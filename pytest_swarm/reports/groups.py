"""Records that belong together: one test, by the models that it was run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["Group", "compared_groups", "every_group"]

Record = Mapping[str, Any]
Group = tuple[str, dict[str, Record]]
"""A test, and its records by model."""

_FINISHED: Final = frozenset({"pass", "fail", "invalid"})


def compared_groups(records: Sequence[Record]) -> list[Group]:
    """Tests that are parametrised by model and ran to their end. Other parameters split a test into several."""
    tests: dict[str, list[Record]] = {}
    for record in records:
        if record["param_model"] is not None and record["verdict"] in _FINISHED:
            tests.setdefault(record["test"], []).append(record)
    groups: dict[str, dict[str, Record]] = {}
    for test, of_test in tests.items():
        others = [_other_parameters(record) for record in of_test]
        if None in others:
            # The user's own ids do not show the model, so they cannot be told from other parameters.
            once_each = len({r["param_model"] for r in of_test}) == len({r["nodeid"] for r in of_test})
            others = ["" if once_each else record["nodeid"] for record in of_test]
        for record, other in zip(of_test, others, strict=True):
            groups.setdefault(f"{test}{other}", {})[record["param_model"]] = record
    return list(groups.items())


def every_group(records: Sequence[Record]) -> list[Group]:
    """Every test that ran to its end; one that is not parametrised by model is a group of its own."""
    others = (record for record in records if record["param_model"] is None and record["verdict"] in _FINISHED)
    return [*compared_groups(records), *((record["nodeid"], {_models(record): record}) for record in others)]


def _models(record: Record) -> str:
    """The model of a test that is not parametrised by it: those that its calls named, else the one it was given."""
    return " + ".join(record["spent"]["by_model"]) or record["model"] or "(unnamed)"


def _other_parameters(record: Record) -> str | None:
    """What the brackets of the node id hold beside the model; None when the model is not among it."""
    ids = record["nodeid"].removeprefix(record["test"]).removeprefix("[").removesuffix("]")
    # Dashes part the ids of parameters, and a model's name may hold dashes itself.
    before, found, after = f"-{ids}-".partition(f"-{record['param_model']}-")
    if not found:
        return None
    rest = "-".join(part for part in (before.strip("-"), after.strip("-")) if part)
    return f"[{rest}]" if rest else ""
