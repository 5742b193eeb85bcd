"""Validation against a JSON Schema: one compiled validator, no network, errors that can be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pytest_swarm.errors import SettingError, nearest

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator as CompiledValidator
    from referencing import Resource, Specification
    from referencing._core import Resolver

__all__ = ["Problem", "Validator", "told"]

MAX_PROBLEMS: Final = 5
"""Problems of one value that are told."""

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
VALUE_LENGTH: Final = 80
PROBLEM_LENGTH: Final = 300

_TOO_DEEP: Final = "$: nested too deeply to be checked against the schema"
_PLACE: Final = re.compile(r"\[\d+\]")
"""A position in an array, in a JSON path."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a reply as JSON."""

    kind: str
    """The same for every reply in which the same thing is wrong: ``$.items[*].price: is not of type 'number'``."""
    text: str
    """What it was here: ``$.items[3].price: 'cheap' is not of type 'number'``."""


class Validator:
    """A JSON Schema, checked and compiled once. `schema` is the document itself.

    The draft is the one that `$schema` names, else 2020-12. References inside the document work, those to other
    documents only where `folder` allows to read files: a reference is then a path relative to it, or to the schema's
    `$id`.

    Raises:
        SettingError: the schema cannot be used; the text says where and why.
    """

    def __init__(self, schema: Mapping[str, Any], *, folder: Path | None = None) -> None:
        if not isinstance(schema, dict):
            raise SettingError(f"a JSON schema is a dict, a path or a pydantic model class, not {_cut(repr(schema))}")
        self.schema: dict[str, Any] = deepcopy(schema)
        self._compiled = _compile(self.schema, folder)

    @classmethod
    def from_path(cls, path: str | Path) -> Validator:
        """The schema in a file. It may refer to other files, relative to itself."""
        file = Path(path)
        return cls(_load(file), folder=file.resolve().parent)

    @classmethod
    def from_model(cls, model: type) -> Validator:
        """The schema of a pydantic model class."""
        to_schema = getattr(model, "model_json_schema", None)
        if not isinstance(model, type) or not callable(to_schema):
            raise SettingError(f"{model!r} is no pydantic model class: it has no model_json_schema()")
        try:
            schema = to_schema()
        except Exception as error:
            raise SettingError(f"the model {model.__name__} gives no JSON schema: {_cut(str(error))}") from error
        return cls(schema)

    def check(self, value: Any) -> list[str]:
        """What in `value` does not fit, as ``path: message``, at most a handful; empty when all does."""
        return told(self.problems(value))

    def problems(self, value: Any) -> tuple[Problem, ...]:
        """What in `value` does not fit, at most one more than is told; empty when all does."""
        try:
            return tuple(map(_problem, islice(self._compiled.iter_errors(value), MAX_PROBLEMS + 1)))
        except RecursionError:
            return (Problem(_TOO_DEEP, _TOO_DEEP),)


def told(problems: Sequence[Problem]) -> list[str]:
    """The texts of problems, at most a handful, with a mark for what is left out."""
    texts = [problem.text for problem in problems]
    return [*texts[:MAX_PROBLEMS], "…"] if len(texts) > MAX_PROBLEMS else texts


