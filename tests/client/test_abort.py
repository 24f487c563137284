"""Signals by which calls are given up."""

from __future__ import annotations

from alula.client import AbortController
from alula.client.abort import Aborted
from alula.errors import GeneralError


def test_listeners_are_called_once():
    controller, heard = AbortController(), []
    controller.signal.listen(lambda: heard.append(1))
    assert (controller.signal.aborted, heard) == (False, [])
    controller.abort()
    controller.abort()
    assert (controller.signal.aborted, heard) == (True, [1])


def test_who_comes_late_is_called_at_once():
    controller, heard = AbortController(), []
    controller.abort()
    controller.signal.listen(lambda: heard.append(1))()
    assert heard == [1]


def test_who_has_gone_is_not_called():
    controller, heard = AbortController(), []
    forget = controller.signal.listen(lambda: heard.append(1))
    forget()
    forget()
    controller.abort()
    assert heard == []


def test_the_error_is_of_the_family():
    error = Aborted("given up")
    assert isinstance(error, GeneralError)
    assert error.to_dict() == {
        "name": "AbortError",
        "message": "given up",
        "code": 499,
        "className": "abort-error",
    }
