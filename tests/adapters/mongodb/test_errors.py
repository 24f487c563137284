"""What the driver raises, and what a client sees of it."""

from __future__ import annotations

import logging
import uuid

import bson
import pytest
from bson.errors import InvalidBSON, InvalidDocument, InvalidStringData
from pymongo import AsyncMongoClient, errors

from alula.adapters.mongodb import check_connection
from alula.adapters.mongodb._errors import translated
from alula.errors import (
    BadRequest,
    Conflict,
    GeneralError,
    NotFound,
    Timeout,
    Unavailable,
)

SECRET = "host 10.0.0.1, dup key: { email: 'ada@example.com' }"


def failure(code, **details):
    return errors.OperationFailure(SECRET, code, {"code": code, "errmsg": SECRET, **details})


def translation_of(error):
    with pytest.raises(Exception) as caught, translated:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ServerSelectionTimeoutError(SECRET), Unavailable),
        (errors.AutoReconnect(SECRET), Unavailable),
        (errors.NotPrimaryError(SECRET), Unavailable),
        (errors.ConnectionFailure(SECRET), Unavailable),
        (errors.WaitQueueTimeoutError(SECRET), Unavailable),
        (errors.CursorNotFound(SECRET, 43), Unavailable),
        (failure(11602), Unavailable),
        (failure(10107), Unavailable),
        (failure(91), Unavailable),
        (failure(251), Unavailable),
        (errors.NetworkTimeout(SECRET), Timeout),
        (errors.ExecutionTimeout(SECRET, 50), Timeout),
        (errors.WTimeoutError(SECRET, 64), Timeout),
        (failure(262), Timeout),
        (errors.BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}), Timeout),
        (failure(112), Conflict),
        (failure(2), BadRequest),
        (failure(9), BadRequest),
        (failure(121), BadRequest),
        (failure(171), BadRequest),
        (failure(27), BadRequest),
        (failure(51091), BadRequest),
        (failure(10334), BadRequest),
        (errors.WriteError(SECRET, 53, {"code": 53}), BadRequest),
        (errors.DocumentTooLarge(SECRET), BadRequest),
        (OverflowError(SECRET), BadRequest),
        (InvalidDocument(SECRET), BadRequest),
        (InvalidStringData(SECRET), BadRequest),
        (InvalidBSON(SECRET), GeneralError),
        (errors.InvalidName(SECRET), BadRequest),
        (failure(13), GeneralError),
        (failure(None), GeneralError),
        (failure(10_000), GeneralError),
        (errors.OperationFailure(SECRET), GeneralError),
        (errors.InvalidOperation(SECRET), GeneralError),
        (errors.ConfigurationError(SECRET), GeneralError),
    ],
)
def test_becomes_an_error_without_internal_details(error, kind):
    found = translation_of(error)
    assert type(found) is kind
    assert found.__cause__ is error
    shown = str(found.to_dict())
    assert "10.0.0.1" not in shown
    assert "ada@" not in shown
    assert "E11000" not in shown


@pytest.mark.parametrize("timeout", [errors.ExecutionTimeout(SECRET, 50), errors.NetworkTimeout()])
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (errors.ServerSelectionTimeoutError(SECRET), Unavailable),
        (errors.AutoReconnect(SECRET), Unavailable),
        (errors.NotPrimaryError(SECRET), Unavailable),
        (errors.WaitQueueTimeoutError(SECRET), Unavailable),
        (failure(251), Unavailable),
        (errors.NetworkTimeout(SECRET), Timeout),
        (errors.ExecutionTimeout(SECRET, 50), Timeout),
        (failure(112), Timeout),
        (TimeoutError(SECRET), Timeout),
    ],
)
def test_retries_that_end_with_the_limit_are_what_their_last_error_was(timeout, cause, kind):
    """The driver's `with_transaction` turns that error into a timeout."""
    with pytest.raises((Unavailable, Timeout)) as caught, translated:
        raise timeout from cause
    assert type(caught.value) is kind


def test_a_surrogate_is_a_bad_request():
    try:
        "\ud800".encode()
    except UnicodeEncodeError as error:
        found = translation_of(error)
    assert type(found) is BadRequest
    assert "surrogate" in found.message


@pytest.mark.parametrize(
    "error", [NotFound("no record"), ValueError("x"), TypeError("x"), KeyError("x")]
)
def test_other_errors_stay_as_they_are(error):
    assert translation_of(error) is error


def test_nothing_happens_without_an_error():
    with translated:
        pass


def duplicate(**details):
    return errors.DuplicateKeyError(SECRET, 11000, {"code": 11000, "errmsg": SECRET, **details})


def test_a_taken_key_is_named_but_not_its_value():
    error = duplicate(keyPattern={"email": 1}, keyValue={"email": "ada@example.com"})
    found = translation_of(error)
    assert type(found) is Conflict
    assert found.to_dict() == {
        "name": "Conflict",
        "message": "There is a record with this email already",
        "code": 409,
        "className": "conflict",
        "errors": {"email": "is taken"},
    }


def test_a_key_of_several_fields_names_them_all():
    found = translation_of(duplicate(keyPattern={"room": 1, "name": -1}))
    assert found.message == "There is a record with this room and name already"
    assert found.errors == {"room": "is taken", "name": "is taken"}


def test_a_key_that_the_server_does_not_name():
    found = translation_of(duplicate())
    assert found.message == "There is a record with this unique key already"
    assert not found.errors


def test_the_first_write_that_failed_counts_of_several():
    first = {"code": 11000, "errmsg": SECRET, "keyPattern": {"code": 1}, "index": 1}
    found = translation_of(errors.BulkWriteError({"writeErrors": [first, {"code": 2}]}))
    assert found.message == "There is a record with this code already"


@pytest.mark.parametrize(("code", "logged"), [(2, True), (51091, True), (11602, False)])
def test_the_log_has_what_a_developer_needs_of_a_refusal(code, logged, caplog):
    with caplog.at_level(logging.WARNING, "alula.mongodb"):
        translation_of(failure(code))
    assert ("dup key: { email" in caplog.text) is logged


def test_a_refusal_is_one_line_of_the_log(caplog):
    translation_of(errors.OperationFailure("a\nb" + "c" * 10_000, 2))
    assert "\n" not in caplog.records[0].getMessage()
    assert len(caplog.records[0].getMessage()) < 1_200


def test_a_uuid_is_a_bad_request_where_the_client_knows_no_form_for_it(caplog):
    with pytest.raises(BadRequest, match="cannot store") as caught, translated:
        bson.encode({"id": uuid.UUID(int=5)})
    assert isinstance(caught.value.__cause__, ValueError)
    assert "UuidRepresentation" in caplog.text


def test_a_record_that_cannot_be_read_is_in_the_log(caplog):
    found = translation_of(InvalidBSON("year 14645 is out of range"))
    assert "the log has the details" in found.message
    assert "year 14645 is out of range" in caplog.text


@pytest.mark.parametrize("setting", [None, "CHAT_MONGODB_URL"])
async def test_a_server_that_is_not_there_is_named_soon(setting):
    async with AsyncMongoClient("mongodb://127.0.0.1:1/x") as client:
        with pytest.raises(Unavailable) as caught:
            await check_connection(client, setting=setting, seconds=0.3)
    first, *others = caught.value.__notes__
    assert first.startswith("MongoDB: 127.0.0.1:1: ")
    assert others == ([f"the URL comes from {setting}"] if setting else [])


async def test_a_server_that_is_there(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        await check_connection(client)
