"""What a client may know of an exception."""

from __future__ import annotations

import pytest
from fastapi import HTTPException as FastAPIException
from starlette.exceptions import HTTPException

from alula._public_error import debug_text, public_error
from alula.errors import BadRequest, Conflict, FrameworkError, GeneralError, NotFound
from alula.express._middleware.error_handler import status_of


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize(
    "error", [NotFound("No"), GeneralError("Broken"), FrameworkError("x", code=418)]
)
def test_errors_of_the_interface_are_public(error, debug):
    assert public_error(error, debug=debug) is error
    assert error.__cause__ is None


UNEXPECTED = {
    "message": (ValueError("password is hunter2"), "ValueError: password is hunter2"),
    "no message": (KeyError(), "KeyError"),
    "coded": (
        type("Coded", (Exception,), {"code": 404, "status_code": 404})("I am coded"),
        "I am coded",
    ),
    "key": (KeyError("nothing"), "KeyError: 'nothing'"),
    "written by people": (RuntimeError("the printer is on fire"), "the printer is on fire"),
    "group": (ExceptionGroup("all", [ValueError("a")]), "ExceptionGroup: all (1 sub-exception)"),
}


@pytest.mark.parametrize(("error", "message"), UNEXPECTED.values(), ids=UNEXPECTED)
def test_of_an_unexpected_error_only_debug_shows_the_message(error, message):
    shown = public_error(error, debug=True)
    assert shown.to_dict() == {
        "name": "GeneralError",
        "message": message,
        "code": 500,
        "className": "general-error",
    }
    hidden = public_error(error, debug=False)
    assert hidden.to_dict() == {**shown.to_dict(), "message": "The server failed; its log says why"}
    assert shown.__cause__ is hidden.__cause__ is error


STARLETTE = {
    "detail": (
        HTTPException(404, "No such page"),
        {"name": "NotFound", "message": "No such page", "code": 404, "className": "not-found"},
    ),
    "phrase": (
        HTTPException(409),
        {"name": "Conflict", "message": "Conflict", "code": 409, "className": "conflict"},
    ),
    "a status without a class": (
        HTTPException(431),
        {
            "name": "RequestHeaderFieldsTooLarge",
            "message": "Request Header Fields Too Large",
            "code": 431,
            "className": "request-header-fields-too-large",
        },
    ),
    "a phrase with signs": (
        HTTPException(418, "Short and stout"),
        {
            "name": "ImATeapot",
            "message": "Short and stout",
            "code": 418,
            "className": "im-a-teapot",
        },
    ),
    "a status nobody knows": (
        HTTPException(499, "Left"),
        {"name": "Status499", "message": "Left", "code": 499, "className": "status-499"},
    ),
    "a list as detail": (
        FastAPIException(422, [{"loc": ["body"]}]),
        {
            "name": "Unprocessable",
            "code": 422,
            "className": "unprocessable",
            "data": [{"loc": ["body"]}],
        },
    ),
    "a mapping as detail": (
        FastAPIException(400, {"message": "Bad", "field": "a"}),
        {
            "name": "BadRequest",
            "message": "Bad",
            "code": 400,
            "className": "bad-request",
            "data": {"field": "a"},
        },
    ),
}


@pytest.mark.parametrize(("error", "form"), STARLETTE.values(), ids=STARLETTE)
def test_errors_of_starlette(error, form):
    shown = public_error(error, debug=False)
    found = shown.to_dict()
    if "message" not in form:  # the words of a status change between versions of Python
        assert found.pop("message")
    assert found == form
    assert shown.__cause__ is error


def test_headers_of_starlettes_errors_are_kept():
    error = HTTPException(401, headers={"WWW-Authenticate": "Basic"})
    assert public_error(error, debug=False).headers == {"WWW-Authenticate": "Basic"}
    assert public_error(HTTPException(401), debug=False).headers is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequest(), 400),
        (Conflict(), 409),
        (FrameworkError(code=303), 303),
        (FrameworkError(code=599), 599),
        (FrameworkError(code=600), 500),
        (FrameworkError(code=200), 500),
        (FrameworkError(code=11000), 500),
        (FrameworkError(code=-1), 500),
        (FrameworkError(code="404"), 500),
    ],
)
def test_status(error, status):
    assert status_of(error) == status


def test_an_error_that_was_never_raised_has_no_place():
    assert debug_text(KeyError("x")) == "KeyError: 'x'\n\nKeyError: 'x'"
