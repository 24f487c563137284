"""Nothing is served without its guards: what is missing in uvicorn keeps Alula from starting."""

from __future__ import annotations

import ast
import asyncio
import importlib.metadata
import runpy
import subprocess
import sys
from pathlib import Path

import httptools
import pytest
import uvicorn
from tests.express.serving import client_of
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

import alula.express
from alula.errors import Unavailable
from alula.express import HTTPProtocol, express
from alula.express._connection_limits import ConnectionLimits
from alula.express._uvicorn import protocol as uvicorn_protocol
from alula.express._uvicorn.check import check_uvicorn, check_websockets
from alula.express._uvicorn.protocol import guarded, guards
from alula.express._uvicorn.websockets import WebSocketProtocol

SRC = Path(alula.express.__file__).parent.parent


def application():
    return express().all("/", lambda req, res: res.json("here"))


# -- what is needed of uvicorn ---------------------------------------------------------------------

OF_PROTOCOLS = ["connection_made", "connection_lost", "data_received", "send_400_response"]
MISSING = [
    *((protocol, name) for protocol in (HttpToolsProtocol, H11Protocol) for name in OF_PROTOCOLS),
    *((HttpToolsProtocol, name) for name in ("on_header", "on_headers_complete", "on_body")),
    *((HttpToolsProtocol, name) for name in ("_start_asgi_task", "_unset_keepalive_if_required")),
    *((H11Protocol, name) for name in ("handle_events", "on_response_complete")),
    *((uvicorn.Server, name) for name in ("startup", "on_tick", "_wait_tasks_to_complete")),
]


def test_this_version_has_all():
    check_uvicorn()


@pytest.mark.parametrize(("owner", "name"), MISSING)
def test_a_method_that_is_gone_keeps_it_from_starting(owner, name, monkeypatch):
    monkeypatch.delattr(owner, name)
    with pytest.raises(ImportError) as raised:
        check_uvicorn()
    text = str(raised.value)
    assert text.startswith(f"alula.express does not work with uvicorn {uvicorn.__version__}: ")
    assert f"{owner.__name__} has no method {name}." in text
    declared = [line for line in importlib.metadata.requires("alula") if line.startswith("uvicorn")]
    assert text.endswith(f"pip install '{declared[0].partition(';')[0].strip()}'")


@pytest.mark.parametrize(("owner", "name"), MISSING)
def test_a_method_that_takes_something_else_keeps_it_from_starting(owner, name, monkeypatch):
    def other(self, something, else_=None): ...

    monkeypatch.setattr(owner, name, other)
    with pytest.raises(ImportError, match=rf"{owner.__name__}\.{name} takes \(self something else"):
        check_uvicorn()


def test_an_attribute_that_is_gone_keeps_it_from_starting(monkeypatch):
    before = RequestResponseCycle.__init__

    def renamed(self, *args, **options):
        before(self, *args, **options)
        self.complete = self.__dict__.pop("response_complete")

    monkeypatch.setattr(RequestResponseCycle, "__init__", renamed)
    with pytest.raises(ImportError, match=r"no attribute '?response_complete"):
        check_uvicorn()


def test_an_attribute_of_the_connection_that_is_gone_keeps_it_from_starting(monkeypatch):
    before = HttpToolsProtocol.__init__

    def renamed(self, config, server_state, app_state, _loop=None):
        before(self, config, server_state, app_state, _loop)
        del self.pipeline

    monkeypatch.setattr(HttpToolsProtocol, "__init__", renamed)
    with pytest.raises(ImportError, match="HttpToolsProtocol has no attribute pipeline"):
        check_uvicorn()


def test_an_attribute_that_is_not_looked_at_by_uvicorn_itself(monkeypatch):
    before = FlowControl.__init__

    def renamed(self, transport):
        before(self, transport)
        del self.write_paused

    monkeypatch.setattr(FlowControl, "__init__", renamed)
    with pytest.raises(ImportError, match="flow has no attribute write_paused"):
        check_uvicorn()


def test_a_parser_that_does_not_tell_the_guard_keeps_it_from_starting(monkeypatch):
    """The method is there, but the protocol no longer has its parser call it."""

    real = httptools.HttpRequestParser

    class Behind:
        """Calls what uvicorn's class has, and no more what is in front of it."""

        def __init__(self, protocol):
            self.protocol = protocol

        def __getattr__(self, name):
            own = getattr(HttpToolsProtocol, name)
            return lambda *values: own(self.protocol, *values)

    class Parser:
        def __init__(self, protocol):
            self.parser = real(Behind(protocol))

        def __getattr__(self, name):
            return getattr(self.parser, name)

    monkeypatch.setattr("httptools.HttpRequestParser", Parser)
    with pytest.raises(ImportError, match="HttpToolsProtocol does not show the head"):
        check_uvicorn()


