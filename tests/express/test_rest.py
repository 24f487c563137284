"""The REST transport: which call a request makes, with what, and how the result goes out."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call, post_json

from alula import App, HookContext
from alula.adapters.memory import MemoryService
from alula.errors import Conflict, Forbidden, MethodNotAllowed, NotAcceptable
from alula.express import cors, error_handler, express, json, not_found, rest, urlencoded

JSON = {"content-type": "application/json"}
FORMATTED = "application/json; charset=utf-8"
VERBS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def told(method, id, data, params):
    return {
        "method": method,
        "id": id,
        "data": data,
        "query": params.query,
        "provider": params.provider,
        "route": params.route,
    }


class Full:
    async def find(self, params):
        return told("find", None, None, params)

    async def get(self, id, params):
        return told("get", id, None, params)

    async def create(self, data, params):
        return told("create", None, data, params)

    async def update(self, id, data, params):
        return told("update", id, data, params)

    async def patch(self, id, data, params):
        return told("patch", id, data, params)

    async def remove(self, id, params):
        return told("remove", id, None, params)

    async def archive(self, data, params):
        return told("archive", None, data, params)

    async def hidden(self, data, params):
        raise AssertionError


class ReadOnly:
    def find(self, params):
        return []


@pytest.fixture
def app():
    app = express(App())
    app.use(json(), urlencoded())
    app.configure(rest())
    app.use(
        "full", Full(), methods=["find", "get", "create", "update", "patch", "remove", "archive"]
    )
    app.use("users/:user/posts", Full())
    app.use("read", ReadOnly())
    app.use("closed", Full(), methods=[])
    app.use("custom", Full(), methods=["archive"])
    app.use(not_found())
    app.use(error_handler(logger=False))
    return app


# -- verbs and methods -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "url", "method", "id", "status"),
    [
        ("GET", "/full", "find", None, 200),
        ("GET", "/full/", "find", None, 200),
        ("GET", "/full/5", "get", "5", 200),
        ("GET", "/full/5/", "get", "5", 200),
        ("POST", "/full", "create", None, 201),
        ("POST", "/full/5", "create", None, 201),
        ("PUT", "/full", "update", None, 200),
        ("PUT", "/full/5", "update", "5", 200),
        ("PATCH", "/full", "patch", None, 200),
        ("PATCH", "/full/5", "patch", "5", 200),
        ("DELETE", "/full", "remove", None, 200),
        ("DELETE", "/full/a%2Fb%20c", "remove", "a/b c", 200),
    ],
)
async def test_verb_and_path_name_the_method(app, verb, url, method, id, status):
    body = b'{"a": 1}' if verb in {"POST", "PUT", "PATCH"} else None
    answer = await call(app, verb, f"{url}?x=1", body, JSON)
    assert answer.status == status
    assert answer.json == {
        "method": method,
        "id": id,
        "data": {"a": 1} if body else None,
        "query": {"x": "1"},
        "provider": "rest",
        "route": {},
    }


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("path", "collection", "member"),
    [
        ("full", "GET, HEAD, POST, PUT, PATCH, DELETE", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("read", "GET, HEAD", ""),
        ("custom", "POST", "POST"),
        ("closed", "", ""),
    ],
)
async def test_an_unknown_method_is_a_405_with_allow(app, verb, path, collection, member):
    for url, allowed in ((f"/{path}", collection), (f"/{path}/5", member)):
        answer = await call(app, verb, url)
        if verb in allowed.split(", ") and path != "custom":
            assert answer.status in {200, 201}
        else:
            assert answer.status == 405, (verb, url)
            assert answer.get("allow") == allowed
        if answer.status == 405 and verb != "HEAD":
            assert answer.json["className"] == "method-not-allowed"


async def test_head_answers_like_get_without_the_body(app):
    for url in ("/full?a=1", "/full/5"):
        head, get = await call(app, "HEAD", url), await call(app, "GET", url)
        assert head.status == get.status == 200
        assert head.headers == get.headers
        assert head.body == b""


async def test_options_is_answered_by_cors_where_it_is_used(app):
    with_cors = express(App())
    with_cors.use(cors())
    with_cors.configure(rest())
    with_cors.use("full", Full())
    headers = {"origin": "http://a.example", "access-control-request-method": "PATCH"}
    assert (await call(with_cors, "OPTIONS", "/full/5", headers=headers)).status == 204
    assert (await call(app, "OPTIONS", "/full/5", headers=headers)).status == 405


async def test_a_path_that_names_no_service_goes_on(app):
    for url in ("/", "/nothing", "/full/5/more", "/Full", "//full/5/6"):
        assert (await call(app, url=url)).json["className"] == "not-found", url


# -- custom methods --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x-service-method", "X-Service-Method", "X-SERVICE-METHOD"])
async def test_a_header_names_a_custom_method(app, name):
    answer = await post_json(app, {"a": 1}, "/full", {name: "archive"})
    assert answer.status == 200
    assert answer.json == {
        "method": "archive",
        "id": None,
        "data": {"a": 1},
        "query": {},
        "provider": "rest",
        "route": {},
    }


async def test_a_custom_method_ignores_the_id(app):
    answer = await post_json(app, {}, "/full/5", {"x-service-method": "archive"})
    assert (answer.json["method"], answer.json["id"]) == ("archive", None)


async def test_a_custom_method_has_an_address(app):
    answer = await post_json(app, {"a": 1}, "/full/archive")
    assert (answer.status, answer.json["method"], answer.json["id"]) == (200, "archive", None)
    answer = await post_json(app, {}, "/users/7/posts/archive", {"x-service-method": ""})
    assert (answer.status, answer.json["method"]) == (201, "create")  # it is not listed there


@pytest.mark.parametrize("name", ["hidden", "find", "remove", "setup", "5"])
async def test_any_other_last_segment_is_ignored(app, name):
    answer = await post_json(app, {}, f"/full/{name}")
    assert (answer.status, answer.json["method"], answer.json["id"]) == (201, "create", None)


async def test_a_service_at_the_address_of_a_custom_method_wins(app):
    app.use("full/archive", ReadOnly(), methods=["find"])
    assert (await post_json(app, {}, "/full/archive")).status == 405


async def test_a_custom_method_without_a_body_gets_an_empty_object(app):
    answer = await call(app, "POST", "/full", headers={"x-service-method": "archive"})
    assert answer.json["data"] == {}


@pytest.mark.parametrize(
    "name",
    ["hidden", "find", "get", "create", "update", "patch", "remove", "ARCHIVE",
     "__init__", "setup", "service", "nothing", "archive, archive"],
)  # fmt: skip
async def test_what_is_not_listed_cannot_be_named(app, name):
    answer = await post_json(app, {}, "/full", {"x-service-method": name})
    assert answer.status == 405
    assert answer.json["message"] == f"Method `{name}` is not supported by this endpoint."


async def test_an_empty_header_names_nothing(app):
    assert (await post_json(app, {}, "/full", {"x-service-method": ""})).json["method"] == "create"


@pytest.mark.parametrize(
    ("verb", "method"), [("GET", "find"), ("PUT", "update"), ("PATCH", "patch")]
)
async def test_the_header_counts_for_post_alone(app, verb, method):
    answer = await call(app, verb, "/full", headers={"x-service-method": "archive"})
    assert answer.json["method"] == method


# -- params ----------------------------------------------------------------------------------------


async def test_of_params_only_the_query_comes_from_the_client():
    seen = []

    class Service:
        async def create(self, data, params):
            seen.append(params)
            return {}

    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("service", Service())
    names = ["provider", "route", "paginate", "user", "adapter", "pipeline", "docdb", "collation",
             "authentication", "query", "headers", "ip", "x-forwarded-for"]  # fmt: skip
    query = "&".join(f"{name}=evil&params[{name}]=evil&{name}[a]=evil" for name in names)
    evil = dict.fromkeys(names, "evil")
    await post_json(app, evil, f"/service?{query}", headers=evil)
    (params,) = seen
    assert params.provider == "rest"
    assert params.route == {}
    assert params.headers["provider"] == "evil"
    for name in ("paginate", "user", "adapter", "pipeline", "docdb", "collation", "authentication"):
        assert getattr(params, name) is None
    assert set(params) == {"query", "provider", "headers", "route", "ip"}
    assert params.ip == "192.0.2.7"  # that of the connection


async def test_placeholders_of_the_path_arrive_decoded(app):
    answer = await call(app, url="/users/ann%20b/posts/7?a=1")
    assert answer.json["route"] == {"user": "ann b"}
    assert answer.json["id"] == "7"
    assert (await call(app, url="/users/ann/posts")).json["method"] == "find"


async def test_headers_are_looked_up_in_any_case():
    class Service:
        async def find(self, params):
            return [params.headers["x-one"], params.headers["X-One"], "x-two" in params.headers]

    app = express(App())
    app.configure(rest())
    app.use("service", Service())
    assert (await call(app, url="/service", headers={"X-One": "1"})).json == ["1", "1", False]


async def test_hooks_may_change_the_query_without_changing_the_request():
    async def change(context):
        context.params.query["added"] = "by a hook"

    app = express(App())
    app.use(stamp := _keep_request())
    app.configure(rest())
    app.use("full", Full())
    app.service("full").hooks(before=[change])
    answer = await call(app, url="/full?a=1")
    assert answer.json["query"] == {"a": "1", "added": "by a hook"}
    assert stamp.request.query == {"a": "1"}


class _keep_request:  # noqa: N801  # used like a function that makes middleware
    async def __call__(self, req, res, next):
        self.request = req
        await next()


async def test_a_body_parser_sees_the_headers_that_middleware_sets():
    def as_json(req, res, next):
        req.headers["Content-Type"] = "application/json"
        return next()

    app = express(App()).use(as_json, json()).configure(rest())
    app.use("full", Full())
    answer = await call(app, "POST", "/full", b'{"a": 1}', {"content-type": "text/plain"})
    assert (answer.status, answer.json["data"]) == (201, {"a": 1})


async def test_params_in_a_mapping_are_a_result():
    class Spread:
        async def get(self, id, params):
            return {"id": id, **params}

    async def add(req, res, next):
        req.framework.tenant = "acme"
        req.framework.authenticated_by = object()
        await next()

    app = express(App()).use(add).configure(rest())
    app.use("spread", Spread())
    answer = await call(app, url="/spread/5?a=1", headers={"x-one": "1"})
    assert answer.json == {
        "id": "5",
        "query": {"a": "1"},
        "provider": "rest",
        "headers": {"x-one": "1"},
        "route": {},
        "ip": "192.0.2.7",
        "tenant": "acme",
    }


async def test_the_context_of_a_call_knows_the_application_of_the_service(app):
    seen = []

    async def note(context: HookContext):
        seen.append((context.app, context.path, context.method, context.id))

    app.hooks(before=[note])
    await call(app, url="/full/5")
    await app.service("full").get("5")
    assert seen == [(app, "full", "get", "5")] * 2


# -- bodies ----------------------------------------------------------------------------------------


async def test_forms_are_data_too(app):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await call(app, "POST", "/full", b"a=1&b[]=2", headers)).json["data"] == {
        "a": "1",
        "b": ["2"],
    }


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH"])
async def test_a_body_that_no_parser_takes_is_a_415_where_a_method_would_receive_it(app, verb):
    answer = await call(app, verb, "/full/5", b"<a/>", {"content-type": "text/xml"})
    assert answer.status == 415
    assert "text/xml; send application/json" in answer.json["message"]
    assert (await call(app, verb, "/full/5", b"<a/>")).status == 415
    assert (await call(app, verb, "/full/5", b"", {"content-type": "text/xml"})).status in {
        200,
        201,
    }
    assert (await call(app, verb, "/full/5", [b"", b""], {"content-type": "a/b"})).json[
        "data"
    ] == {}


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_a_body_that_nobody_would_receive_is_no_matter(app, verb):
    answer = await call(app, verb, "/full/5", b"<a/>", {"content-type": "text/xml"})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("headers", "allowed"), [(None, "POST"), ({"Allow": "GET, PUT"}, "GET, PUT")]
)
async def test_a_service_that_refuses_a_method_may_tell_what_it_allows(headers, allowed):
    class Refusing:
        def create(self, data, params):
            error = MethodNotAllowed("not now")
            error.headers = headers
            raise error

    app = express(App()).use(json()).configure(rest())
    app.use("refusing", Refusing()).use(error_handler())
    answer = await post_json(app, {}, "/refusing")
    assert (answer.status, answer.get("allow")) == (405, allowed)


async def test_an_unknown_method_is_refused_before_the_body_is_read(app):
    answer = await call(app, "POST", "/read", b"<a/>", {"content-type": "text/xml"})
    assert answer.status == 405


async def test_a_missing_parser_is_named():
    app = express(App())
    app.configure(rest())
    app.use("full", Full())
    answer = await post_json(app, {"a": 1}, "/full")
    assert answer.status == 415
    assert answer.json["message"].endswith("application/json; register json() before rest()")


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "status", "body"),
    [
        (None, 204, b""),
        (False, 204, b""),
        (0, 204, b""),
        ("", 204, b""),
        ([], 200, b"[]"),
        ({}, 200, b"{}"),
        (True, 200, b"true"),
        (7, 200, b"7"),
        ("text", 200, b'"text"'),
    ],
)
async def test_empty_results_have_no_body(result, status, body):
    class Service:
        async def find(self, params):
            return result

    app = express(App())
    app.configure(rest())
    app.use("service", Service())
    answer = await call(app, url="/service")
    assert (answer.status, answer.body) == (status, body)
    assert answer.vary == {"Accept"}


@pytest.mark.parametrize("with_formatter", [False, True])
@pytest.mark.parametrize(("result", "body"), [(None, b""), ({"a": 1}, b'{"a":1}')])
async def test_a_redirect_without_a_result_has_no_body(result, body, with_formatter):
    class Service:
        async def find(self, params):
            return result

    async def redirect(context):
        context.http = {"location": "/next"}

    app = express(App())
    app.configure(rest(lambda req, res: res.json(res.data)) if with_formatter else rest())
    app.use("service", Service())
    app.service("service").hooks(after=[redirect])
    answer = await call(app, url="/service")
    assert (answer.status, answer.get("location"), answer.body) == (303, "/next", body)
    assert answer.vary == {"Accept"}


@pytest.mark.parametrize(
    ("http", "status", "headers"),
    [
        ({"status": 202}, 202, {}),
        ({"headers": {"X-Custom": "yes", "X-Total": 3}}, 201, {"x-custom": "yes", "x-total": "3"}),
        ({"headers": {"Set-Cookie": ["a=1", "b=2"]}}, 201, {}),
        ({"location": "/full/ü"}, 303, {"location": "/full/%C3%BC"}),
        ({"status": 301, "location": "/x"}, 301, {"location": "/x"}),
        ({"headers": {"Content-Type": "text/plain"}}, 201, {"content-type": FORMATTED}),
    ],
)  # fmt: skip
async def test_a_hook_decides_status_and_headers(app, http, status, headers):
    async def decide(context):
        context.http = http

    app.service("full").hooks(after=[decide])
    answer = await post_json(app, {}, "/full")
    assert answer.status == status
    assert {name: answer.get(name) for name in headers} == headers
    if "Set-Cookie" in http.get("headers", {}):
        assert answer.all("set-cookie") == ["a=1", "b=2"]


async def test_what_a_hook_decided_is_lost_where_the_call_fails(app):
    async def decide(context):
        context.http = {"status": 202, "headers": {"x-custom": "lost"}}
        raise Conflict("after hook failed")

    app.service("full").hooks(after=[decide])
    answer = await call(app, url="/full")
    assert (answer.status, answer.get("x-custom")) == (409, None)


async def test_dispatch_goes_out_in_place_of_the_result(app):
    async def hide(context):
        context.dispatch = {"safe": True}

    app.service("full").hooks(after=[hide])
    assert (await call(app, url="/full")).json == {"safe": True}


async def test_a_result_without_a_json_form_is_a_500_without_details(app):
    async def spoil(context):
        context.result = {"value": object()}

    app.service("full").hooks(after=[spoil])
    answer = await call(app, url="/full")
    assert answer.status == 500
    assert "object" not in answer.text


# -- formatters ------------------------------------------------------------------------------------


def formatted(formatter):
    app = express(App())
    app.use(json())
    app.configure(rest(formatter))
    app.use("full", Full())
    app.use(error_handler(logger=False))
    return app


async def test_a_plain_formatter_answers_res_data():
    app = formatted(lambda req, res: res.json({"wrapped": res.data["method"]}))
    assert (await call(app, url="/full")).json == {"wrapped": "find"}
    created = await post_json(app, {}, "/full")
    assert (created.status, created.json) == (201, {"wrapped": "create"})


async def test_a_formatter_may_be_asynchronous():
    async def formatter(req, res):
        res.send(f"{req.method} {res.data['method']} {res.hook.path}")

    assert (await call(formatted(formatter), url="/full")).text == "GET find full"


def negotiating(req, res):
    async def as_text():
        res.send(f"text {res.data['method']}")

    return res.format({"json": lambda: res.json([res.data["method"]]), "text": as_text})


@pytest.mark.parametrize(
    ("accept", "text"),
    [("application/json", '["find"]'), ("text/plain", "text find"), (None, '["find"]')],
)
async def test_a_formatter_negotiates(accept, text):
    headers = {"accept": accept} if accept else {}
    answer = await call(formatted(negotiating), url="/full", headers=headers)
    assert answer.text == text
    assert answer.vary == {"Accept"}


async def test_a_formatter_that_has_nothing_acceptable_is_a_406():
    app = formatted(negotiating)
    answer = await call(app, url="/full", headers={"accept": "image/png"})
    assert answer.status == NotAcceptable.code


async def test_a_formatter_without_a_response_is_an_error_with_advice():
    logged = []

    def forgetful(req, res):
        pass

    app = express(App())
    app.configure(rest(forgetful))
    app.use("full", Full())
    app.use(error_handler(logger=logged.append))
    assert (await call(app, url="/full")).status == 500
    assert "forgetful sent nothing for <Request GET /full>; call res.json" in str(logged[0])


@pytest.mark.parametrize("is_surrounded", [False, True])
async def test_a_representation_without_a_response_is_an_error_with_advice(is_surrounded):
    logged = []

    def pass_on(req, res, next):
        return next()

    async def forgetful(handle, route, req, res):
        pass

    app = express(App())
    app.configure(rest())
    app.add_representation("text/csv", forgetful)
    app.use("full", *([pass_on] if is_surrounded else []), Full())
    app.use(not_found(), error_handler(logger=logged.append))
    assert (await call(app, url="/full", headers={"accept": "text/csv"})).status == 500
    assert "representation" in str(logged[0])
    assert "forgetful sent nothing for <Request GET /full>; call res.json" in str(logged[0])
    assert (await call(app, url="/full")).status == 200


async def test_a_formatter_formats_no_errors():
    app = formatted(lambda req, res: res.json("formatted"))
    assert (await call(app, "TRACE", "/full")).json["className"] == "method-not-allowed"


# -- configuring -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formatter", "message"),
    [
        (5, r"rest\(5\): a formatter is a function of \(req, res\)"),
        (lambda req: None, r"the formatter .*<lambda> takes \(req\); expected \(req, res\)"),
        (lambda req, res, go: None, r"takes \(req, res, go\); expected \(req, res\)"),
    ],
)
def test_what_is_no_formatter_is_refused(formatter, message):
    with pytest.raises(TypeError, match=message):
        rest(formatter)


def test_forgotten_brackets_are_noticed():
    app = express(App())
    with pytest.raises(TypeError, match=r"write app\.configure\(rest\(\)\), with brackets"):
        app.configure(rest)


@pytest.mark.parametrize("app", [express(), App()])
def test_services_need_an_application_that_has_some(app):
    with pytest.raises(TypeError, match=r"rest\(\) configures what express\(App\(\)\) returns"):
        rest()(app)


async def test_a_service_that_comes_after_everything_else_is_served(app):
    assert (await call(app, url="/late")).status == 404
    app.use("late", ReadOnly())
    assert (await call(app, url="/late")).json == []


async def test_a_service_that_was_taken_away_is_gone(app):
    service = Full()
    app.use("short", service)
    assert (await call(app, url="/short/5")).status == 200
    assert await app.unuse("short") is service
    assert (await call(app, url="/short/5")).status == 404


async def test_services_are_not_reached_before_rest_is_configured():
    app = express(App())
    app.use("full", Full())
    app.use(not_found())
    app.configure(rest())
    assert (await call(app, url="/full")).status == 404
    assert (await app.service("full").find())["method"] == "find"


async def test_custom_middleware_before_rest_runs_for_rest_requests():
    log = []

    async def note(req, res, next):
        log.append("middleware")
        await next()
        log.append(res.hook.method)

    app = express(App())
    app.use(note)
    app.configure(rest())
    app.use("full", Full())
    await call(app, url="/full")
    await app.service("full").find()
    assert log == ["middleware", "find"]


@pytest.mark.parametrize(
    "path", ["/admin", "/admin/", "//admin", "///admin//", "/%61dmin", "//%61dmin/1", "/admin/1"]
)
async def test_a_guard_mounted_at_the_path_of_a_service_sees_every_way_to_it(path):
    app = express(App())
    app.use("/admin", lambda req, res, go_on: go_on(Forbidden("guarded")))
    app.configure(rest())
    app.use("admin", MemoryService([{"id": 1}]))
    assert (await call(app, "GET", path)).status == 403


@pytest.mark.parametrize(
    ("content_type", "advice"),
    [
        ("multipart/form-data; boundary=x", "register multipart() before rest()"),
        ("application/json", "register json() before rest()"),
        ("text/plain", "send multipart/form-data"),
    ],
)
async def test_a_missing_parser_of_forms_is_named(content_type, advice):
    class Forms:
        takes_uploads = True

        async def create(self, data, params):
            return data

    app = express(App()).configure(rest())
    app.use("inner", App().use("forms", Forms()))
    answer = await call(app, "POST", "/inner/forms", b"x", {"content-type": content_type})
    assert (answer.status, answer.json["message"].endswith(advice)) == (415, True)


async def test_middleware_behind_a_body_parser_may_lead_a_request_elsewhere():
    """The parser is asked where a request leads; that counts as long as the path stays."""

    def rewrite(req, res, next):
        req.path = "/new/5"
        return next()

    app = express(App()).use(json(), rewrite)
    app.configure(rest())
    app.use("old", Full())
    app.use("new", MemoryService())
    app.use(error_handler())
    await app.service("new").create({"id": 5, "text": "a"})
    answer = await call(app, "PATCH", "/old/1", b'{"text":"b"}', JSON.items())
    assert answer.json == {"id": 5, "text": "b"}
