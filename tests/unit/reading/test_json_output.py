"""A reply's text as JSON, and against a schema."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_swarm.errors import SettingError
from pytest_swarm.reading.json_output import MAX_DEPTH, JSONResult, Validator, check_json, parse_json
from pytest_swarm.reading.schema import Problem

CASES = json.loads((Path(__file__).parents[2] / "cases" / "json_outputs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_recorded_output_is_judged_as_expected(case: dict[str, Any], mode: str) -> None:
    validator = None if case["schema"] is None else Validator(case["schema"])
    found = check_json(case["content"], case["finish_reason"], mode, validator)
    status, detail = found.status, found.detail
    assert status == case[mode]
    assert bool(detail) == (status != "valid")


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":[', '["[[",'])
def test_deep_nesting_is_invalid_and_never_an_error(opened: str, mode: str) -> None:
    for closed in ("", "]" * 5000):
        result = parse_json(opened * 5000 + closed, "stop", mode)
        assert (result.status, result.detail) == ("invalid", f"nested deeper than {MAX_DEPTH} levels")


def test_the_depth_is_that_of_the_value_and_not_of_its_texts() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH).status == "valid"
    assert parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).status == "invalid"
    wide = json.dumps([{"a": '[{\\"[' * 50, "b": []}] * 300)
    assert parse_json(wide).value == json.loads(wide)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("NaN", "NaN is no JSON number"),
        ('{"a": [Infinity]}', "Infinity is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("1e400", "the number 1e400 is beyond any float"),
        ("[-1e999]", "the number -1e999 is beyond any float"),
        ("1" * 100 + "e999", "the number " + "1" * 79 + "… is beyond any float"),
        ('[{"b": 1, "a": 1, "a": 2}]', "the key 'a' stands twice in one object"),
        ("{", "Expecting property name enclosed in double quotes at line 1 column 2"),
        ('{"a":\n1,}', "Expecting property name enclosed in double quotes at line 2 column 3"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes at line 1 column 2"),
        ("\ufeff1", "Expecting value at line 1 column 1"),
        ("1 2", "Extra data at line 1 column 3"),
        ("9" * 5000, "Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits"),
    ],
)
def test_what_is_no_json_is_invalid_with_its_reason(text: str, detail: str) -> None:
    result = parse_json(text)
    assert (result.status, result.value, result.detail) == ("invalid", None, detail)


@pytest.mark.parametrize("reason", ["length", "max_tokens", "max_output_tokens", "incomplete"])
def test_a_reply_that_was_cut_is_truncated_whatever_it_looks_like(reason: str) -> None:
    for text in ('{"a": 1}', "", '{"a'):
        assert parse_json(text, reason).status == "truncated"


@pytest.mark.parametrize("text", ["", " \n\t", "\u2003"])
def test_a_blank_reply_is_empty(text: str) -> None:
    assert parse_json(text).status == "empty"
    assert parse_json(text, mode="lenient").status == "empty"


@pytest.mark.parametrize(
    ("text", "lenient"),
    [
        ('```json\n{"a": 1}\n```', "valid"),
        ('```\n{"a": 1}\n```', "valid"),
        ('\n```JSON  \r\n{"a": 1}\r\n```\n', "valid"),
        ('```json\n{"a": "```"}\n```', "valid"),
        ('<think>\nhm {"x"\n</think>\n\n{"a": 1}', "valid"),
        ('<think></think>{"a": 1}', "valid"),
        ('Here it is:\n```json\n{"a": 1}\n```', "invalid"),
        ('```json\n{"a": 1}\n```\nHope this helps!', "invalid"),
        ('```json\n{"a": 1,}\n```', "invalid"),
        ('{"a": 1}<think>x</think>', "invalid"),
        ('x<think>y</think>{"a": 1}', "invalid"),
        ('<think>y{"a": 1}', "invalid"),
        ("<think>only thoughts</think>", "invalid"),
        ('```json\n{"a": NaN}\n```', "invalid"),
        ('"x"}', "invalid"),
    ],
)
def test_lenient_takes_off_a_whole_fence_or_thoughts_in_front_and_nothing_else(text: str, lenient: str) -> None:
    assert parse_json(text).status == "invalid"
    result = parse_json(text, mode="lenient")
    assert result.status == lenient
    assert result.detail == ("" if lenient == "valid" else parse_json(text).detail)


def test_an_unknown_mode_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        SettingError, match=r"'strikt' is unknown; allowed are strict and lenient; did you mean 'strict'"
    ):
        parse_json("1", mode="strikt")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.sampled_from(["strict", "lenient"]), st.booleans())
def test_every_json_value_is_read_back(value: object, mode: str, ascii_only: bool) -> None:
    result = parse_json(json.dumps(value, ensure_ascii=ascii_only), "stop", mode)
    assert (result.status, result.value) == ("valid", value)


@given(st.text('[]{}",:\\ 1e9-nNaIfulrst`\n<think/>', max_size=60), st.sampled_from(["strict", "lenient"]))
def test_any_text_has_a_status_and_only_a_valid_one_a_value(text: str, mode: str) -> None:
    result = parse_json(text, None, mode)
    assert result.status in {"valid", "invalid", "empty"}
    assert result.status == "valid" or (result.value is None and result.detail)


# --- against a schema -------------------------------------------------------------------------------------------------

ANSWER = {
    "type": "object",
    "required": ["answer", "confidence"],
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number", "minimum": 0, "maximum": 1}},
}


def test_what_does_not_fit_is_told_with_its_path() -> None:
    problems = Validator(ANSWER).check({"confidence": 2})
    assert sorted(problems) == [
        "$.confidence: 2 is greater than the maximum of 1",
        "$: 'answer' is a required property",
    ]
    assert Validator(ANSWER).check({"answer": "a", "confidence": 0.5}) == []


def test_the_status_tells_no_json_from_json_that_does_not_fit() -> None:
    validator = Validator(ANSWER)
    assert check_json('{"answer": "a", "confidence": 1}', "stop", "strict", validator).status == "valid"
    told = "$: [1] is not of type 'object'"
    assert check_json("[1]", "stop", "strict", validator) == JSONResult(
        "schema_invalid", [1], told, (Problem("$: is not of type 'object'", told),)
    )
    assert check_json("[1", "stop", "strict", validator).status == "invalid"
    assert check_json("[1]", "stop", "strict", None) == JSONResult("valid", [1])


def test_the_same_thing_wrong_at_other_places_and_with_other_values_is_of_one_kind() -> None:
    validator = Validator(
        {"items": {"properties": {"a b": {"type": "number"}, "c": {"maximum": 1}}, "required": ["c"]}}
    )

    def kinds(text: str) -> list[str]:
        return [problem.kind for problem in check_json(text, "stop", "strict", validator).problems]

    assert kinds('[{"c": 1}, {"a b": "x", "c": 5}]') == kinds('[{"a b": [1], "c": 15}]')
    assert kinds('[{"a b": "x", "c": 5}]') == [
        "$[*]['a b']: is not of type 'number'",
        "$[*].c: is greater than the maximum of 1",
    ]
    assert kinds("[{}]") == ["$[*]: 'c' is a required property"]


@pytest.mark.parametrize(
    ("text", "finish_reason", "kind", "example"),
    [
        ("Sure!", "stop", "not JSON: Expecting value", "Expecting value at line 1 column 1: Sure!"),
        ("", "stop", "not JSON: the reply has no text", "the reply has no text"),
        (
            "[",
            "length",
            "not JSON: the reply was cut: finish reason length",
            "the reply was cut: finish reason length",
        ),
    ],
)
def test_a_text_that_is_no_json_is_a_problem_too(text: str, finish_reason: str, kind: str, example: str) -> None:
    assert check_json(text, finish_reason, "strict", None).problems == (Problem(kind, example),)


def test_an_example_shows_the_text_cut_and_without_secrets() -> None:
    (problem,) = check_json("the key is sk-" + "a1B2" * 12 + " and " + "x" * 9000, "stop", "strict", None).problems
    assert "a1B2a1B2" not in problem.text
    assert len(problem.text) < 300


def test_long_values_are_cut_and_many_problems_are_counted_off() -> None:
    (problem,) = Validator({"type": "object"}).check("x" * 1000)
    assert problem == "$: '" + "x" * 78 + "… is not of type 'object'"
    problems = Validator({"items": {"type": "string"}}).check(list(range(100)))
    assert problems == [*(f"$[{n}]: {n} is not of type 'string'" for n in range(5)), "…"]
    (problem,) = Validator({"enum": ["y" * 50 + str(n) for n in range(50)]}).check(1)
    assert len(problem) < 310


def test_of_alternatives_the_nearest_one_is_told() -> None:
    validator = Validator({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]})
    assert validator.check({"a": "x"}) == ["$.a: 'x' is not of type 'integer'"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            {"type": "strng"},
            r"not a usable JSON schema: \$\.type: 'strng' is no type; .*, string; did you mean 'string'\?",
        ),
        ({"properties": 5}, r"not a usable JSON schema: \$\.properties: 5 is not of type 'object'"),
        ({"pattern": "("}, r"not a usable JSON schema: \$\.pattern: '\(' is not a 'regex'"),
        ({"$ref": "#/$defs/nope"}, "reference '#/\\$defs/nope' cannot be followed: there is no such place"),
        ({"items": {"$ref": "#nope"}}, "reference '#nope' cannot be followed: there is no such place"),
        ({"$ref": "https://example.com/a.json"}, "nothing is fetched"),
        (
            {"items": [{"$ref": "other.json"}], "$schema": "http://json-schema.org/draft-07/schema#"},
            "nothing is fetched",
        ),
        ({"$id": "https://example.com/a.json", "items": {"$ref": "b.json"}}, "nothing is fetched"),
        ({"$ref": "file:///etc/hostname"}, "nothing is fetched"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Validator(schema)


@pytest.mark.parametrize("schema", [None, "x", True, ["a"], 5])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(SettingError, match=f"not {re.escape(repr(schema))}"):
        Validator(schema)


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *args, **kwargs: pytest.fail("the network was used"))
    with pytest.raises(SettingError, match="nothing is fetched"):
        Validator({"$ref": "http://127.0.0.1:9/schema.json"})


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$ref": "#/$defs/node",
            "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}},
        },
        {"$ref": "#node", "$defs": {"x": {"$anchor": "node", "type": "object"}}},
        {"$ref": "inner.json", "$defs": {"x": {"$id": "inner.json", "type": "object"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/x",
            "definitions": {"x": {"type": "object"}},
        },
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
        {"$dynamicRef": "#node", "$defs": {"x": {"$dynamicAnchor": "node", "type": "object"}}},
    ],
)
def test_references_inside_the_document_work(schema: dict[str, Any]) -> None:
    validator = Validator(schema)
    assert validator.check({"next": {}}) == []
    (problem,) = validator.check(5)
    assert problem == "$: 5 is not of type 'object'"


def test_the_metaschema_may_be_referred_to() -> None:
    validator = Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert validator.check({"type": "object"}) == []
    assert validator.check({"type": 5})


def test_data_that_looks_like_a_reference_is_none() -> None:
    Validator(
        {"properties": {"$ref": {"type": "string"}}, "enum": [{"$ref": "nowhere.json"}], "default": {"$ref": "#x"}}
    )


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    tuples = {"items": [{"type": "string"}], "additionalItems": False}
    old = Validator({"$schema": "http://json-schema.org/draft-07/schema#", **tuples})
    assert old.check(["a", 1])
    assert Validator({"prefixItems": [{"type": "string"}], "items": False}).check(["a", 1])
    with pytest.raises(SettingError, match=r"\$\.items"):
        Validator(tuples)


def test_a_schema_that_is_changed_later_changes_nothing() -> None:
    schema = {"type": "object"}
    validator = Validator(schema)
    schema["type"] = "string"
    assert validator.check({}) == []
    assert validator.schema == {"type": "object"}


def test_a_schema_that_exhausts_the_stack_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"items": schema}
    with pytest.raises(SettingError, match="nested too deeply"):
        Validator(schema)


def test_a_value_that_exhausts_the_stack_is_a_problem_and_no_error() -> None:
    validator = Validator({"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}})
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    assert validator.check(value) == ["$: nested too deeply to be checked against the schema"]


def write(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


@pytest.mark.parametrize("root_id", [{}, {"$id": "https://example.com/schemas/root.json"}, {"$id": "root.json"}])
def test_a_schema_in_a_file_may_refer_to_files(tmp_path: Path, root_id: dict[str, str]) -> None:
    root = write(tmp_path, "root.json", {**root_id, "properties": {"a": {"$ref": "parts/a%20b.json#/$defs/a"}}})
    write(tmp_path, "parts/a b.json", {"$defs": {"a": {"items": {"$ref": "c.json"}, "type": "array"}}})
    write(tmp_path, "parts/c.json", {"type": "integer"})
    for path in (root, str(root)):
        validator = Validator.from_path(path)
        assert validator.check({"a": [1, 2]}) == []
        assert validator.check({"a": [1, "x"]}) == ["$.a[1]: 'x' is not of type 'integer'"]


def test_files_are_read_once_and_may_refer_to_each_other(tmp_path: Path) -> None:
    root = write(tmp_path, "root.json", {"properties": {"next": {"$ref": "other.json"}}})
    other = write(tmp_path, "other.json", {"type": "object", "properties": {"back": {"$ref": "root.json"}}})
    validator = Validator.from_path(root)
    root.unlink()
    other.unlink()
    assert validator.check({"next": {"back": {"next": {}}}}) == []
    assert validator.check({"next": {"back": {"next": 5}}}) == ["$.next.back.next: 5 is not of type 'object'"]


def test_a_broken_reference_in_a_file_that_is_referred_to_is_found_at_once(tmp_path: Path) -> None:
    root = write(tmp_path, "root.json", {"items": {"$ref": "a.json"}})
    write(tmp_path, "a.json", {"items": {"$ref": "b.json"}})
    with pytest.raises(
        SettingError, match=r"reference 'b\.json' cannot be followed: the schema file .*b\.json' does not exist"
    ):
        Validator.from_path(root)
    write(tmp_path, "b.json", {"$ref": "https://example.com/c.json"})
    with pytest.raises(SettingError, match="nothing is fetched"):
        Validator.from_path(root)


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "is not JSON"), ("[1]", r"holds no JSON object but \[1\]"), ("[" * 100_000, "is not JSON")],
)
def test_a_file_that_holds_no_schema_is_refused(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Validator.from_path(write(tmp_path, "schema.json", content))


def test_a_file_that_is_not_there_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    write(tmp_path, "answer.json", ANSWER)
    with pytest.raises(SettingError, match=r"anwser\.json' does not exist; did you mean 'answer\.json'\?"):
        Validator.from_path(tmp_path / "anwser.json")
    with pytest.raises(SettingError, match="cannot be read"):
        Validator.from_path(tmp_path)


def test_a_pydantic_model_gives_its_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", n=(int, ...))
    model = pydantic.create_model("Outer", inner=(inner, ...))
    validator = Validator.from_model(model)
    assert validator.check({"inner": {"n": 1}}) == []
    assert validator.check({"inner": {"n": "x"}}) == ["$.inner.n: 'x' is not of type 'integer'"]


def test_a_model_that_gives_no_schema_is_refused() -> None:
    class Broken:
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            raise TypeError("no schema for this field")

    with pytest.raises(SettingError, match="the model Broken gives no JSON schema: no schema for this field"):
        Validator.from_model(Broken)
    with pytest.raises(SettingError, match="no pydantic model class"):
        Validator.from_model(int)
    with pytest.raises(SettingError, match="no pydantic model class"):
        Validator.from_model(Broken())  # type: ignore[arg-type]  # the mistake under test
