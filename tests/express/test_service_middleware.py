"""Services with middleware of their own: before..., the service, after..., the formatter."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call, post_json

from alula import App
from alula.errors import BadRequest, Conflict
from alula.express import Router, error_handler, express, json, rest
from alula.express._routing import step_of


class Service:
    async def find(self, params):
        return [params.get("tenant"), params.query]

    async def get(self, id, params):
        if id == "fail":
            raise Conflict("service failed")
        return {"id": id}

    async def create(self, data, params):
        return data

    async def remove(self, id, params):
        return None


@pytest.fixture
def log():
    return []


def made(*items, formatter=None, path="service"):
    app = express(App())
    app.use(json())
    app.configure(rest(formatter))
    app.use(path, *items)
    app.use(error_handler(logger=False))
    return app


def noting(log, name):
    async def middleware(req, res, next):
        log.append(f"{name} in {res.data}")
        await next()
        log.append(f"{name} out {res.data}")

    return middleware


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        lambda a, b, service, c, d: (a, b, service, c, d),
        lambda a, b, service, c, d: ([a, b], service, [c, d]),
        lambda a, b, service, c, d: ([a, [b]], [service], c, (d,)),
        lambda a, b, service, c, d: ([a, b, service, c, d],),
    ],
)
async def test_before_the_service_after_in_their_order(log, items):
    names = (noting(log, name) for name in "abcd")
    a, b, c, d = names
    app = made(*items(a, b, Service(), c, d))
    assert (await call(app, url="/service/5")).json == {"id": "5"}
    result = {"id": "5"}
    assert log == [
        "a in None",
        "b in None",
        f"c in {result}",
        f"d in {result}",
        f"d out {result}",
        f"c out {result}",
        f"b out {result}",
        f"a out {result}",
    ]


async def test_one_side_may_be_empty(log):
    assert (await call(made(noting(log, "a"), Service()), url="/service/5")).status == 200
    assert (await call(made(Service(), noting(log, "z")), url="/service/5")).status == 200
    assert len(log) == 4


async def test_middleware_of_one_service_does_not_run_for_another(log):
    app = made(noting(log, "a"), Service())
    app.use("other", Service())
    await call(app, url="/other/5")
    assert log == []


async def test_it_runs_for_rest_alone(log):
    app = made(noting(log, "a"), Service())
    await app.service("service").get("5")
    assert log == []


# -- before ----------------------------------------------------------------------------------------


async def test_before_sets_params():
    def tenant(req, res, next):
        req.framework.tenant = "acme"
        return next()

    assert (await call(made(tenant, Service()), url="/service?a=1")).json == ["acme", {"a": "1"}]


async def test_before_that_answers_keeps_the_service_from_being_called(log):
    def refuse(req, res, next):
        res.status(402).send("pay first")

    app = made(refuse, Service(), noting(log, "after"))
    answer = await call(app, url="/service/5")
    assert (answer.status, answer.text) == (402, "pay first")
    assert log == []


@pytest.mark.parametrize("how", ["raise", "next"])
async def test_errors_before_keep_the_service_from_being_called(log, how):
    async def refuse(req, res, next):
        if how == "raise":
            raise BadRequest("no")
        await next(BadRequest("no"))

    app = made(refuse, Service(), noting(log, "after"))
    assert (await call(app, url="/service/5")).status == 400
    assert log == []


async def test_before_sees_the_whole_path_and_the_headers(log):
    async def look(req, res, next):
        log.append((req.path, req.base_url, req.get("x-in"), req.match[1], dict(req.match[2])))
        await next()

    app = made(look, Service(), path="users/:user/things")
    await call(app, url="/users/ann/things/5", headers={"x-in": "1"})
    assert log == [("/users/ann/things/5", "", "1", "5", {"user": "ann"})]


# -- after -----------------------------------------------------------------------------------------


async def test_after_sees_data_and_hook():
    async def look(req, res, next):
        res.set("x-hook", f"{res.hook.path}:{res.hook.method}:{res.hook.id}")
        res.set("x-status", res.status_code)
        await next()

    answer = await call(made(Service(), look), url="/service/5")
    assert (answer.get("x-hook"), answer.get("x-status")) == ("service:get:5", "200")


async def test_after_may_replace_the_data():
    def wrap(req, res, next):
        res.data = {"wrapped": res.data}
        return next()

    assert (await call(made(Service(), wrap), url="/service/5")).json == {"wrapped": {"id": "5"}}


@pytest.mark.parametrize("formatter", [None, lambda req, res: res.json("formatted")])
async def test_after_that_answers_skips_the_rest_and_the_formatter(log, formatter):
    def answer(req, res, next):
        res.type("text").send("mine")

    app = made(Service(), answer, noting(log, "later"), formatter=formatter)
    answer = await post_json(app, {"a": 1}, "/service")
    assert (answer.status, answer.text) == (201, "mine")
    assert log == []


async def test_after_that_answers_and_goes_on_skips_the_formatter_alone(log):
    async def answer(req, res, next):
        res.send("mine")
        await next()

    app = made(Service(), answer, noting(log, "later"))
    assert (await call(app, url="/service/5")).text == "mine"
    assert len(log) == 2


async def test_after_does_not_run_where_the_service_failed(log):
    app = made(Service(), noting(log, "after"))
    assert (await call(app, url="/service/fail")).status == 409
    assert (await call(app, "TRACE", "/service")).status == 405
    assert log == []


async def test_error_middleware_after_a_service_takes_its_errors():
    async def handler(error, req, res, next):
        res.status(418).json([str(error), res.hook.method])

    app = made(Service(), handler)
    answer = await call(app, url="/service/fail")
    assert (answer.status, answer.json) == (418, ["service failed", "get"])
    assert (await call(app, url="/service/5")).json == {"id": "5"}


async def test_errors_after_go_to_the_error_handler():
    async def fail(req, res, next):
        raise BadRequest("too late")

    assert (await call(made(Service(), fail), url="/service/5")).json["message"] == "too late"


async def test_after_that_forgets_to_go_on_is_named(caplog):
    async def forgetful(req, res, next):
        pass

    app = express(App())
    app.configure(rest())
    app.use("service", Service(), forgetful)
    assert (await call(app, url="/service/5")).status == 500
    assert "forgetful neither sent a response" in caplog.text


async def test_a_result_that_cannot_be_formatted_does_not_raise_out_of_next(log):
    async def spoil(req, res, next):
        res.data = {"value": object()}
        await next()
        log.append("next came back")

    assert (await call(made(Service(), spoil), url="/service/5")).status == 500
    assert log == ["next came back"]


async def test_an_empty_result_passes_through_and_has_no_body(log):
    app = made(Service(), noting(log, "after"))
    answer = await call(app, "DELETE", "/service/5")
    assert (answer.status, answer.body) == (204, b"")
    assert log == ["after in None", "after out None"]


async def test_routers_and_routes_stand_before_a_service_too():
    router = Router().get("/service/special", lambda req, res: res.send("special"))
    app = made(router, Service())
    assert (await call(app, url="/service/special")).text == "special"
    assert (await call(app, url="/service/5")).json == {"id": "5"}


# -- registering -----------------------------------------------------------------------------------


async def test_options_go_along():
    class Custom(Service):
        async def archive(self, data, params):
            return "archived"

    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("custom", [], Custom(), [], methods=["archive"], events=["archived"])
    headers = {"x-service-method": "archive"}
    assert (await post_json(app, {}, "/custom", headers)).json == "archived"
    assert (await call(app, url="/custom/5")).status == 405
    assert "archived" in app.service("custom").events


async def test_a_service_that_comes_back_without_middleware_has_none(log):
    app = made(noting(log, "a"), Service())
    await app.unuse("service")
    assert app.service_middleware == {}
    app.use("service", Service())
    await call(app, url="/service/5")
    assert log == []


async def test_taking_a_service_away_below_leaves_no_middleware_behind(log):
    app = made(noting(log, "a"), Service())
    await app.unuse("service")
    app.use("service", Service())
    await call(app, url="/service/5")
    assert log == []


async def test_middleware_stands_around_every_service_of_an_application_mounted_below(log):
    inner = App()
    inner.use("one", Service())
    inner.use("two/:kind", Service())
    app = made(noting(log, "a"), inner, path="api")
    assert (await call(app, url="/api/one/5")).json == {"id": "5"}
    assert (await call(app, url="/api/two/x/5")).json == {"id": "5"}
    assert len(log) == 4


@pytest.mark.parametrize("items", [(Service(), 5), (5, Service()), ("text", Service())])
def test_what_is_no_middleware_leaves_nothing_registered(items):
    app = express(App())
    with pytest.raises(TypeError, match=r"use\(\) takes .*one service, not 2"):
        app.use("service", *items)
    assert app.services == {}


def test_a_step_of_something_else_is_refused():
    with pytest.raises(TypeError, match="is not middleware"):
        step_of(object())
