"""Mistakes of the first hour beside services and hooks: what is configured, served and sent."""

import pytest
from pydantic import BaseModel

from alula import App
from alula._json_encoding import dumps
from alula.adapters.memory import MemoryService
from alula.client import create_client
from alula.client import rest as client_rest
from alula.errors import BadRequest
from alula.express import express, not_found, rest
from alula.schema import with_schema


def test_rest_twice():
    """The formatter of a second one would never be asked."""
    app = express(App()).configure(rest())
    with pytest.raises(RuntimeError, match=r"rest\(\) is configured already"):
        app.configure(rest(lambda req, res: None))


@pytest.mark.parametrize("path", ["/", "/old"])
def test_rest_behind_not_found(path, caplog):
    """Every service is a 404, unless `not_found` is that of a part."""
    express(App()).use(path, not_found()).configure(rest())
    assert ("register not_found() behind rest()" in caplog.text) is (path == "/")


def test_the_rest_of_the_client():
    connection = client_rest("http://127.0.0.1:3030")
    for given in (connection, connection.fetch()):
        with pytest.raises(TypeError, match=r"configured with rest\(\) of alula\.express"):
            express(App()).configure(given)
    with pytest.raises(TypeError, match="not a client without a server"):
        create_client().configure(rest())


@pytest.mark.parametrize("port", ["3030", "ABC", 70000, None])
def test_a_port_that_is_none(port):
    hint = r", not a string: 3030, or int\(\.\.\.\) of a variable$" if port == "3030" else "$"
    with pytest.raises(ValueError, match=rf"number up to 65535{hint}"):
        express(App()).run(port)


def test_a_route_as_a_decorator():
    expected = r"not as a decorator: app\.get\('/hello', handler\)"
    with pytest.raises(TypeError, match=expected):
        express(App()).get("/hello")


def test_a_service_as_an_attribute():
    app = App()
    app.use("messages", MemoryService())
    with pytest.raises(AttributeError, match=r"the service is at app\.service\('messages'\)"):
        app.messages  # noqa: B018  # looking it up is the test
    with pytest.raises(AttributeError, match=r"App has no attribute 'mesages'$"):
        app.mesages  # noqa: B018  # as above


def test_a_service_with_a_schema_that_nobody_registered():
    service = with_schema(MemoryService(), {"properties": {"text": {"type": "string"}}})
    expected = (
        r"with_schema\(MemoryService\(\), \.\.\.\) has no 'find': .* app\.service\(path\)\.find$"
    )
    with pytest.raises(AttributeError, match=expected):
        service.find  # noqa: B018  # reading it raises


async def test_a_model_as_data():
    class Message(BaseModel):
        text: str

    app = App()
    app.use("messages", MemoryService())
    with pytest.raises(BadRequest, match=r"not a value Message; write \.model_dump\(\)"):
        await app.service("messages").create(Message(text="hello"))


def test_a_forgotten_await():
    expected = r"is a coroutine of AdapterService\.find, .* write `await` in front of its call$"
    with pytest.raises(TypeError, match=expected) as caught:
        dumps({"data": [MemoryService().find()]})
    assert caught.value.__context__ is None  # nothing stands in front of what it says


def test_hidden_names_that_the_schema_does_not_have():
    schema = {"properties": {"salary": {"type": "integer"}}}
    with pytest.raises(ValueError, match=r"^hidden names 'slary', .*; did you mean 'salary'\?$"):
        with_schema(MemoryService(), schema, hidden=["slary"])
    with pytest.raises(ValueError, match=r"^queryable names 'x', .*; it has id, salary$"):
        with_schema(MemoryService(), schema, queryable=["x"])
