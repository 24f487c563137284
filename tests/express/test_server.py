"""Real servers: ports, the set-up behind them, an orderly end, TLS, other ASGI servers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
import trustme
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.express.serving import client_of
from tests.waiting import eventually

from alula import App
from alula._sockets import url_of
from alula.express import error_handler, express, json, rest
from alula.express._http1.server import HTTPServer, http_server
from alula.express._lifespan import StartupGate
from alula.express._server import start_server

OPTIONS = {}  # of all servers of a test


class Slow:
    """A service whose calls wait until they are told to go on.

    Attributes:
        log: What happened, in order.
    """

    def __init__(self):
        self.log = []
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()

    async def setup(self, app, path):
        self.log.append("setup")

    async def teardown(self, app, path):
        self.log.append("teardown")

    async def get(self, id, params):
        if id == "slow":
            self.entered.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                self.log.append("cleaned up")
                raise
            self.log.append("answered")
        return {"id": id}

    async def create(self, data, params):
        return data


class Starting(Slow):
    """A service whose set-up takes until it is told to go on."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error
        self.starts = asyncio.Event()

    async def setup(self, app, path):
        self.starts.set()
        await self.go_on.wait()
        if self.error:
            raise self.error
        await super().setup(app, path)


def application(service, existing=None):
    app = express(App(), existing)
    app.server_options.update(OPTIONS)
    app.use(json())
    app.configure(rest())
    app.use("slow", service)
    app.use(error_handler(logger=False))
    return app


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
def app(slow):
    return application(slow)


def is_refused(server):
    with socket.socket() as sock:
        return sock.connect_ex((server.host, server.port)) == errno.ECONNREFUSED


async def open_connection(server):
    return await asyncio.open_connection(server.host, server.port)


async def ended(reader):
    """Wait for the end of a connection, however it ends."""
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 30)


@asynccontextmanager
async def running(awaitable):
    """Run something beside the block; it is cancelled at its end where it has not ended."""
    task = asyncio.ensure_future(awaitable)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


# -- ports -----------------------------------------------------------------------------------------


async def test_port_0_takes_any_that_is_free(app):
    async with await app.listen(0) as server, client_of(server) as client:
        assert server.port > 0
        assert server.host == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert repr(server) == f"<Server {server.url}>"
        assert (await client.get("/slow/5")).json() == {"id": "5"}
    assert is_refused(server)


async def test_a_given_port_is_taken(app):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with await app.listen(port) as server:
        assert server.port == port


async def test_a_port_in_use_is_a_clear_error(app, slow):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"cannot listen on 127.0.0.1:{port}: .*; choose another port"
        with pytest.raises(OSError, match=message) as raised:
            await app.listen(port)
    assert raised.value.errno == errno.EADDRINUSE
    assert slow.log == []
    async with await app.listen(port):
        pass  # it can be tried again


@pytest.mark.parametrize("port", ["3030", -1, 65536, None, 80.5])
async def test_what_is_no_port_is_a_clear_error(app, port):
    with pytest.raises(ValueError, match=r"cannot listen on the port .*number"):
        await app.listen(port)


async def test_an_address_that_is_not_there_is_a_clear_error(app):
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0"):
        await app.listen(0, "192.0.2.1")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("192.0.2.7", "http://192.0.2.7:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
    ],
)
def test_the_url_is_one_to_open(host, url):
    assert url_of("http", (host, 80)) == url


async def test_every_address_of_the_machine_is_one_to_listen_on(app):
    async with await app.listen(0, "0.0.0.0") as server, client_of(server) as client:
        assert (await client.get("/slow/5")).status_code == 200


async def test_an_address_of_ip_version_6(app):
    try:
        server = await app.listen(0, "::1")
    except OSError as error:  # a machine without it
        assert "cannot listen on ::1:0" in str(error)  # noqa: PT017  # its text is the point
        return
    async with server, client_of(server) as client:
        assert (await client.get("/slow/5")).status_code == 200


async def test_an_option_that_does_not_exist_is_an_error(app):
    with pytest.raises(TypeError, match=r"server.* has no option 'unknown'"):
        await app.listen(0, unknown=True)


async def test_an_option_of_a_similar_name_is_suggested(app):
    with pytest.raises(TypeError, match="no option 'prot'; did you mean 'port'"):
        await app.listen(0, prot=3030)
    with socket.socket() as sock, pytest.raises(TypeError, match="mean 'accept_during_setup'"):
        await app.serve(sock, accept_in_setup=True)


def test_run_has_the_same_options():
    with pytest.raises(TypeError, match="no option 'prot'; did you mean 'port'"):
        express().run(prot=3030)


