"""Runs cases for live lists against the lists themselves, without a transport."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from tests.conformance.live.application import Stores, View, application, shown
from tests.realtime.asgi_peer import Peer
from tests.realtime.test_sse import Stream

from alula._connection import Connection
from alula._context import HookContext, Params
from alula._live import LiveList, live_lists_of
from alula.adapters.mongodb import transaction as transaction_of_mongodb
from alula.adapters.sql import SQLService
from alula.errors import FrameworkError
from alula.express import express, rest
from alula.express import json as json_parser
from alula.realtime import socketio, sse


class Link:
    queued = 0

    def deliver(self, message: Any) -> None: ...
    async def close(self, reason: str = "", *, reconnect: bool = True) -> None: ...


class Runner:
    """One case on one store."""

    def __init__(self, case: dict[str, Any], stores: Stores) -> None:
        self.case = case
        self.stores = stores
        self.views: dict[str, View] = {name: View() for name in case["lists"]}
        self.open_lists: dict[str, LiveList] = {}
        self.connections: dict[str, Connection] = {}
        self.slow: dict[str, bool] = {}
        self.holding: asyncio.Event | None = None
        self.failures: list[str] = []
        self.seen = {}

    async def run(self) -> list[str]:
        async with application(self.case, self.stores, self.configure) as app:
            self.app = getattr(app, "app", app)
            try:
                for number, step in enumerate(self.case["steps"]):
                    for view in self.views.values():
                        view.messages.clear()
                        view.has_snapshot = False
                    async with asyncio.timeout(30):
                        await self.take(step)
                        await self.rest()
                    self.check(number, step)
            finally:
                self.lists.stop()
            for name, texts in self.case.get("never", {}).items():
                told = "".join(self.views[name].texts)
                self.failures += [f"{name} was told {text!r}" for text in texts if text in told]
        return self.failures

    def configure(self, app: Any) -> Any:
        self.lists = live_lists_of(app)
        return app

    async def close(self, name: str) -> None:
        self.lists.close(self.open_lists.pop(name))

    async def lose(self, names: list[str]) -> None:
        """Break the connections of lists."""
        for name in names:
            await self.close(name)

    def stop_reading(self, name: str) -> None:
        self.slow[name] = True

    def read_again(self, name: str) -> None:
        self.slow[name] = False
        self.lists.catch_up(self.open_lists[name])

    async def rest(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for connection in self.connections.values():
            await self.lists.settled(connection)
        await asyncio.sleep(0)

    def connection_of(self, caller: str | None) -> Connection:
        name = caller or ""
        if name not in self.connections:
            spec = self.case["callers"].get(caller) if caller else None
            attributes = {} if spec is None or spec.get("user") is None else {"user": spec["user"]}
            self.connections[name] = Connection(
                Link(), provider="sse", headers={}, ip=None, **attributes
            )
        return self.connections[name]

    async def open(self, name: str) -> None:
        spec, view = self.case["lists"][name], self.views[name]
        view.error = view.closed = None
        handle = self.app.service(spec["service"])

        def deliver(messages: Any) -> None:
            if self.slow.get(name):
                return
            for message in messages:
                view.take(message.kind, message.body)

        opening = LiveList(handle, self.connection_of(spec["caller"]), {}, spec["query"], deliver)
        try:
            await self.lists.open(opening)
        except FrameworkError as error:
            view.error = error.code
        else:
            self.open_lists[name] = opening

    async def call(self, call: dict[str, Any]) -> None:
        with suppress(FrameworkError):
            handle = self.app.service(call["service"])
            method = call["method"]
            options = {"query": call["query"]} if "query" in call else {}
            if method == "create":
                await handle.create(call["data"], **options)
            elif method == "remove":
                await handle.remove(call["id"], **options)
            else:
                await handle.call(method, call["id"], call["data"], **options)

    async def outside(self, call: dict[str, Any]) -> None:
        """Write past the service."""
        service = self.app.service(call["service"]).service
        with suppress(FrameworkError):
            method, query = call["method"], {"query": call.get("query", {})}
            if method == "create":
                await service.create(call["data"], query)
            elif method == "remove":
                await service.remove(call["id"], query)
            else:
                await getattr(service, method)(call["id"], call["data"], query)

    async def take(self, step: dict[str, Any]) -> None:  # noqa: C901  # a branch for each word
        if "open" in step and "together" not in step and "held" not in step:
            for name in step["open"]:
                await self.open(name)
        for name in step.get("close", ()):
            await self.close(name)
        if "call" in step:
            await self.call(step["call"])
        if "together" in step:
            parts = step["together"]
            calls = parts["calls"] if isinstance(parts, dict) else parts
            for name in step.get("stop_reading", ()):
                self.stop_reading(name)
            await asyncio.gather(
                *(self.call(each) for each in calls), *(self.open(n) for n in step.get("open", ()))
            )
        if "transaction" in step:
            await self.transaction(step["transaction"], step["ends"])
        if "outside" in step:
            outside = step["outside"]
            for each in outside if isinstance(outside, list) else [outside]:
                await self.outside(each)
        if "touch" in step:
            touch = step["touch"]
            self.app.service(touch["service"]).touch(touch.get("ids"))
        if "gap" in step:
            self.app.channel_registry.report_gap()
        if "sign_out" in step:
            self.sign_out(step["sign_out"])
        if "break" in step:
            await self.lose(step["break"])
            for each in step.get("while_away", ()):
                await self.call(each)
            for name in step["reopen"]:
                await self.open(name)
        if "held" in step:
            await self.held(step["held"])
        if "read_again" in step:
            await self.rest()
            for name in step["read_again"]:
                self.read_again(name)

    def sign_out(self, caller: str) -> None:
        connection = self.connection_of(caller)
        connection.__dict__.pop("user", None)
        self.lists.change_caller(connection)

    async def transaction(self, calls: list[dict[str, Any]], ends: str) -> None:
        async def run_all(**options: Any) -> None:
            for call in calls:
                handle = self.app.service(call["service"])
                params = {"query": call.get("query", {}), **options}
                args = [call["data"]] if "data" in call else []
                id_ = [] if call["method"] == "create" else [call["id"]]
                await getattr(handle, call["method"])(*id_, *args, params)
            if ends == "rollback":
                raise ZeroDivisionError

        service = self.app.service(calls[0]["service"]).service
        with suppress(ZeroDivisionError):
            if isinstance(service, SQLService):
                async with service.database.transaction() as transaction:
                    await run_all(sql={"connection": transaction})
                return
            model = await service.get_model()
            context = HookContext(
                self.app, self.app.service(calls[0]["service"]), "create", Params()
            )
            around = transaction_of_mongodb(model.database.client)
            await around(context, lambda: run_all(docdb=context.params.docdb))

    async def held(self, held: dict[str, Any]) -> None:
        """Hold the next read between the store and the list, while others write."""
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def hold(context: HookContext) -> None:
            if context.params.get("live") and not reached.is_set():
                reached.set()
                await go_on.wait()

        service = self.app.service("todos")
        service.hooks(after={"find": [hold]})
        first = asyncio.ensure_future(self.begin(held))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await reached.wait()
        for each in held.get("then", ()):
            await self.call(each)
        if held.get("sign_out"):
            self.sign_out(held["sign_out"])
        await asyncio.sleep(0.01)
        reached.set()
        go_on.set()
        await first

    async def begin(self, held: dict[str, Any]) -> None:
        for name in held.get("open", ()):
            await self.open(name)
        if "first" in held:
            await self.call(held["first"])

    def check(self, number: int, step: dict[str, Any]) -> None:  # noqa: C901  # as above
        is_merged = bool({"together", "while_away", "held"} & step.keys())
        for name, expected in step.get("expect", {}).items():
            view = self.views[name]

            def fail(text: str, name: str = name) -> None:
                self.failures.append(f"step {number}, list {name}: {text}")

            if "error" in expected:
                if view.error != expected["error"]["code"]:
                    fail(f"opening gave {view.error}, not {expected['error']}")
                continue
            if view.error is not None:
                fail(f"opening failed with {view.error}")
            if "closed" in expected and view.closed != expected["closed"]["code"]:
                fail(f"closed with {view.closed}, not {expected['closed']}")
            if "list" in expected:
                have, want = [*map(shown, view.rows)], [*map(shown, expected["list"])]
                if have != want:
                    fail(f"shows {have}, not {want}")
            if expected.get("snapshot") and not view.has_snapshot:
                fail("got no snapshot")
            if "required" not in expected:
                continue
            told = [each for each in view.messages if each[0] != "snapshot"]
            has_reset = ("reset", None) in told
            if has_reset and expected.get("reset") == "may":
                continue
            required = [(each["kind"], each["id"]) for each in expected["required"]]
            allowed = [*required, *((e["kind"], e["id"]) for e in expected.get("allowed", ()))]
            if not is_merged:
                for each in required:
                    if each not in told:
                        fail(f"was not told {each}, only {told}")
            for each in told:
                if each not in allowed:
                    fail(f"was told {each}, which is not expected")


class StreamRunner(Runner):
    """The same over event streams."""

    def sign_out(self, caller: str) -> None:
        self.signed_out.add(caller)
        for connection in [*self.lists._lists_of]:
            if connection.headers.get("x-caller") == caller:
                connection.__dict__.pop("user", None)
                self.lists.change_caller(connection)

    def configure(self, app: Any) -> Any:
        web = express(app).use(json_parser())
        # The values of cases are typed; text is what the area of query strings is about.
        web.set("query parser", lambda text: json.loads(unquote(text)) if text else {})

        async def sign_in(req: Any, res: Any, next: Any) -> None:
            caller = req.headers.get("x-caller")
            spec = self.case["callers"].get(caller) or {}
            if spec.get("user") is not None and caller not in self.signed_out:
                req.framework.user = spec["user"]
            await next()

        web.use(sign_in).configure(rest()).configure(sse())
        self.web = web
        self.lists = app.settings["live lists"]
        self.streams: dict[str, Stream] = {}
        self.signed_out: set[str] = set()
        return web

    async def run(self) -> list[str]:
        try:
            return await super().run()
        finally:
            for stream in self.streams.values():
                await stream.leave()

    async def rest(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for connection in [*self.lists._lists_of]:
            await self.lists.settled(connection)
        for _ in range(20):
            await asyncio.sleep(0)
        for name in self.streams:
            self.read(name)

    def read(self, name: str) -> None:
        stream, view = self.streams[name], self.views[name]
        blocks = stream.blocks
        for kind, body, _ in blocks[self.seen[name] :]:
            if kind == "unchanged":
                view.has_snapshot = True
            elif kind != "expired":
                view.take(kind, body)
        self.seen[name] = len(blocks)

    async def open(self, name: str) -> None:
        spec, view = self.case["lists"][name], self.views[name]
        view.error = view.closed = None
        text = quote(json.dumps({**spec["query"], "$live": True}))
        old = self.streams.pop(name, None)
        headers = [("x-caller", spec["caller"] or "")]
        stream = Stream(
            self.web,
            f"/{spec['service']}?{text}",
            headers=headers,
            last=old and old.last_id,
            reads=True,
        )
        await stream.until(lambda: stream.blocks or stream.ended)
        if stream.status != 200:
            view.error = stream.status
            await stream.leave()
        else:
            self.streams[name] = stream
            self.seen[name] = 0

    seen: dict[str, int]

    def stop_reading(self, name: str) -> None:
        self.streams[name].reading.clear()

    def read_again(self, name: str) -> None:
        self.streams[name].reading.set()

    async def close(self, name: str) -> None:
        await self.streams[name].leave()


class Socket:
    """The connection of a caller over socket.io, which reads on its own."""

    def __init__(self, web: Any, caller: str) -> None:
        self.peer = Peer(web, headers={"x-caller": caller})
        self.views: dict[str, View] = {}
        self.have: dict[str, str] = {}
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.calls = 0

    async def join(self) -> Socket:
        await self.peer.join()
        self.reading = asyncio.ensure_future(self.read())
        return self

    async def read(self) -> None:
        while True:
            head, body = await self.peer.next()
            if head.startswith("43"):
                self.answers.pop(head).set_result(body)
            elif head == "42" and body[0].endswith(" live"):
                message = dict(body[1])
                name, kind = message.pop("list"), message.pop("kind")
                self.have[name] = message.pop("have", self.have[name])
                self.views[name].take(kind, message)

    async def call(self, *arguments: Any) -> Any:
        self.calls += 1
        answer = self.answers[f"43{self.calls}"] = asyncio.get_running_loop().create_future()
        self.peer.send(f"42{self.calls}{json.dumps(arguments)}")
        return await answer

    async def leave(self) -> None:
        self.reading.cancel()
        await self.peer.leave()


class SocketRunner(Runner):
    """The same over socket.io."""

    def configure(self, app: Any) -> Any:
        transport = socketio()

        @transport.use
        async def sign_in(connection: Any, handshake: Any, next: Any) -> None:
            spec = self.case["callers"].get(handshake.headers.get("x-caller")) or {}
            if spec.get("user") is not None:
                connection.user = spec["user"]
            await next()

        self.web = express(app).use(json_parser()).configure(rest()).configure(transport)
        self.lists = app.settings["live lists"]
        self.sockets: dict[str, Socket] = {}
        self.have: dict[str, str] = {}
        return self.web

    async def run(self) -> list[str]:
        try:
            return await super().run()
        finally:
            for socket in self.sockets.values():
                await socket.leave()

    async def rest(self) -> None:
        for _ in range(2):
            for _ in range(20):
                await asyncio.sleep(0)
            for connection in [*self.lists._lists_of]:
                await self.lists.settled(connection)
        for socket in self.sockets.values():
            while not socket.peer.from_server.empty():  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)

    async def open(self, name: str) -> None:
        spec, view = self.case["lists"][name], self.views[name]
        view.error = view.closed = None
        caller = spec["caller"] or ""
        socket = self.sockets.get(caller)
        if socket is None:
            socket = self.sockets[caller] = Socket(self.web, caller)
            await socket.join()
        socket.views[name] = view
        shown = {"have": self.have[name]} if name in self.have else {}
        answer = await socket.call("live", spec["service"], {"list": name, **shown}, spec["query"])
        if answer[0] is not None:
            view.error = answer[0]["code"]
            return
        socket.have[name] = answer[1].pop("have")
        if answer[1].pop("unchanged", False):
            view.has_snapshot = True
        else:
            view.take("snapshot", answer[1])

    def socket_of(self, name: str) -> Socket:
        return self.sockets[self.case["lists"][name]["caller"] or ""]

    async def close(self, name: str) -> None:
        service = self.case["lists"][name]["service"]
        await self.socket_of(name).call("unlive", service, {"list": name}, {})

    async def lose(self, names: list[str]) -> None:
        for caller in {self.case["lists"][name]["caller"] or "" for name in names}:
            socket = self.sockets.pop(caller)
            self.have |= socket.have
            await socket.leave()

    def stop_reading(self, name: str) -> None:
        self.socket_of(name).peer.reads.clear()

    def read_again(self, name: str) -> None:
        self.socket_of(name).peer.reads.set()

    def sign_out(self, caller: str) -> None:
        for connection in [*self.lists._lists_of]:
            if connection.headers.get("x-caller") == caller:
                connection.__dict__.pop("user", None)
                connection.changed()


RUNNERS = {"lists": Runner, "sse": StreamRunner, "socketio": SocketRunner}


async def run_case(case: dict[str, Any], kind: str, url: str, transport: str) -> list[str]:
    return await RUNNERS[transport](case, Stores(kind, url)).run()
