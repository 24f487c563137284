"""The seven rules of the interface for middleware, one after the other."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call, post_json

from alula import App
from alula.errors import NotFound
from alula.express import (
    Router,
    compression,
    cors,
    error_handler,
    express,
    json,
    not_found,
    rest,
    serve_static,
    urlencoded,
)


class Service:
    """Answers what it was called with."""

    async def find(self, params):
        return {"tenant": params.get("tenant"), "provider": params.provider}

    async def get(self, id, params):
        if id == "missing":
            raise NotFound(f"No record found for id '{id}'")
        return {"id": id, "headers": params.headers.get("x-in")}

    async def create(self, data, params):
        return data


@pytest.fixture
def app():
    return express(App())


def tenant(req, res, next):
    req.framework.tenant = "acme"
    return next()


async def test_rule_1_body_parsers_are_registered_before_the_services(app):
    app.configure(rest())
    app.use(json())
    app.use("things", Service())
    assert (await post_json(app, {"a": 1}, "/things")).status == 415
    in_order = express(App())
    in_order.use(json(), urlencoded())
    in_order.configure(rest())
    in_order.use("things", Service())
    assert (await post_json(in_order, {"a": 1}, "/things")).json == {"a": 1}
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert (await call(in_order, "POST", "/things", b"a=1", form)).json == {"a": "1"}


async def test_rule_2_params_are_set_before_rest_or_by_middleware_of_the_service(app):
    app.use("/before", tenant)
    app.configure(rest())
    app.use(tenant)  # too late: the transport has answered by then
    app.use("before/things", Service())
    app.use("things", Service())
    app.use("own", tenant, Service())
    for path, expected in (("before/things", "acme"), ("things", None), ("own", "acme")):
        assert (await call(app, url=f"/{path}")).json["tenant"] == expected, path


async def test_rule_3_middleware_runs_for_rest_alone(app):
    log = []

    async def note(req, res, next):
        log.append(req.path)
        await next()

    app.use(note, tenant)
    app.configure(rest())
    app.use("things", note, Service(), note)
    assert (await app.service("things").find())["tenant"] is None
    assert log == []
    assert (await call(app, url="/things")).json["tenant"] == "acme"
    assert log == ["/things"] * 3


async def test_rule_4_middleware_after_a_service_sees_data_and_hook(app):
    seen = []

    async def look(req, res, next):
        hook = res.hook
        seen.append((res.data, hook.path, hook.method, hook.id, hook.result is res.data))
        await next()

    app.configure(rest())
    app.use("things", Service(), look)
    answer = await call(app, url="/things/5")
    record = {"id": "5", "headers": None}
    assert seen == [(record, "things", "get", "5", True)]
    assert answer.json == record


async def test_rule_5_an_answer_after_the_service_skips_the_rest_and_the_formatter(app):
    log = []

    def formatter(req, res):
        log.append("formatter")
        res.json(res.data)

    def answer(req, res, next):
        if req.query:
            return res.send("mine")
        return next()

    async def later(req, res, next):
        log.append("later")
        await next()

    app.configure(rest(formatter))
    app.use("things", Service(), answer, later)
    assert (await call(app, url="/things?mine=1")).text == "mine"
    assert log == []
    assert (await call(app, url="/things")).json["provider"] == "rest"
    assert log == ["later", "formatter"]


async def test_rule_6_params_are_set_one_by_one_and_never_replaced_as_a_whole(app):
    async def add(req, res, next):
        req.framework.user = {"id": 1}
        req.framework["tenant"] = f"{req.framework.provider} {req.framework.headers['x-in']}"
        await next()

    def replace(req, res, next):
        req.framework = {"tenant": "evil"}

    logged = []
    app.use(add)
    app.use("/replaced", replace)
    app.configure(rest())
    app.use("things", Service())
    app.use(error_handler(logger=logged.append))
    answer = await call(app, url="/things", headers={"x-in": "kept"})
    assert answer.json == {"tenant": "rest kept", "provider": "rest"}
    assert (await call(app, url="/things/5", headers={"x-in": "kept"})).json["headers"] == "kept"
    assert (await call(app, url="/replaced", headers={"x-in": "1"})).status == 500
    assert "req.framework is not replaced as a whole" in str(logged[0])
    assert "req.framework.tenant = ..." in str(logged[0])


async def test_rule_6_requests_do_not_share_params(app):
    def once(req, res, next):
        if req.query:
            req.framework.tenant = "acme"
        return next()

    app.use(once)
    app.configure(rest())
    app.use("things", Service())
    assert (await call(app, url="/things?a=1")).json["tenant"] == "acme"
    assert (await call(app, url="/things")).json["tenant"] is None


async def test_rule_7_not_found_goes_last_before_the_error_handler(app):
    app.configure(rest())
    app.use("things", Service())
    app.use(not_found(verbose=True))
    app.use(error_handler(html=False, logger=False))
    answer = await call(app, url="/nothing?a=1", headers={"accept": "text/html"})
    assert (answer.status, answer.json["message"]) == (404, "Page not found: /nothing?a=1")


async def test_rule_7_the_error_handler_takes_errors_of_services_and_middleware(app):
    logged = []

    def fail(req, res, next):
        raise ValueError("in middleware")

    app.use("/fails", fail)
    app.configure(rest())
    app.use("things", Service())
    app.use(not_found())
    app.use(error_handler(logger=logged.append))
    assert (await call(app, url="/things/missing")).status == 404
    assert (await call(app, url="/fails")).status == 500
    assert [type(error) for error in logged] == [NotFound, ValueError]


async def test_rule_7_all_built_in_middleware_works_together(app, tmp_path):
    (tmp_path / "page.txt").write_text("a file")
    app.use(cors(), compression(minimum_size=10))
    app.use(json(), urlencoded())
    app.use("/files", serve_static(tmp_path))
    app.use("/v1", Router().get("/hello", lambda req, res: res.send("hello " * 100)))
    app.configure(rest())
    app.use("things", Service())
    app.use(not_found(), error_handler(logger=False))
    headers = {"origin": "http://a.example", "accept-encoding": "gzip"}
    assert (await call(app, url="/files/page.txt")).text == "a file"
    routed = await call(app, url="/v1/hello", headers=headers)
    assert routed.get("content-encoding") == "gzip"
    for url, status in (("/things/5", 200), ("/v1/hello", 200), ("/nothing", 404)):
        answer = await call(app, url=url, headers=headers)
        assert answer.status == status
        assert answer.get("access-control-allow-origin") == "*", url
