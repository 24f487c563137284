"""Signals by which calls are given up."""

from __future__ import annotations

import asyncio

from alula.client import AbortController, create_client, rest
from alula.client._abort import Aborted
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


def test_calls_whose_event_loop_has_ended_disturb_no_others():
    async def fetch(url, **given):
        await asyncio.Event().wait()

    client = create_client().configure(rest("http://here").fetch(fetch))
    controller, heard, loop = AbortController(), [], asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it is told of the calls when they are destroyed
    given = {"signal": controller.signal}
    call = loop.create_task(client.service("x").find(connection=given))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    controller.signal.listen(lambda: heard.append(1))
    controller.abort()
    assert heard == [1]
    assert not call.done()


def test_the_error_is_of_the_family():
    error = Aborted("given up")
    assert isinstance(error, GeneralError)
    assert error.to_dict() == {
        "name": "AbortError",
        "message": "given up",
        "code": 499,
        "className": "abort-error",
    }