async def test_headers_of_proxies_are_taken_only_where_that_is_asked_for(app):
    def where(req, res):
        res.json([req.ip, req.protocol])

    app.get("/where", where)
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    async with await app.listen(0) as server, client_of(server) as client:
        assert (await client.get("/where", headers=headers)).json() == ["127.0.0.1", "http"]
    behind = {"proxy_headers": True, "forwarded_allow_ips": "127.0.0.1"}
    async with await app.listen(0, **behind) as server, client_of(server) as client:
        assert (await client.get("/where", headers=headers)).json() == ["203.0.113.9", "https"]


async def test_a_server_that_cannot_start_leaves_nothing_open(app, monkeypatch):
    async def startup(self, sockets=None):
        raise OSError("no more of it")

    monkeypatch.setattr(HTTPServer, "startup", startup)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError, match="no more of it"):
        await app.listen(port)
    socket.create_server(("127.0.0.1", port)).close()


# -- the server first, then set-up -----------------------------------------------------------------


@pytest.fixture
def waiting(monkeypatch):
    """What grows by an item with each request that waits for the set-up."""
    items, admits = [], StartupGate.admits

    def noted(gate):
        items.append(gate)
        return admits(gate)

    monkeypatch.setattr(StartupGate, "admits", noted)
    return items


async def test_early_requests_wait_for_the_set_up(waiting):
    service = Starting()
    app = application(service)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with running(app.listen(port)) as listening:
        await service.starts.wait()
        async with httpx2.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{port}/slow/5"
            async with running(asyncio.gather(*(client.get(url) for _ in range(5)))) as early:
                await eventually(lambda: len(waiting) == 5)
                assert not early.done()
                service.go_on.set()
                assert [answer.status_code for answer in await early] == [200] * 5
        server = await listening
        assert service.log == ["setup"]
        await server.close()


async def test_set_up_gets_the_server(app):
    seen = []

    async def note(context, next):
        seen.append(context.server)
        await next()

    app.hooks(setup=[note])
    async with await app.listen(0) as server:
        assert seen == [server]


async def test_a_failing_set_up_closes_the_server_and_early_requests_get_a_503(waiting):
    service = Starting(RuntimeError("no database"))
    app = application(service)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with running(app.listen(port)) as listening:
        await service.starts.wait()
        url = f"http://127.0.0.1:{port}/slow/5"
        async with httpx2.AsyncClient(trust_env=False) as client, running(client.get(url)) as early:
            await eventually(lambda: waiting)
            service.go_on.set()
            answer = await early
        assert answer.status_code == 503
        assert answer.json()["className"] == "unavailable"
        assert "database" not in answer.text
        with pytest.raises(RuntimeError, match="no database"):
            await listening
    socket.create_server(("127.0.0.1", port)).close()
    assert service.log == []


async def test_listening_again_after_a_failing_set_up_works():
    service = Starting(RuntimeError("no database"))
    service.go_on.set()
    app = application(service)
    with pytest.raises(RuntimeError, match="no database"):
        await app.listen(0)
    service.error = None
    async with await app.listen(0) as server, client_of(server) as client:
        assert (await client.get("/slow/5")).status_code == 200
    assert service.log == ["setup", "teardown"]


async def test_a_cancelled_listen_closes_the_server():
    service = Starting()
    app = application(service)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with running(app.listen(port)) as listening:
        await service.starts.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
    socket.create_server(("127.0.0.1", port)).close()


async def test_a_set_up_that_is_cancelled_inside_does_not_hang():
    service = Starting(asyncio.CancelledError())
    service.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await application(service).listen(0)


@pytest.fixture
def told(caplog):
    """What servers have logged."""
    return lambda: [each.getMessage() for each in caplog.records if each.name == "alula.serve"]


