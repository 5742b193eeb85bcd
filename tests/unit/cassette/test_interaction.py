"""One exchange in vcrpy's form, there and back."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from pytest_swarm.errors import CassetteError
from pytest_swarm.exchange import Ending
from pytest_swarm.sources.cassette.interaction import EXTRA, Interaction, from_vcr, path_below_base, to_vcr
from tests.unit.cassette.cassette_samples import CUT, EVERY, REFUSED, SILENT, STREAMED, request

FOREIGN = {
    "request": {
        "method": "POST",
        "uri": "https://api.example.com/v1/messages",
        "body": '{"model": "m"}',
        "headers": {},
    },
    "response": {
        "status": {"code": 200, "message": "OK"},
        "headers": {"Content-Type": ["application/json"], "Set-Cookie": ["a=1", "b=2"]},
        "body": {"string": "{}"},
    },
}


@pytest.mark.parametrize("interaction", EVERY.values(), ids=EVERY)
def test_it_comes_back_as_it_was(interaction: Interaction) -> None:
    assert from_vcr(to_vcr(interaction)) == interaction


@pytest.mark.parametrize("failed", [REFUSED, SILENT], ids=["no head", "no body"])
def test_what_brought_no_answer_is_no_empty_success_for_plain_readers(failed: Interaction) -> None:
    response = to_vcr(failed)["response"]
    assert response["status"]["code"] == 599
    assert failed.error in response["body"]["string"]
    assert failed.ending.value in response["status"]["message"]


def test_a_cut_stream_keeps_what_came() -> None:
    response = to_vcr(CUT)["response"]
    assert (response["status"]["code"], response["body"]["string"].encode()) == (200, CUT.body)
    assert response[EXTRA]["ending"] == "disconnected"


def test_an_empty_reply_that_is_complete_stays_one() -> None:
    empty = replace(STREAMED, status=204, body=b"", chunks=())
    assert to_vcr(empty)["response"]["status"] == {"code": 204, "message": "No Content"}
    assert from_vcr(to_vcr(empty)) == empty


def test_a_foreign_interaction_has_no_timing() -> None:
    found = from_vcr(FOREIGN)
    assert (found.timed, found.head, found.end, found.chunks) == (False, None, None, ())
    assert (found.status, found.body, found.ending) == (200, b"{}", Ending.COMPLETE)
    assert found.headers == {"content-type": "application/json", "set-cookie": "a=1, b=2"}
    assert (found.model, found.base_url) == ("m", "https://api.example.com/v1")


def test_a_foreign_body_is_decoded() -> None:
    packed = {"string": gzip.compress(b'{"a": 1}')}
    headers = {"content-encoding": ["gzip"], "content-length": ["28"]}
    found = from_vcr({**FOREIGN, "response": {**FOREIGN["response"], "headers": headers, "body": packed}})
    assert (found.body, found.headers) == (b'{"a": 1}', {"content-length": "8"})


def test_the_form_of_older_vcrpy_for_httpx_is_read() -> None:
    older = {"status_code": 201, "headers": {"a": "b"}, "content": "text"}
    found = from_vcr({**FOREIGN, "response": older})
    assert (found.status, found.body, found.headers) == (201, b"text", {"a": "b"})


def test_keys_of_later_versions_are_kept() -> None:
    item = to_vcr(STREAMED)
    item["response"][EXTRA]["later"] = {"a": 1}
    assert to_vcr(from_vcr(item)) == item


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({}, "'request' is missing"),
        ({**FOREIGN, "response": {}}, "'status' is missing"),
        ({**FOREIGN, "response": {**FOREIGN["response"], "status": {"code": "ok"}}}, "the status 'ok' is no number"),
        ({**FOREIGN, "response": {**FOREIGN["response"], "body": {"string": 5}}}, "a body is int, not a text or bytes"),
        ({**FOREIGN, "response": {**FOREIGN["response"], EXTRA: {"ending": "odd"}}}, "'odd' is not a valid Ending"),
        ("text", "string indices must be integers"),
    ],
)
def test_what_is_no_interaction_is_refused(item: object, problem: str) -> None:
    with pytest.raises(CassetteError, match=r"^it is not an interaction as vcrpy writes them: ") as error:
        from_vcr(item)  # type: ignore[arg-type]
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://h:8/v1/chat/completions?api-version=2", ("https://h:8/v1", "/chat/completions")),
        ("https://h/v1/messages/", ("https://h/v1", "/messages")),
        ("https://h/responses", ("https://h", "/responses")),
        ("https://h/v1/embeddings", ("https://h", "/v1/embeddings")),
    ],
)
def test_a_url_is_a_base_and_a_path(url: str, parts: tuple[str, str]) -> None:
    assert path_below_base(url) == parts


def test_a_model_is_named_in_the_body_or_nowhere() -> None:
    assert STREAMED.model == "m"
    assert replace(STREAMED, request=replace(request(), body=b"no json")).model is None
    assert replace(STREAMED, request=request({"model": 5})).model is None