def _compile(schema: dict[str, Any], folder: Path | None) -> CompiledValidator:
    """A validator whose references are known to lead somewhere; `folder` is where other files may be read from."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it ships no types
    from referencing import Registry
    from referencing.jsonschema import specification_with

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        problem = next(kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER).iter_errors(schema), None)
    except RecursionError:
        raise SettingError("not a usable JSON schema: it is nested too deeply") from None
    if problem is not None:
        raise SettingError(f"not a usable JSON schema: {_wrong_type(problem) or _told(problem)}")
    specification = specification_with(str(kind.META_SCHEMA.get("$schema") or kind.META_SCHEMA.get("id")))
    root = specification.create_resource(schema)

    @cache  # a document that is read twice would be two documents, and every check would read it again
    def retrieve(uri: str) -> Resource[Any]:
        return specification.create_resource(_load(_file_of(uri, root.id() or "", folder)))

    registry: Registry[Any] = Registry(retrieve=retrieve).with_resources(  # type: ignore[call-arg]  # attrs alias
        (uri, REGISTRY[uri]) for uri in REGISTRY
    )
    _follow_references(root, registry.resolver_with_root(root), specification)
    return kind(schema, registry=registry)


def _follow_references(root: Resource[Any], resolver: Resolver[Any], specification: Specification[Any]) -> None:
    """Raise for the first reference, here or in what is referred to, that leads nowhere."""
    from referencing.exceptions import Unresolvable

    seen = {id(root.contents)}
    waiting = [(root, resolver)]
    while waiting:
        for reference, place in _references(*waiting.pop()):
            try:
                found = place.lookup(reference)
            except Unresolvable as error:
                raise SettingError(_unresolved(reference, error)) from error
            if id(found.contents) not in seen:
                seen.add(id(found.contents))
                waiting.append((specification.create_resource(found.contents), found.resolver))


def _references(resource: Resource[Any], resolver: Resolver[Any]) -> Iterator[tuple[str, Resolver[Any]]]:
    """The references of a schema and of the schemas within it; data that only looks like one is none."""
    contents = resource.contents
    for keyword in ("$ref", "$dynamicRef"):
        reference = contents.get(keyword) if isinstance(contents, dict) else None
        if isinstance(reference, str):
            yield reference, resolver
    for inner in resource.subresources():
        yield from _references(inner, resolver.in_subresource(inner))


def _file_of(uri: str, root_id: str, folder: Path | None) -> Path:
    """The file that a reference means: below the folder of the schema, or beside its `$id`."""
    base = root_id.rpartition("/")[0] + "/"
    relative = uri.removeprefix(base) if "/" in root_id else uri
    parts = urlsplit(relative)
    if folder is None or parts.netloc or parts.scheme not in {"", "file"}:
        raise SettingError("only the document itself, and files for a schema from a file, are read: nothing is fetched")
    return folder / unquote(parts.path)


def _unresolved(reference: str, error: BaseException) -> str:
    """Why a reference leads nowhere, in the words of what was tried."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SettingError):
        cause = cause.__cause__
    reason = str(cause) if cause is not None else "there is no such place in the document"
    return f"the schema's reference {_cut(reference)!r} cannot be followed: {reason}"


def _load(file: Path) -> dict[str, Any]:
    try:
        schema = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        beside = [other.name for other in file.parent.glob("*.json")]
        raise SettingError(f"the schema file {str(file)!r} does not exist{nearest(file.name, beside)}") from None
    except OSError as error:
        raise SettingError(f"the schema file {str(file)!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingError(f"the schema file {str(file)!r} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise SettingError(f"the schema file {str(file)!r} holds no JSON object but {_cut(json.dumps(schema))}")
    return schema


def _wrong_type(error: ValidationError) -> str:
    """What is wrong with a `type`, better than in the words of the metaschema; empty when something else is."""
    found = error.instance
    if list(error.absolute_path)[-1:] != ["type"] or not isinstance(found, str):
        return ""
    return f"{error.json_path}: {_cut(found)!r} is no type; allowed are {', '.join(TYPES)}{nearest(found, TYPES)}"


def _told(error: ValidationError) -> str:
    """``path: message`` of the most telling cause, without long values."""
    return _problem(error).text


def _problem(error: ValidationError) -> Problem:
    from jsonschema.exceptions import best_match

    cause = best_match(iter([error]))
    value = repr(cause.instance)
    message = cause.message.replace(value, _cut(value))
    # The messages begin with the value where they tell it.
    kind = f"{_PLACE.sub('[*]', cause.json_path)}: {_cut(cause.message.removeprefix(value).strip(), PROBLEM_LENGTH)}"
    return Problem(kind, f"{cause.json_path}: {_cut(message, PROBLEM_LENGTH)}")


def _cut(text: str, length: int = VALUE_LENGTH) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