@contextlib.contextmanager
def few_descriptors():
    """Yield what takes all file descriptors that are left, and gives some of them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []

    def leave(count):
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        yield leave
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_running_out_of_file_descriptors_is_logged(app, monkeypatch, told):
    monkeypatch.setattr("alula.express._http1.server._TICK_SECONDS", 0.02)
    async with await app.listen(0):
        with few_descriptors() as leave:
            leave(0)
            await eventually(told)
    assert told()[0].startswith("no file descriptors are left (0 connections): new ones are")


def test_it_is_logged_once(app, told):
    """Without a running loop: other servers in this process would log it as well."""
    server = http_server(app, {})
    with few_descriptors() as leave:
        for count in (0, 1, 0, 2, 0):  # a process at its limit has one now and then
            leave(count)
            server._look_at_descriptors()
        assert len(told()) == 1
        leave(1)
        for _ in range(4):
            server._look_at_descriptors()
        assert len(told()) == 1
        server._look_at_descriptors()
        server._look_at_descriptors()
    assert told()[1:] == ["there are file descriptors again; connections are accepted"]


async def test_the_end_of_the_time_leaves_what_is_no_request_alone(app, slow):
    """A WebSocket is a connection, too, and knows nothing of responses."""
    server = await app.listen(0, timeout_graceful_shutdown=0.1)
    server._http_server.state.connections.add(socket_like := Foreign())
    await asyncio.wait_for(server.close(), 30)
    assert socket_like.log == ["shutdown", "abort"]


async def test_a_response_that_has_begun_is_cut_off_at_the_end(app):
    async def parts():
        yield b"begun"
        await asyncio.sleep(600)

    app.get("/parts", lambda req, res: res.send(parts()))
    server = await app.listen(0, timeout_graceful_shutdown=0.1)
    reader, writer = await open_connection(server)
    idle = await open_connection(server)
    writer.write(b"GET /parts HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"begun")
    await asyncio.wait_for(server.close(), 30)
    assert b"503" not in await reader.read()
    for each in (writer, idle[1]):
        each.close()


class Foreign:
    """A connection that became a WebSocket."""

    def __init__(self):
        self.log = []
        self.transport = self

    def shutdown(self):
        self.log.append("shutdown")

    def abort(self):
        self.log.append("abort")


# -- the end ---------------------------------------------------------------------------------------


async def test_close_lets_requests_end_refuses_new_ones_and_tears_down_last(app, slow):
    server = await app.listen(0)
    async with client_of(server) as client, running(client.get("/slow/slow")) as under_way:
        await slow.entered.wait()
        closing = asyncio.ensure_future(server.close())
        await eventually(lambda: is_refused(server))
        assert not closing.done()
        assert slow.log == ["setup"]
        slow.go_on.set()
        answer = await under_way
        assert answer.json() == {"id": "slow"}
        assert answer.headers["connection"] == "close"
        await closing
    assert slow.log == ["setup", "answered", "teardown"]


async def test_a_body_that_is_still_coming_may_end(app):
    arrived = asyncio.Event()

    def note(req, res, next):
        arrived.set()
        return next()

    app.prepend_middleware(note)
    server = await app.listen(0)
    reader, writer = await open_connection(server)
    writer.write(
        b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b'content-length: 7\r\n\r\n{"a"'
    )
    await arrived.wait()
    async with running(server.close()) as closing:
        await asyncio.sleep(0.05)
        writer.write(b":1}")
        assert (await reader.read()).endswith(b'{"a":1}')
        await closing
    writer.close()


async def test_close_may_be_called_without_waiting_and_more_than_once(app, slow):
    server = await app.listen(0)
    server.close()
    server.close()
    await server.wait_closed()
    await server.wait_closed()
    await server.close()
    assert slow.log == ["setup", "teardown"]


async def test_waiting_for_the_end_waits(app, slow):
    server = await app.listen(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.wait_closed(), 0.05)
    assert not is_refused(server)
    await server.close()
    assert slow.log == ["setup", "teardown"]


async def test_connections_that_are_kept_alive_do_not_hold_up_the_end(app):
    server = await app.listen(0, timeout_keep_alive=60)
    idle = await open_connection(server)
    used = await open_connection(server)
    used[1].write(b"GET /slow/5 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"200 OK" in await used[0].readuntil(b'"5"}')
    half = await open_connection(server)
    half[1].write(b"GET /slow/5 HTT")
    await asyncio.sleep(0.05)
    await asyncio.wait_for(server.close(), 10)
    for reader, writer in (idle, used, half):
        await ended(reader)
        writer.close()


async def test_requests_that_take_too_long_are_cancelled_before_the_teardown(app, slow, caplog):
    server = await app.listen(0, timeout_graceful_shutdown=0.1)
    async with client_of(server) as client, running(client.get("/slow/slow")) as under_way:
        await slow.entered.wait()
        await server.close()
        assert slow.log == ["setup", "cleaned up", "teardown"]
        answer = await under_way
    assert answer.status_code == 503
    assert answer.json()["message"] == "The server is stopping, and the request took too long"
    assert answer.headers["connection"] == "close"
    assert "1 requests took too long" in caplog.text
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_client_that_reads_nothing_is_cut_off(slow):
    async def flood(req, res):
        async def parts():
            slow.entered.set()
            while True:
                yield b"x" * 100_000

        res.send(parts())

    app = application(slow)
    app.get("/flood", flood)
    server = await app.listen(0, timeout_graceful_shutdown=0.1)
    reader, writer = await open_connection(server)
    writer.write(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
    await slow.entered.wait()
    await asyncio.wait_for(server.close(), 30)
    await ended(reader)
    writer.close()


async def test_what_the_teardown_raises_is_raised_to_those_who_wait(app, slow):
    async def fail(app, path):
        raise RuntimeError("could not say goodbye")

    slow.teardown = fail
    server = await app.listen(0)
    with pytest.raises(RuntimeError, match="could not say goodbye"):
        await server.close()
    with pytest.raises(RuntimeError, match="could not say goodbye"):
        await server.wait_closed()
    assert is_refused(server)


async def test_teardown_of_the_application_closes_its_servers(app, slow):
    server = await app.listen(0)
    assert await app.teardown() is app
    assert is_refused(server)
    await server.wait_closed()
    assert slow.log == ["setup", "teardown"]


async def test_a_plain_web_application_closes_its_servers_too():
    web = express().get("/", lambda req, res: res.send("hi"))
    server = await web.listen(0)
    async with client_of(server) as client:
        assert (await client.get("/")).text == "hi"
    assert await web.teardown() is web
    assert is_refused(server)


async def test_an_application_can_listen_again(app, slow):
    for _ in range(2):
        async with await app.listen(0):
            pass
    assert slow.log == ["setup", "teardown"] * 2


async def test_an_application_has_one_server_at_a_time(app, slow):
    async with await app.listen(0) as server, client_of(server) as client:
        with pytest.raises(RuntimeError, match=f"listens on {server.url} already; close that"):
            await app.listen(0)
        assert (await client.get("/slow/5")).status_code == 200
    assert slow.log == ["setup", "teardown"]
    async with await app.listen(0):
        pass


async def test_a_second_server_while_the_first_one_starts_is_refused_too():
    service = Starting()
    app = application(service)
    async with running(app.listen(0)) as first:
        await service.starts.wait()
        with pytest.raises(RuntimeError, match="this one is starting one already"):
            await app.listen(0)
        service.go_on.set()
        async with await first as server, client_of(server) as client:
            assert (await client.get("/slow/5")).status_code == 200
    assert service.log == ["setup", "teardown"]


async def test_a_start_that_failed_or_was_given_up_is_no_server():
    service = Starting(RuntimeError("no database"))
    app = application(service)
    service.go_on.set()
    with pytest.raises(RuntimeError, match="no database"):
        await app.listen(0)
    service.error = None
    service.starts.clear()
    service.go_on.clear()
    async with running(app.listen(0)) as given_up:
        await service.starts.wait()
        given_up.cancel()
        await asyncio.wait({given_up})
    service.go_on.set()
    async with await app.listen(0):
        pass
    assert service.log == ["setup", "teardown"]


async def test_a_set_up_hook_may_close_its_server(app, slow):
    async def close(context, next):
        context.server.close()
        await next()

    app.hooks(setup=[close])
    server = await app.listen(0)
    await server.wait_closed()
    assert is_refused(server)
    assert slow.log == ["setup", "teardown"]


async def test_a_server_that_ends_by_itself_tears_down(app, slow):
    server = await app.listen(0, limit_max_requests=1)
    async with client_of(server) as client:
        await client.get("/slow/5")
    await asyncio.wait_for(server.wait_closed(), 30)
    assert slow.log == ["setup", "teardown"]


# -- clients ---------------------------------------------------------------------------------------


async def test_a_call_goes_on_although_its_client_went_away(app, slow, caplog):
    created = asyncio.Event()
    app.service("slow").on("created", lambda *_: created.set())

    async def wait(context):
        slow.entered.set()
        await slow.go_on.wait()

    app.service("slow").hooks(before={"create": [wait]})
    async with await app.listen(0) as server:
        _, writer = await open_connection(server)
        writer.write(
            b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b'content-length: 7\r\n\r\n{"a":1}'
        )
        await slow.entered.wait()
        writer.transport.abort()
        await asyncio.sleep(0.05)
        slow.go_on.set()
        await asyncio.wait_for(created.wait(), 30)
    assert caplog.records == []


async def test_a_hundred_requests_at_once(app, slow):
    limits = httpx2.Limits(max_connections=100)
    async with await app.listen(0) as server, client_of(server, limits=limits) as client:
        held = [asyncio.ensure_future(client.get("/slow/slow")) for _ in range(50)]
        await slow.entered.wait()
        quick = await asyncio.gather(*(client.get(f"/slow/{n}") for n in range(50)))
        assert [answer.json()["id"] for answer in quick] == [str(n) for n in range(50)]
        slow.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200] * 50
    assert slow.log.count("answered") == 50


async def test_requests_on_one_connection_are_answered_in_their_order(app):
    async with await app.listen(0) as server:
        reader, writer = await open_connection(server)
        writer.write(b"".join(b"GET /slow/%d HTTP/1.1\r\nhost: x\r\n\r\n" % n for n in range(10)))
        for number in range(10):
            assert b"200 OK" in await reader.readuntil(b'"%d"}' % number)
        writer.close()


# -- existing applications -------------------------------------------------------------------------


async def test_the_lifespan_of_an_existing_application_surrounds_the_set_up(slow):
    @asynccontextmanager
    async def lifespan(_):
        # Such scopes have to be left in the task that entered them.
        async with anyio.create_task_group():
            slow.log.append("startup")
            yield {"answer": 42}
            slow.log.append("shutdown")

    def state(request):
        return JSONResponse(request.state.answer)

    app = application(slow, Starlette(routes=[Route("/state", state)], lifespan=lifespan))
    async with await app.listen(0) as server, client_of(server) as client:
        assert (await client.get("/state")).json() == 42
        assert (await client.get("/slow/5")).json() == {"id": "5"}
    assert slow.log == ["startup", "setup", "teardown", "shutdown"]


async def test_the_lifespan_ends_where_the_set_up_fails(slow):
    @asynccontextmanager
    async def lifespan(_):
        try:
            yield
        finally:
            slow.log.append("shutdown")

    async def fail(app, path):
        raise RuntimeError("no database")

    slow.setup = fail
    with pytest.raises(RuntimeError, match="no database"):
        await application(slow, Starlette(lifespan=lifespan)).listen(0)
    assert slow.log == ["shutdown"]


# -- TLS, and servers of one's own -----------------------------------------------------------------


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return str(path)


@pytest.fixture
def trust(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_listen_serves_https(app, certificate, trust):
    app.get("/scheme", lambda req, res: res.send(req.protocol))
    async with await app.listen(0, ssl_certfile=certificate) as server:
        assert server.url.startswith("https://127.0.0.1:")
        async with client_of(server, verify=trust) as client:
            assert (await client.get("/scheme")).text == "https"


async def test_a_certificate_that_is_not_there_is_an_error(app):
    with pytest.raises(FileNotFoundError):
        await app.listen(0, ssl_certfile="/nowhere.pem")


async def test_https_set_up_separately(app, slow, certificate, trust):
    config = uvicorn.Config(
        app, ssl_certfile=certificate, lifespan="off", ws="none", log_config=None
    )
    own = uvicorn.Server(config)
    sock = socket.create_server(("127.0.0.1", 0))
    async with running(own.serve([sock])) as serving:
        await eventually(lambda: own.started)
        await app.setup(own)
        assert slow.log == ["setup"]
        url = f"https://127.0.0.1:{sock.getsockname()[1]}/slow/5"
        async with httpx2.AsyncClient(verify=trust, trust_env=False) as client:
            assert (await client.get(url)).json() == {"id": "5"}
        own.should_exit = True
        await serving
    await app.teardown()
    assert slow.log == ["setup", "teardown"]


async def test_uvicorn_itself_sets_up_and_tears_down_by_the_lifespan(app, slow):
    own = uvicorn.Server(uvicorn.Config(app, lifespan="on", ws="none", log_config=None))
    sock = socket.create_server(("127.0.0.1", 0))
    async with running(own.serve([sock])) as serving:
        await eventually(lambda: own.started)
        assert slow.log == ["setup"]
        async with httpx2.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{sock.getsockname()[1]}/slow/5"
            assert (await client.get(url)).json() == {"id": "5"}
        own.should_exit = True
        await serving
    assert slow.log == ["setup", "teardown"]


async def test_uvicorn_does_not_start_where_the_set_up_fails_and_logs_why(slow, caplog):
    async def fail(app, path):
        raise RuntimeError("no database")

    slow.setup = fail
    own = uvicorn.Server(
        uvicorn.Config(application(slow), lifespan="on", ws="none", log_config=None)
    )
    with contextlib.suppress(SystemExit):  # the lowest uvicorn returns
        await own.serve()
    assert not own.started
    assert "RuntimeError: no database" in caplog.text
    assert "Application startup failed" in caplog.text


async def test_any_asgi_application_can_be_served():
    async def answer(scope, receive, send):
        await JSONResponse(scope["path"])(scope, receive, send)

    async with await start_server(answer, 0, "127.0.0.1") as server, client_of(server) as client:
        assert (await client.get("/x")).json() == "/x"
