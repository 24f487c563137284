"""Options and settings of the plugin: what is wrong is refused at registration or at the setup."""

from __future__ import annotations

import importlib
import sys

import pytest
from tests.express.asgi_client import call
from tests.express.serving import living
from tests.mcp.speaking import send

import alula.mcp
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import api, express, rest
from alula.mcp import mcp

TOOLS = {"todos": ["find"]}


def todos(debug=False):
    return api(App(debug=debug)).use("todos", MemoryService())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path": "mcp"}, ValueError, "write a path such as"),
        ({"path": "//"}, ValueError, "write a path such as"),
        ({"hosts": [None]}, TypeError, r"mcp\(hosts=...\) takes a list of texts, not None"),
        ({"origins": ""}, TypeError, "origins=...\\) takes a list of texts, not ''"),
        ({"hosts": ["https://a.example"]}, ValueError, "name the host alone"),
        ({"origins": ["a.example"]}, ValueError, "an origin is a scheme and a host"),
        ({"origins": ["https://a.example/"]}, ValueError, "an origin is a scheme and a host"),
        ({"issuer": "login.example.com"}, ValueError, "issuer=...\\) is a URL such as"),
        ({"issuer": 7}, ValueError, "issuer=...\\) is a URL such as"),
        ({"scopes": ["todos"]}, ValueError, "has no effect without an issuer"),
        ({"timeout": 0}, ValueError, "give a number of seconds over 0"),
    ],
)
def test_a_wrong_option_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        mcp(TOOLS, **options)


def test_it_needs_an_application_with_rest_and_is_configured_once():
    plugin = mcp(TOOLS, hosts=["a.example"])
    with pytest.raises(TypeError, match="configures what express"):
        plugin(App())
    app = express(App())
    with pytest.raises(RuntimeError, match="needs rest"):
        app.configure(plugin)
    app.configure(rest()).configure(plugin)
    with pytest.raises(RuntimeError, match="name all services in one mapping"):
        app.configure(plugin)


@pytest.mark.parametrize(
    ("setting", "options", "error", "message"),
    [
        (None, {}, RuntimeError, "needs the names of its hosts"),
        (None, {"issuer": "https://a.example"}, RuntimeError, "needs the URL of the application"),
        ("api.example.com", {}, ValueError, "the setting 'public url' is a URL such as"),
    ],
)
async def test_what_is_missing_is_an_error_at_the_setup(setting, options, error, message):
    app = todos().configure(mcp(TOOLS, **options))
    if setting is not None:
        app.set("public url", setting)
    with pytest.raises(error, match=message):
        await app.setup()


async def test_a_tool_that_clients_cannot_call_is_an_error_at_the_setup():
    app = todos().configure(mcp({"todos": ["archive"]}, hosts=["a.example"]))
    with pytest.raises(ValueError, match="`archive` of 'todos', which clients cannot call"):
        await app.setup()


async def test_a_setup_that_failed_may_be_tried_again():
    app, failures = todos(), [1]

    async def fail_once(context, next):
        await next()
        if failures:
            failures.pop()
            raise OSError("no network")

    app.hooks(setup=[fail_once])
    app.configure(mcp(TOOLS, hosts=["a.example"]))
    with pytest.raises(OSError, match="no network"):
        await app.setup()
    async with living(app):
        answer = await send(app, "tools/list", headers={"host": "a.example"})
        assert answer.status == 200


@pytest.mark.parametrize(
    ("debug", "setting", "host", "origin"),
    [
        (True, None, "localhost:5173", "http://localhost:5173"),
        (True, None, "[::1]", "http://127.0.0.1"),
        (False, "https://a.example:8443/x/", "a.example:8443", "https://a.example:8443"),
        (False, "https://A.example", "a.Example", "https://a.exaMple"),
    ],
)
async def test_without_named_hosts_it_is_that_of_the_url_or_this_machine(
    debug, setting, host, origin
):
    app = todos(debug).configure(mcp(TOOLS, path="/agents/"))
    if setting is not None:
        app.set("public url", setting)
    async with living(app):
        right = await send(
            app, "tools/list", path="/agents", headers={"host": host, "origin": origin}
        )
        other = await send(app, "tools/list", path="/agents", headers={"host": "evil.example"})
        assert (right.status, other.status) == (200, 421)
        assert (await call(app, url="/mcp")).status == 404


@pytest.mark.parametrize("missing", ["mcp", "orjson"])
def test_the_error_of_a_missing_package_names_the_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing},.*pip install 'alula\[mcp\]'"):
        importlib.reload(alula.mcp)
