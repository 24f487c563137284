"""The router: middleware at paths, routes, what they see of the request, and what is restored."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Forbidden
from alula.express import Router, error_handler, express, not_found, rest, serve_static
from alula.express._chain import singleton


def where(req):
    return [req.base_url, req.path, dict(req.params)]


def answer_where(req, res):
    res.json(where(req))


@pytest.fixture
def web():
    return express()


# -- use -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        lambda a, b, c: (a, b, c),
        lambda a, b, c: ([a, b, c],),
        lambda a, b, c: ([a, [b, (c,)]],),
        lambda a, b, c: ("/", a, [b, c]),
    ],
)
async def test_lists_of_middleware_run_in_their_order(web, items):
    log = []

    def step(name):
        def middleware(req, res, next):
            log.append(name)
            return next()

        return middleware

    web.use(*items(step("a"), step("b"), step("c")))
    web.use(answer_where)
    await call(web)
    assert log == ["a", "b", "c"]


async def test_middleware_at_a_path_runs_there_alone(web):
    web.use("/api", answer_where)
    assert (await call(web, url="/api/users/5?a=1")).json == ["/api", "/users/5", {}]
    assert (await call(web, url="/api")).json == ["/api", "/", {}]
    assert (await call(web, url="/apis")).status == 404


async def test_the_url_below_a_mount_is_what_follows_its_prefix(web):
    web.use("/api", lambda req, res: res.json([req.url, req.original_url]))
    assert (await call(web, url="/api/a%20b?x=1")).json == ["/a%20b?x=1", "/api/a%20b?x=1"]


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ((), TypeError, r"use\(\) has nothing to use"),
        (("/api",), TypeError, r"use\(\) has nothing to use"),
        (([],), TypeError, r"use\(\) has nothing to use"),
        ((object(),), TypeError, r"is not middleware; a service is registered with its path"),
        (("/api", None), TypeError, r"None is not middleware"),
        ((lambda req: None,), TypeError, r"fits nothing that can be used"),
        (("/a*b", answer_where), ValueError, r"'a\*b' in the path '/a\*b' is not valid"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(items, error, message):
    router = Router()
    with pytest.raises(error, match=message):
        router.use(*items)
    assert repr(router) == "<Router with 0 steps>"


def test_nothing_is_registered_where_one_of_several_is_wrong():
    router = Router()
    with pytest.raises(TypeError):
        router.use(answer_where, "not middleware")
    assert repr(router) == "<Router with 0 steps>"


# -- routes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_route_answers_its_own_method(web, verb):
    getattr(web, verb.lower())("/users/:id", lambda req, res: res.json(req.params))
    assert (await call(web, verb, "/users/a%20b")).json == {"id": "a b"}
    others = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - {verb}
    for other in others:
        assert (await call(web, other, "/users/5")).status == 404


async def test_a_get_route_answers_head_without_a_body(web):
    web.get("/users", lambda req, res: res.json([1, 2, 3]))
    head = await call(web, "HEAD", "/users")
    assert (head.status, head.body, head.get("content-length")) == (200, b"", "7")


async def test_a_post_route_answers_no_head(web):
    web.post("/users", answer_where)
    assert (await call(web, "HEAD", "/users")).status == 404


@pytest.mark.parametrize("verb", ["GET", "HEAD", "POST", "OPTIONS", "TRACE", "PROPFIND"])
async def test_all_answers_every_method(web, verb):
    web.all("/any", lambda req, res: res.status(201).end())
    assert (await call(web, verb, "/any")).status == 201


async def test_a_route_sees_the_whole_path(web):
    web.get("/users/:id", answer_where)
    assert (await call(web, url="/users/5")).json == ["", "/users/5", {"id": "5"}]


async def test_a_star_takes_everything(web):
    web.get("/files/*", answer_where)
    web.get("*", lambda req, res: res.send("rest"))
    assert (await call(web, url="/files/a/b")).json[2] == {"*": "a/b"}
    assert (await call(web, url="/x")).text == "rest"


async def test_the_handlers_of_a_route_run_one_after_the_other(web):
    def load(req, res, next):
        req.user = "ann"
        return next()

    async def check(req, res, next):
        assert req.user == "ann"
        await next()

    web.get("/me", [load, check], lambda req, res: res.send(req.user))
    assert (await call(web, url="/me")).text == "ann"


async def test_the_first_route_that_fits_wins(web):
    web.get("/users/me", lambda req, res: res.send("me"))
    web.get("/users/:id", lambda req, res: res.send("id"))
    assert (await call(web, url="/users/me")).text == "me"
    assert (await call(web, url="/users/5")).text == "id"


async def test_a_route_may_leave_the_answer_to_another(web):
    async def pass_on(req, res, next):
        assert req.params == {"id": "5"}
        await next()
        assert req.params == {"id": "5"}

    web.get("/users/:id", pass_on)
    web.get("/users/:name", answer_where)
    assert (await call(web, url="/users/5")).json[2] == {"name": "5"}


async def test_an_error_handler_of_a_route_takes_its_errors_alone(web):
    async def fail(req, res):
        raise BadRequest("no")

    async def handler(error, req, res, next):
        res.status(418).send(str(error))

    web.get("/here", fail, handler)
    web.get("/there", fail)
    assert (await call(web, url="/here")).status == 418
    assert (await call(web, url="/there")).status == 400


@pytest.mark.parametrize("register", ["get", "post", "put", "patch", "delete", "all"])
def test_a_route_needs_a_path_and_a_handler(register):
    router = Router()
    with pytest.raises(TypeError, match="the route '/users' has no handler"):
        getattr(router, register)("/users")
    with pytest.raises(ValueError, match="'users' is not the path"):
        getattr(router, register)("users", answer_where)
    with pytest.raises(ValueError, match="not the path of a route"):
        getattr(router, register)(["/a", "/b"], answer_where)


@pytest.mark.parametrize("register", ["use", "post", "put", "patch", "delete", "all"])
def test_registering_returns_the_router_to_go_on_with(register):
    router = Router()
    assert getattr(router, register)("/a", answer_where) is router


# -- nesting, and what is restored -----------------------------------------------------------------


async def test_routers_nest_and_collect_path_and_params(web):
    posts = Router().get("/:post", answer_where)
    users = Router().use("/:user/posts", posts)
    web.use("/v1", users)
    assert (await call(web, url="/v1/ann/posts/7")).json == [
        "/v1/ann/posts",
        "/7",
        {"user": "ann", "post": "7"},
    ]


async def test_an_inner_param_hides_an_outer_one_of_the_same_name_while_it_runs(web):
    log = []

    async def outer(req, res, next):
        log.append(dict(req.params))
        await next()
        log.append(dict(req.params))

    web.use("/:id", outer, Router().get("/:id", answer_where))
    assert (await call(web, url="/1/2")).json[2] == {"id": "2"}
    assert log == [{"id": "1"}, {"id": "1"}]


async def test_path_and_params_are_those_of_each_place_before_during_and_after_next(web):
    log = []

    def noting(name):
        async def middleware(req, res, next):
            log.append((f"{name} before", where(req)))
            await next()
            log.append((f"{name} after", where(req)))

        return middleware

    def answer(req, res):
        log.append(("answer", where(req)))
        res.end()

    outside, inside = ["", "/v1/ann/x", {}], ["/v1", "/ann/x", {}]
    deep = ["/v1/ann", "/x", {"user": "ann"}]
    web.use(noting("top"))
    web.use("/v1", noting("mount"), Router().use("/:user", noting("deep")))
    web.use(answer)
    await call(web, url="/v1/ann/x")
    assert log == [
        ("top before", outside),
        ("mount before", inside),
        ("deep before", deep),
        ("answer", outside),
        ("deep after", deep),
        ("mount after", inside),
        ("top after", outside),
    ]


async def test_path_and_params_are_restored_for_error_middleware_outside(web):
    async def fail(req, res, next):
        raise BadRequest("no")

    async def handler(error, req, res, next):
        answer_where(req, res)

    web.use("/v1/:tenant", Router().get("/:id", fail))
    web.use(handler)
    assert (await call(web, url="/v1/acme/5")).json == ["", "/v1/acme/5", {}]


async def test_error_middleware_at_a_path_takes_errors_of_that_path_and_sees_it_stripped(web):
    async def fail(req, res, next):
        raise BadRequest("no")

    async def handler(error, req, res, next):
        res.status(418).json([str(error), *where(req)])

    web.use(fail)
    web.use("/v1/:tenant", handler)
    assert (await call(web, url="/v1/acme/5")).json == [
        "no",
        "/v1/acme",
        "/5",
        {"tenant": "acme"},
    ]
    assert (await call(web, url="/v2/acme/5")).status == 400


async def test_error_middleware_at_a_path_may_pass_errors_on_with_the_path_restored(web):
    async def fail(req, res, next):
        raise BadRequest("no")

    async def pass_on(error, req, res, next):
        await next(BadRequest(f"{error}, {req.path}"))

    async def handler(error, req, res, next):
        res.json([str(error), req.path])

    web.use(fail)
    web.use("/v1", pass_on)
    web.use(handler)
    assert (await call(web, url="/v1/x")).json == ["no, /x", "/v1/x"]


async def test_a_router_passes_its_errors_to_its_own_error_middleware_first(web):
    async def fail(req, res, next):
        raise BadRequest("no")

    async def handler(error, req, res, next):
        res.status(418).end()

    web.use("/own", Router().use(fail).use(handler))
    web.use("/none", Router().use(fail))
    assert (await call(web, url="/own")).status == 418
    assert (await call(web, url="/none")).status == 400


async def test_a_router_does_not_see_errors_from_before_it(web):
    async def fail(req, res, next):
        raise BadRequest("no")

    async def handler(error, req, res, next):
        res.status(418).end()

    web.use(fail)
    web.use(Router().use(handler))
    assert (await call(web)).status == 400


async def test_one_router_may_be_mounted_at_several_places(web):
    router = Router().get("/x", answer_where)
    web.use("/a", router)
    web.use("/b", router)
    assert (await call(web, url="/a/x")).json[0] == "/a"
    assert (await call(web, url="/b/x")).json[0] == "/b"


async def test_requests_at_the_same_time_do_not_mix_their_paths(web):
    import anyio

    async def wait(req, res, next):
        await anyio.lowlevel.checkpoint()
        await next()
        await anyio.lowlevel.checkpoint()

    web.use("/:one", wait, Router().get("/:two", wait, answer_where))
    answers = {}

    async def ask(number):
        answers[number] = (await call(web, url=f"/{number}/x{number}")).json[2]

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(ask, number)
    assert answers == {n: {"one": str(n), "two": f"x{n}"} for n in range(50)}


# -- what messages call them -----------------------------------------------------------------------


async def test_a_handler_that_does_not_answer_is_named_as_its_author_named_it(web, caplog):
    def my_handler(req, res):
        pass

    web.get("/silent", my_handler)
    assert (await call(web, url="/silent")).status == 500
    assert "my_handler neither sent a response" in caplog.text


# -- prepend_middleware ----------------------------------------------------------------------------


def named(name, log):
    def middleware(req, res, next):
        log.append(name)
        return next()

    return middleware


def counted(log):
    def middleware(req, res, next):
        log.append("other")
        return next()

    return middleware


async def twice(app):
    assert (await call(app, "GET", "/")).status == 200
    assert (await call(app, "POST", "/", body=b"x")).status == 200


async def test_it_runs_before_all_that_is_registered():
    log, app = [], express()
    app.use(counted(log))
    app.all("/", lambda req, res: res.end())
    app.prepend_middleware(named("first", log), named("second", log))
    await twice(app)
    assert log == ["first", "second", "other"] * 2


async def test_one_of_its_kind_stays_and_the_next_comes_behind_it():
    log, app = [], express()
    app.use(lambda req, res, go_on: (log.append("head"), go_on())[1])
    app.use(singleton("named", named("own", log)))
    app.all("/", lambda req, res: res.end())
    app.prepend_middleware(singleton("named", named("never", log)), counted(log))
    await twice(app)
    assert log == ["head", "own", "other"] * 2


class Slotted:
    """Middleware that nothing can be noted about: it has neither a dict nor weak references."""

    __slots__ = ("log",)

    def __init__(self, log):
        self.log = log

    def __call__(self, req, res, next):
        self.log.append("slotted")
        return next()


async def test_two_that_are_not_named_both_run():
    log, app = [], express()
    app.use(lambda req, res: res.end())
    app.prepend_middleware(Slotted(log), Slotted(log))
    await call(app)
    assert log == ["slotted", "slotted"]


def test_what_is_no_middleware_is_an_error():
    with pytest.raises(TypeError, match="not middleware"):
        express().prepend_middleware(object())


# -- steps that come after the first request -------------------------------------------------------


@pytest.mark.parametrize("register", ["use", "prepend_middleware"])
async def test_what_is_registered_after_a_request_runs_for_the_next_one(web, register):
    seen = []

    def note(req, res, next):
        seen.append(req.path)
        return next()

    await call(web, "GET", "/first")
    getattr(web, register)(note)
    await call(web, "GET", "/second")
    assert seen == ["/second"]


# -- slashes in a row ------------------------------------------------------------------------------


def refuse(req, res, next):
    return next(Forbidden("no"))


@pytest.mark.parametrize(
    "path",
    [
        "/api/admin",
        "/api//admin",
        "//api///admin/",
        "/%61pi//admin",
        "/api//%61dmin/5",
        "/api//file",
    ],
)
async def test_a_guard_sees_what_a_mounted_application_serves(path, tmp_path):
    (tmp_path / "file").write_text("secret")

    inner = express(App()).configure(rest()).use("admin", MemoryService([{"id": 5}]))
    inner.use(serve_static(tmp_path))
    guarded = express().use("/api/admin", refuse).use("/api/file", refuse).use("/api", inner)
    guarded.use(error_handler(logger=False))
    assert (await call(guarded, url=path)).status == 403


async def test_a_guard_sees_what_is_served_of_a_folder(tmp_path):
    (tmp_path / "a" / "private").mkdir(parents=True)
    (tmp_path / "a" / "private" / "s.txt").write_text("secret")
    app = express().use("/a/private", refuse)
    app.use(serve_static(tmp_path), not_found(), error_handler(logger=False))
    for path in ("/a/private/s.txt", "/a//private/s.txt", "//a///private//s.txt"):
        assert (await call(app, url=path)).status == 403
    for path in ("/a/./private/s.txt", "/a/x/../private/s.txt", "/a/%2e/private/s.txt"):
        assert (await call(app, url=path)).status in {403, 404}
