"""The endpoint: messages of both revisions, results, errors, sign-in, and the limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time

import jwt
import pytest
from pydantic import BaseModel
from tests.authentication.building import SECRET, add_authentication, add_user
from tests.express.asgi_client import call, post_json
from tests.express.serving import living
from tests.mcp.speaking import HOST, VERSIONS, call_tool, message_of, send
from tests.telemetry.recording import Recording

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate, protect
from alula.common_hooks import rate_limit
from alula.errors import BadRequest, Forbidden
from alula.express import access_log, api
from alula.hooks import annotate_hook
from alula.mcp import mcp
from alula.schema import hidden, resolve, resolve_external, with_schema
from alula.telemetry import telemetry
from mcp import Client


class Todo(BaseModel):
    id: int
    text: str
    secret: str = "canary-1"


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("canary-5")


class Troubled:
    """Fails in each way."""

    async def find(self, params):
        return ["x" * 50_000] * 2

    async def get(self, id, params):
        if id == "forbidden":
            raise Forbidden("not you", {"why": "canary"})
        if id == "odd":
            return object()
        if id == "odder":
            raise Forbidden("not you", object())
        if id == "oddest":
            raise Unspeakable
        raise RuntimeError("canary-2")

    async def wait(self, data, params):
        await asyncio.sleep(30)

    async def late(self, data, params):
        raise TimeoutError("canary-3")

    async def who(self, data, params):
        return [
            params.provider,
            params.ip,
            params.get("tenant"),
            params.headers["host"],
            params.route,
        ]


OF_TROUBLED = ["find", "get", "wait", "late", "who"]
TOOLS = {"todos": ["find", "get", "create", "patch"], "a/:b": OF_TROUBLED}


def make_app(**options):
    app = api()
    app.use("todos", with_schema(MemoryService(start_id=1), Todo))
    app.use("a/:b", Troubled(), methods=OF_TROUBLED)
    app.configure(mcp(TOOLS, hosts=[HOST, "127.0.0.1:*"], **options))
    return app


# -- the protocol ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_and_calls_tools(mode):
    app = make_app(name="Todos", instructions="Be kind.")
    async with await app.listen(0) as server, Client(f"{server.url}/mcp", mode=mode) as client:
        assert (client.server_info.name, client.instructions) == ("Todos", "Be kind.")
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed][:2] == ["todos_find", "todos_get"]
        made = await client.call_tool("todos_create", {"data": {"text": "Milk"}})
        assert not made.is_error
        (text,) = made.content
        assert json.loads(text.text) == {"id": 1, "text": "Milk", "secret": "canary-1"}
        missing = await client.call_tool("todos_get", {"id": 7})
        assert missing.is_error
        assert json.loads(missing.content[0].text)["code"] == 404


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_needs_no_handshake_so_any_worker_answers(version):
    one, two = make_app(), make_app()
    async with living(one), living(two):
        for app in (one, two, one, two):
            assert await call_tool(app, "todos_find", version=version) == (False, [])
        answer = await send(two, "tools/list", version=version)
        result = answer.json["result"]
        assert len(result["tools"]) == 9
        if version == VERSIONS[1]:
            assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")


async def test_an_older_revision_works_as_well():
    app = make_app()
    sent = {"protocolVersion": "2025-06-18", "capabilities": {}}
    sent["clientInfo"] = {"name": "Old", "version": "1"}
    async with living(app):
        assert await call_tool(app, "todos_find", version="2025-06-18") == (False, [])
        answer = await send(app, "initialize", sent, version="2025-06-18")
    assert answer.json["result"]["protocolVersion"] == "2025-06-18"
    assert not {"prompts", "resources"} & answer.json["result"]["capabilities"].keys()


async def test_spaces_around_a_header_are_not_part_of_it():
    app = make_app()
    async with living(app):
        spaced = {"mcp-name": " todos_find\t"}
        assert await call_tool(app, "todos_find", headers=spaced) == (False, [])
        answer = await send(app, "tools/call", {"name": "todos_find"}, headers={"mcp-name": "x"})
        assert answer.status == 400


async def test_what_is_no_message_is_refused():
    app = make_app()
    async with living(app):
        for verb in ("GET", "DELETE"):
            answer = await call(app, verb, "/mcp", headers={"host": HOST})
            assert (answer.status, answer.get("allow")) == (405, "POST")
        accept = {"accept": "application/json", "host": HOST}
        assert (await post_json(app, b"{", "/mcp", accept)).status == 400
        assert (await post_json(app, b"[" * 60_000, "/mcp", accept)).status == 400
        assert (await post_json(app, b" " * (1 << 20) + b"{}", "/mcp", accept)).status == 413
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        answer = await post_json(app, note, "/mcp", accept)
        assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "method", ["subscriptions/listen", "prompts/list", "resources/list", "nothing"]
)
async def test_what_is_not_offered_is_an_error_of_the_protocol(method, version):
    """For the first of them, the SDK waits for its client to leave."""
    app = make_app()
    params = {"notifications": {}} if method == "subscriptions/listen" else {"uri": "a:b"}
    async with living(app):
        answer = await send(app, method, params, version=version)
    assert answer.json["error"]["code"] == -32601


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_message_is_read_once_so_a_packed_one_or_another_charset_is_the_same(version):
    app = make_app()
    message, headers = message_of("tools/call", {"name": "todos_find"}, version)
    utf_16 = {**headers, "content-type": "application/json; charset=utf-16"}
    packed = {**headers, "content-encoding": "gzip"}
    text = json.dumps(message)
    async with living(app):
        plain = await call(app, "POST", "/mcp", text.encode(), headers)
        for body, sent in ((gzip.compress(text.encode()), packed), (text.encode("utf-16"), utf_16)):
            answer = await call(app, "POST", "/mcp", body, sent)
            assert (answer.status, answer.text) == (200, plain.text)


async def test_the_limit_of_bodies_is_that_of_the_application():
    app = make_app().set("body limit", "6mb")
    async with living(app):
        arguments = {"data": {"text": "x" * 5_000_000}}
        failed, error = await call_tool(app, "todos_create", arguments)
        assert (failed, error["code"]) == (True, 413)  # the result is as long
        assert len(await app.service("todos").find()) == 1


async def test_other_hosts_and_origins_are_refused():
    app = make_app(origins="https://pages.example")
    async with living(app):
        statuses = [
            (await send(app, "tools/list", headers=headers)).status
            for headers in (
                {"host": "evil.example"},
                {"origin": "https://evil.example"},
                {"origin": "https://pages.example"},
            )
        ]
    assert statuses == [421, 403, 200]


@pytest.mark.parametrize("name", ["host", "origin"])
async def test_a_second_host_or_origin_is_refused(name):
    """Which of them counts is a matter of opinion, between a proxy and a server for example."""
    app = make_app(origins=["https://pages.example"])
    message, headers = message_of("tools/list", {}, VERSIONS[1])
    pairs = [*headers.items(), ("origin", "https://pages.example"), (name, "evil.example")]
    async with living(app):
        answer = await call(app, "POST", "/mcp", json.dumps(message).encode(), pairs)
    assert (answer.status, answer.json["message"]) == (400, f"The header {name} is there twice")


@pytest.mark.parametrize("kind", ["text/plain", "application/jsonx", ""])
async def test_what_is_not_declared_as_json_is_refused(kind):
    """The SDK would read ``application/jsonx``, without the limits of the parser."""
    app = make_app()
    message, headers = message_of("tools/list", {}, VERSIONS[1])
    headers["content-type"] = kind
    async with living(app):
        answer = await call(app, "POST", "/mcp", json.dumps(message).encode(), headers)
        assert answer.status == 415
        assert (await call(app, "POST", "/mcp", headers=headers)).status == 415


# -- results and errors ----------------------------------------------------------------------------


async def test_a_call_is_that_of_a_client_with_what_middleware_has_set():
    app = api().use("a/:b", Troubled(), methods=["who"])

    def choose_tenant(req, res, next):
        req.framework.tenant = "north"
        req.framework.provider = None
        return next()

    app.use(choose_tenant).configure(mcp({"a/:b": ["who"]}, hosts=[HOST]))
    async with living(app):
        _, seen = await call_tool(app, "a_who", {"b": "x/y"})
    assert seen == ["mcp", "192.0.2.7", "north", HOST, {"b": "x/y"}]


@pytest.mark.parametrize("version", VERSIONS)
async def test_hidden_values_are_in_no_result(version):
    app = make_app()
    todos = app.service("todos")
    todos.hooks(after={"get": [protect("secret")]})
    todos.hooks(around={"find": [resolve_external(resolve({"secret": hidden}))]})

    def dispatch(context):
        context.dispatch = {"id": context.result["id"]}

    todos.hooks(after={"create": [dispatch]})
    async with living(app):
        made = await call_tool(app, "todos_create", {"data": {"text": "a"}}, version=version)
        found = await call_tool(app, "todos_find", version=version)
        one = await call_tool(app, "todos_get", {"id": 1}, version=version)
    assert made == (False, {"id": 1})
    assert one == (False, {"id": 1, "text": "a"})
    assert "canary" not in str([made, found, one])


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("nothing", {}, 404, "there is no tool 'nothing'"),
        ("todos_get", {"id": 9}, 404, "No record found"),
        ("todos_get", {}, 400, "missing: id"),
        ("todos_find", {"query": {"$limt": 1}}, 400, "validation failed"),
        ("a_get", {"b": "1", "id": "forbidden"}, 403, "not you"),
        ("a_get", {"b": "1", "id": "broken"}, 500, "The server failed; its log says why"),
        ("a_get", {"b": "1", "id": "odder"}, 403, "not you"),
        ("a_get", {"b": "1", "id": "odd"}, 500, "The server failed; its log says why"),
        ("a_get", {"b": "1", "id": "oddest"}, 500, "The server failed; its log says why"),
        ("a_late", {"b": "1"}, 500, "The server failed; its log says why"),
        ("a_wait", {"b": "1"}, 408, "longer than 0.05 seconds"),
        ("a_find", {"b": "1"}, 413, "$limit takes fewer records, $select"),
    ],
)
async def test_errors_are_results_that_models_can_read(name, arguments, code, message):
    # No other call has to be quick, however busy the machine is.
    app = make_app(**({"timeout": 0.05} if name == "a_wait" else {}))
    async with living(app):
        failed, error = await call_tool(app, name, arguments)
    assert failed
    assert error["code"] == code
    assert message in error["message"]
    assert error.keys() <= {"code", "message", "data"}
    if code == 500:
        assert "canary" not in str(error)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_text_of_a_failed_description_is_shown_to_nobody(version):
    app = make_app()

    def describe(method):
        raise RuntimeError("canary-4")

    async with living(app):
        hook = annotate_hook(lambda context: None, data=describe)
        app.service("todos").hooks(before=[hook])
        listed = await send(app, "tools/list", version=version)
    assert listed.status == 500
    assert listed.json["message"] == "The server failed; its log says why"


async def test_errors_are_bounded_too():
    app, long = make_app(), "x" * 200_000
    app.service("todos").hooks(error={"find": [explain_at_length]})
    async with living(app):
        unknown = await call_tool(app, "todos_get", {long: 1})
        missing = await call_tool(app, long, version=VERSIONS[0])
        explained = await call_tool(app, "todos_find", {"query": {"x": 1}})
    assert unknown[1]["message"].startswith("unknown argument 'xxx")
    assert missing[1]["message"].startswith("there is no tool 'xxx")
    assert explained[1] == {"code": 400, "message": "many mistakes"}
    assert max(len(str(each)) for each in (unknown, missing)) < 3_000


def explain_at_length(context):
    context.error = BadRequest("many mistakes", ["mistake"] * 20_000)


async def test_the_access_log_names_the_service_and_the_log_the_failure(caplog):
    caplog.set_level(logging.INFO, "alula")
    app = make_app().use(access_log())
    async with living(app):
        await call_tool(app, "a_get", {"b": "1", "id": "broken"})
    (line,) = [record for record in caplog.records if record.name == "alula.access"]
    assert (line.service, line.service_method, line.provider) == ("a/:b", "get", "mcp")
    assert "canary-2" in caplog.text


async def test_metrics_have_the_provider_and_the_method():
    recording = Recording()
    app = api(App().configure(telemetry(**recording.providers)))
    app.use("todos", MemoryService()).configure(mcp({"todos": ["find"]}, hosts=[HOST]))
    async with living(app):
        await call_tool(app, "todos_find")
    (point,) = recording.points("rpc.server.call.duration")
    recording.tracers.shutdown()
    recording.meters.shutdown()
    assert point.attributes["rpc.method"] == "todos/find"
    assert point.attributes["alula.provider"] == "mcp"


async def test_rate_limits_hold_for_agents():
    app = make_app()
    app.service("todos").hooks(before={"find": [rate_limit(2, window=60, by="address")]})
    async with living(app):
        found = [await call_tool(app, "todos_find") for _ in range(3)]
    assert [failed for failed, _ in found] == [False, False, True]
    assert found[2][1]["code"] == 429


# -- sign-in ---------------------------------------------------------------------------------------


@pytest.fixture
async def guarded():
    app = api().use("users", MemoryService(start_id=1))
    add_authentication(app)
    app.use("todos", MemoryService([{"id": 1}]))
    app.service("todos").hooks(before=[authenticate("jwt")])
    app.set("public url", "https://api.example.com/base/")
    issuer = "https://login.example.com"
    app.configure(mcp({"todos": ["find"]}, issuer=issuer, scopes=["todos"]))
    async with living(app):
        await add_user(app)
        yield app


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_without_valid_credentials_is_a_401_that_names_the_metadata(guarded, version):
    sign_in = {"strategy": "local", "email": "ada@example.com", "password": "right"}
    token = (await guarded.service("authentication").create(sign_in))["accessToken"]
    found = []
    for headers in ({}, {"authorization": "Bearer x.y.z"}):
        answer = await send(
            guarded, "tools/call", {"name": "todos_find"}, version=version, headers=headers
        )
        found.append(answer.status)
        assert answer.json["name"] == "NotAuthenticated"
        url = answer.get("www-authenticate").removeprefix('Bearer resource_metadata="').rstrip('"')
        assert url == "https://api.example.com/base/.well-known/oauth-protected-resource/mcp"
        metadata = (await call(guarded, url=url.removeprefix("https://api.example.com/base"))).json
    assert found == [401, 401]
    assert metadata == {
        "resource": "https://api.example.com/base/mcp",
        "authorization_servers": ["https://login.example.com"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["todos"],
    }
    right = {"authorization": f"Bearer {token}"}
    assert await call_tool(guarded, "todos_find", version=version, headers=right) == (
        False,
        [{"id": 1}],
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_token_for_another_audience_is_a_401(guarded, version):
    user = (await guarded.service("users").find())[0]
    claims = {"sub": str(user["id"]), "iss": "feathers", "aud": "https://other.example/mcp"}
    claims |= {"iat": time.time(), "exp": time.time() + 60}
    token = jwt.encode(claims, SECRET, headers={"typ": "access"})
    headers = {"authorization": f"Bearer {token}"}
    answer = await send(
        guarded, "tools/call", {"name": "todos_find"}, version=version, headers=headers
    )
    assert answer.status == 401
    assert "audience" in str(answer.json["data"]) + answer.json["message"]


async def test_without_an_issuer_the_challenge_says_bearer_alone():
    app = make_app().use("users", MemoryService())
    add_authentication(app)
    app.service("todos").hooks(before=[authenticate("jwt")])
    async with living(app):
        answer = await send(app, "tools/call", {"name": "todos_find"})
        assert (answer.status, answer.get("www-authenticate")) == (401, "Bearer")
        assert (await call(app, url="/.well-known/oauth-protected-resource/mcp")).status == 404


# -- start and stop --------------------------------------------------------------------------------


async def test_an_application_takes_requests_while_it_is_set_up():
    app = make_app()
    for _ in range(2):
        assert (await send(app, "tools/list")).status == 500
        await app.setup()
        assert (await send(app, "tools/list")).status == 200
        await app.teardown()