def test_websockets_of_this_version_have_all():
    check_websockets(WebSocketProtocol, WebSocketsSansIOProtocol)


@pytest.mark.parametrize("name", ["data_received", "send", "handle_connect", "on_task_complete"])
def test_a_method_of_websockets_that_is_gone_is_named(name, monkeypatch):
    monkeypatch.delattr(WebSocketsSansIOProtocol, name)
    with pytest.raises(ImportError, match=f"WebSocketsSansIOProtocol has no method {name}"):
        check_websockets(WebSocketProtocol, WebSocketsSansIOProtocol)


def test_an_attribute_of_websockets_that_is_gone_is_named(monkeypatch):
    before = WebSocketsSansIOProtocol.__init__

    def renamed(self, config, server_state, app_state, _loop=None):
        before(self, config, server_state, app_state, _loop)
        del self.read_paused

    monkeypatch.setattr(WebSocketsSansIOProtocol, "__init__", renamed)
    with pytest.raises(ImportError, match="has no attribute read_paused"):
        check_websockets(WebSocketProtocol, WebSocketsSansIOProtocol)


def test_a_scope_of_websockets_without_extensions_is_noticed(monkeypatch):
    handle = WebSocketProtocol.handle_connect

    def renamed(self, event):
        handle(self, event)
        if hasattr(self, "scope"):
            self.scope["extensions"].clear()

    monkeypatch.setattr(WebSocketProtocol, "handle_connect", renamed)
    with pytest.raises(ImportError, match="has no scope that names extensions"):
        check_websockets(WebSocketProtocol, WebSocketsSansIOProtocol)


def test_websockets_that_do_not_call_the_guard_are_noticed(monkeypatch):
    monkeypatch.setattr(WebSocketProtocol, "handle_connect", lambda self, event: None)
    with pytest.raises(ImportError, match="does not show new connections to its guard"):
        check_websockets(WebSocketProtocol, WebSocketsSansIOProtocol)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


TWICE = """
import asyncio, contextlib, alula.express
with contextlib.suppress(ImportError):
    {starts}
    raise SystemExit("it has started without a part of its guards")
{starts}
"""


@pytest.mark.parametrize(
    "starts",
    [
        "asyncio.run(alula.express.express().listen(0))",
        "alula.express.express().run(0)",
        "alula.express.HTTPProtocol",
    ],
)
@pytest.mark.parametrize("name", ["send_400_response", "connection_made"])
def test_the_start_is_what_fails(name, starts):
    ran = run(
        "from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as P\n"
        f"P.renamed = P.{name}; del P.{name}\n" + TWICE.format(starts=starts)
    )
    assert ran.returncode == 1
    assert "ImportError: alula.express does not work with uvicorn" in ran.stderr


def test_a_module_that_is_gone_names_the_versions_too():
    ran = run(
        "import sys; sys.modules['uvicorn.protocols.http.h11_impl'] = None\n"
        "from alula.express import HTTPProtocol"
    )
    assert ran.returncode == 1
    assert "Install a version that works: pip install 'uvicorn" in ran.stderr


@pytest.mark.parametrize("missing", ["auto", "h11_impl"])
def test_the_module_itself_says_so(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, f"uvicorn.protocols.http.{missing}", None)
    with pytest.raises(ImportError, match="a version that works: pip install 'uvicorn"):
        runpy.run_path(uvicorn_protocol.__file__)


def test_a_copy_that_is_not_installed_names_its_extra(monkeypatch):
    def requires(_):
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.requires", requires)
    monkeypatch.delattr(H11Protocol, "handle_events")
    with pytest.raises(ImportError, match=r"pip install 'alula\[server\]'"):
        check_uvicorn()


def test_a_part_of_uvicorn_that_the_guard_of_httptools_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "alula.express._uvicorn.httptools_guard", None)
    with pytest.raises(ImportError, match="a version that works: pip install 'uvicorn"):
        guards()


def test_without_httptools_h11_is_guarded():
    ran = run(
        "import sys; sys.modules['httptools'] = None\n"
        "from alula.express._uvicorn.protocol import guards\n"
        "print(*(each.__name__ for each in guards()))"
    )
    assert (ran.stdout, ran.stderr) == ("H11Protocol\n", "")


def test_where_uvicorn_chooses_h11_there_is_one_guard(monkeypatch):
    monkeypatch.setattr(uvicorn_protocol, "AutoHTTPProtocol", H11Protocol)
    assert list(guards()) == [H11Protocol]
    with pytest.raises(TypeError, match="cannot be guarded"):
        guarded(HttpToolsProtocol)


async def test_a_protocol_that_was_loaded_after_the_import_is_checked_when_it_serves(monkeypatch):
    monkeypatch.delattr(H11Protocol, "handle_events")
    with pytest.raises(ImportError, match="H11Protocol has no method handle_events"):
        await application().listen(0, http="h11")


def test_without_h11_there_is_one_guard(monkeypatch):
    monkeypatch.delitem(sys.modules, "uvicorn.protocols.http.h11_impl")
    assert list(guards()) == [HttpToolsProtocol]


def test_h11_is_loaded_and_guarded_when_somebody_uses_it():
    ran = run(
        "import sys, alula.express\n"
        "from alula.express._uvicorn.protocol import guarded, guards\n"
        "print('h11' in sys.modules, *(each.__name__ for each in guards()))\n"
        "from uvicorn.protocols.http.h11_impl import H11Protocol\n"
        "print(*(each.__name__ for each in guarded(H11Protocol).__mro__[1:3]))"
    )
    assert ran.stdout == "False HttpToolsProtocol\nH11Guard Guard\n", ran.stderr


def test_no_other_file_knows_uvicorn():
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "uvicorn" for name in names):
                found.add(str(path.relative_to(SRC)))
    assert found == {
        "express/_uvicorn/check.py",
        "express/_uvicorn/httptools_guard.py",
        "express/_uvicorn/protocol.py",
        "express/_uvicorn/server.py",
        "express/_uvicorn/websockets.py",
    }


# -- which protocols are guarded -------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [HttpToolsProtocol, H11Protocol])
def test_guarded_protocols_keep_their_names_and_take_other_limits(protocol):
    limits = ConnectionLimits(read_timeout=3)
    first = guarded(protocol)
    second = guarded(first, limits)
    assert first.__name__ == second.__name__ == protocol.__name__
    assert issubclass(second, guards()[protocol])
    assert (first.limits, second.limits) == (ConnectionLimits(), limits)


class OwnHttpTools(HttpToolsProtocol):
    """A class of the user's own, which can be guarded."""


class Foreign(asyncio.Protocol):
    """A class that cannot be guarded."""

    def __init__(self, config, server_state, app_state, _loop=None): ...

    def connection_made(self, transport):
        transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nforeign")
        transport.close()


async def test_a_subclass_of_the_users_own_is_guarded():
    async with await application().listen(0, http=OwnHttpTools) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /" + b"a" * 70_000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        writer.close()


class Overriding(HttpToolsProtocol):
    """Changes what would never run."""

    def on_headers_complete(self):
        super().on_headers_complete()


async def test_a_subclass_that_changes_what_is_replaced_is_refused():
    with pytest.raises(TypeError, match=r"overrides on_headers_complete, which Alula replaces"):
        await application().listen(0, http=Overriding)


@pytest.mark.parametrize("http", [Foreign, lambda **_: Foreign()], ids=["a class", "a function"])
async def test_what_cannot_be_guarded_is_refused(http):
    with pytest.raises(TypeError, match=r"cannot be guarded: .* allow_unguarded_http=True"):
        await application().listen(0, http=http)


async def test_an_unguarded_protocol_serves_only_where_that_is_allowed():
    app = application()
    async with await app.listen(0, http=Foreign, allow_unguarded_http=True) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        assert (await reader.read()).endswith(b"foreign")
        writer.close()


async def test_options_of_connections_are_checked():
    with pytest.raises(ValueError, match=r"min_rate is 0; .*greater than 0"):
        await application().listen(0, min_rate=0)


# -- other ways to start uvicorn -------------------------------------------------------------------


async def test_the_command_uvicorn_can_have_the_same_guards():
    config = uvicorn.Config(
        application(), http="alula.express:HTTPProtocol", port=0, log_config=None
    )
    config.load()
    assert config.http_protocol_class is HTTPProtocol
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # it does not tell
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /" + b"a" * 70_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.close()
    server.should_exit = True
    await running


async def test_what_is_answered_is_not_cut_short():
    async with await application().listen(0) as server, client_of(server) as client:
        assert (await client.get("/")).status_code == 200
        (connection,) = server._uvicorn_server.server_state.connections
        connection.cut_short(Unavailable("too late"))
        assert (await client.get("/")).status_code == 200
        assert connection in server._uvicorn_server.server_state.connections


# -- connections that are kept ---------------------------------------------------------------------


async def test_idle_connections_outlive_those_of_nginx():
    async with await application().listen(0) as server, client_of(server) as client:
        assert (await client.get("/")).status_code == 200
        (connection,) = server._uvicorn_server.server_state.connections
        timer = connection.timeout_keep_alive_task
        assert timer.when() - asyncio.get_running_loop().time() > 60 + 5
    async with (
        await application().listen(0, timeout_keep_alive=1) as server,
        client_of(server) as client,
    ):
        assert (await client.get("/")).status_code == 200
        (connection,) = server._uvicorn_server.server_state.connections
        assert connection.timeout_keep_alive == 1
