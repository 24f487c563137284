"""Who is calling, for middleware."""

from __future__ import annotations

import logging

import pytest
from tests.authentication.building import add_authentication, add_user, login
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationStrategy
from alula.authentication import authenticate as authenticate_hook
from alula.errors import NotAuthenticated
from alula.express import (
    authenticate,
    error_handler,
    express,
    json,
    not_found,
    parse_authentication,
    rest,
)


def me(req, res):
    """Answer who is calling."""
    params = req.framework
    proof = req.authentication or {}
    return res.json(
        {
            "user": req.user,
            "same": req.user == params.user,
            "strategy": proof.get("strategy"),
            "token": proof.get("accessToken"),
            "checked": params.get("authenticated"),
        }
    )


def make_app(*before, app=None, **options):
    app = app or express(App(debug=True))
    for middleware in before:
        app.use(middleware)
    app.use(json())
    app.configure(rest())
    app.use("users", MemoryService(start_id=1))
    app.use("secrets", MemoryService([{"id": 1}]))
    app.service("secrets").hooks(around=[authenticate_hook("jwt")])
    add_authentication(app, **options)
    return app


def finish(app):
    app.use(not_found())
    app.use(error_handler())
    return app


async def ready(app):
    await add_user(app)
    await finish(app).setup()
    return app


def token_of(app, subject="1", path="authentication"):
    return app.service(path).service.create_access_token({}, subject)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


USER = {"id": 1, "email": "ada@example.com"}


class TestAuthenticate:
    @pytest.fixture(params=["after rest", "before rest"])
    async def app(self, request):
        early = request.param == "before rest"
        app = express(App(debug=True)) if early else make_app()
        app.get("/me", authenticate("jwt"), me)
        app.get("/open", me)
        return await ready(make_app(app=app) if early else app)

    async def test_says_who_is_calling(self, app):
        token = token_of(app)
        answer = await call(app, url="/me", headers=bearer(token))
        assert answer.json == {
            "user": USER, "same": True, "strategy": "jwt", "token": token, "checked": True,
        }  # fmt: skip

    @pytest.mark.parametrize("headers", [{}, {"authorization": "Digest x"}, {"cookie": "jwt=x"}])
    async def test_refuses_who_proves_nothing(self, app, headers):
        answer = await call(app, url="/me", headers=headers)
        assert (answer.status, answer.json["message"]) == (401, "Not authenticated")

    async def test_refuses_a_proof_that_is_not_good(self, app):
        answer = await call(app, url="/me", headers=bearer("garbage"))
        assert (answer.status, answer.json["message"]) == (401, "jwt malformed")
        answer = await call(app, url="/me", headers=bearer(token_of(app, "9")))
        assert answer.status == 401

    async def test_leaves_other_routes_alone(self, app):
        answer = await call(app, url="/open", headers=bearer("garbage"))
        assert (answer.status, answer.json["user"], answer.json["checked"]) == (200, None, None)

    async def test_the_token_in_a_query_is_not_read(self, app):
        answer = await call(app, url=f"/me?access_token={token_of(app)}")
        assert answer.status == 401


class TestOptionalAuthenticate:
    @pytest.fixture
    async def app(self):
        app = make_app()
        app.get("/me", authenticate("jwt", optional=True), me)
        return await ready(app)

    async def test_a_request_without_credentials_has_no_user(self, app):
        answer = await call(app, url="/me")
        assert (answer.status, answer.json["user"], answer.json["checked"]) == (200, None, None)

    async def test_says_who_is_calling(self, app):
        answer = await call(app, url="/me", headers=bearer(token_of(app)))
        assert (answer.json["user"], answer.json["checked"]) == (USER, True)

    async def test_refuses_a_proof_that_is_not_good(self, app):
        assert (await call(app, url="/me", headers=bearer("garbage"))).status == 401


async def test_services_of_another_application():
    inner = App()
    inner.use("users", MemoryService(start_id=1))
    inner.use("secrets", MemoryService([{"id": 1}]))
    inner.service("secrets").hooks(around=[authenticate_hook("jwt")])
    service = add_authentication(inner)
    app = express(App()).set("authentication", "api/authentication")
    app.configure(rest())
    app.use("api", inner)
    app.get("/me", authenticate("jwt"), me)
    await add_user(inner)
    await inner.setup()
    await finish(app).setup()
    headers = bearer(service.create_access_token({}, "1"))
    assert (await call(app, url="/api/secrets/1", headers=headers)).json == {"id": 1}
    assert (await call(app, url="/me", headers=headers)).json["user"] == USER
    assert (await call(app, url="/api/secrets/1")).status == 401


async def test_stands_before_a_service_too():
    app = make_app()

    class Mine:
        async def find(self, params):
            return {"user": params.user["id"], "checked": params.authenticated}

    app.use("mine", authenticate("jwt"), Mine())
    app.service("mine").hooks(before=[authenticate_hook("jwt")])
    await ready(app)
    answer = await call(app, url="/mine", headers=bearer(token_of(app)))
    assert answer.json == {"user": 1, "checked": True}
    assert (await call(app, url="/mine")).status == 401


async def test_another_service_and_its_strategies():
    app = make_app()
    app.use("admins", MemoryService([{"id": 1, "name": "root"}]))
    add_authentication(app, "admin-login", service="admins", entity="admin", audience="admins")
    protected = authenticate(service="admin-login", strategies=["jwt"])
    app.get("/admin", protected, me)
    app.get("/both", authenticate("jwt"), protected, me)
    await ready(app)
    admin, user = bearer(token_of(app, path="admin-login")), bearer(token_of(app))
    answer = await call(app, url="/admin", headers=admin)
    assert answer.json["user"] == {"id": 1, "name": "root"}
    answer = await call(app, url="/admin", headers=user)
    assert answer.json["message"] == "jwt audience invalid. expected: admins"
    assert (await call(app, url="/both", headers=user)).status == 401
    assert (await call(app, url="/both", headers=admin)).status == 401


@pytest.mark.parametrize(("entity", "user"), [("user", None), ("machine", {"id": 1})])
async def test_the_user_of_another_service_does_not_stay(entity, user):
    class Anonymous(AuthenticationStrategy):
        async def authenticate(self, authentication, params):
            return {"authentication": {"strategy": self.name}}

        def parse(self, req, res):
            return {"strategy": self.name}

    def seen(req, res):
        res.json({"user": req.framework.get("user"), "by": req.authentication["strategy"]})

    app = make_app()
    add_authentication(app, "keys", entity=entity).register("key", Anonymous())
    second = authenticate(service="keys", strategies=["key"])
    app.get("/both", authenticate("jwt"), second, seen)
    await ready(app)
    answer = await call(app, url="/both", headers=bearer(token_of(app)))
    assert answer.json["by"] == "key"
    assert (answer.json["user"] and {"id": answer.json["user"]["id"]}) == user


class Key(AuthenticationStrategy):
    """An API key in a header, looked for in an asynchronous way."""

    async def authenticate(self, authentication, params):
        if authentication["key"] != "k":
            raise NotAuthenticated("Invalid API key")
        return {"authentication": {"strategy": self.name}, "user": {"id": "machine"}}

    async def parse(self, req, res):
        key = req.get("x-api-key")
        return None if key is None else {"strategy": self.name, "key": key}


class TestAnAsynchronousStrategy:
    @pytest.fixture(params=[True, False], ids=["by rest", "registered"])
    async def app(self, request):
        before = () if request.param else (parse_authentication(strategies=["key"]),)
        parsing = ["key", "jwt"] if request.param else ["jwt"]
        app = make_app(*before, strategies=["jwt"], parse_strategies=parsing)
        app.service("authentication").service.register("key", Key())
        app.use("machines", MemoryService([{"id": 1}]))
        app.service("machines").hooks(before=[authenticate_hook("key")])
        app.get("/me", authenticate("key", "jwt"), me)
        app.get("/parsed", me)
        return await ready(app)

    async def test_parses(self, app):
        answer = await call(app, url="/parsed", headers={"x-api-key": "x"})
        assert (answer.json["strategy"], answer.json["user"]) == ("key", None)
        assert (await call(app, url="/parsed")).json["strategy"] is None

    async def test_parses_for_services(self, app):
        assert (await call(app, url="/machines/1", headers={"x-api-key": "k"})).json == {"id": 1}
        assert (await call(app, url="/machines/1", headers={"x-api-key": "x"})).status == 401
        assert (await call(app, url="/machines/1")).status == 401

    async def test_a_parser_that_fails_is_an_error_of_the_request(self, app):
        async def fail(req, res):
            raise NotAuthenticated("odd header")

        app.service("authentication").service.strategy("key").parse = fail
        service = app.service("authentication").service
        service.register("key", service.strategy("key"))
        answer = await call(app, url="/parsed")
        assert (answer.status, answer.json["message"]) == (401, "odd header")

    async def test_authenticates(self, app):
        answer = await call(app, url="/me", headers={"x-api-key": "k"})
        assert answer.json["user"] == {"id": "machine"}
        assert (await call(app, url="/me", headers={"x-api-key": "x"})).status == 401
        assert (await call(app, url="/me")).status == 401


async def test_a_proof_for_another_strategy_is_looked_for_anew():
    class Plain(Key):
        def parse(self, req, res):
            key = req.get("x-api-key")
            return None if key is None else {"strategy": self.name, "key": key}

    app = make_app()
    app.service("authentication").service.register("key", Plain())
    app.get("/me", authenticate("key"), me)
    await ready(app)
    token = bearer(token_of(app))
    answer = await call(app, url="/me", headers={**token, "x-api-key": "k"})
    assert answer.json["user"] == {"id": "machine"}
    answer = await call(app, url="/me", headers=token)
    assert (answer.status, "strategy not allowed" in answer.json["message"]) == (401, True)


async def test_a_strategy_may_ask_for_the_query():
    class Link(AuthenticationStrategy):
        async def authenticate(self, authentication, params):
            return {"user": {"id": params.query["as"]}}

        def parse(self, req, res):
            return {"strategy": self.name}

    def changes_the_query(req, res, next):
        req.query = {"seen": "by the service"}
        return next()

    class Echo:
        def find(self, params):
            return [params.query, params.user]

    app = make_app()
    app.service("authentication").service.register("link", Link())
    app.use("echo", authenticate("link"), changes_the_query, Echo())
    await ready(app)
    answer = await call(app, url="/echo?as=ada")
    assert answer.json == [{"seen": "by the service"}, {"id": "ada"}]


class TestParse:
    async def test_reads_the_proof_for_services(self):
        app = await ready(make_app())
        assert (await call(app, url="/secrets/1", headers=bearer(token_of(app)))).status == 200
        assert (await call(app, url="/secrets/1")).status == 401

    async def test_sets_the_proof_for_middleware_and_checks_nothing(self):
        app = make_app()
        app.get("/parsed", me)
        await ready(app)
        answer = await call(app, url="/parsed", headers=bearer("garbage"))
        assert answer.json == {
            "user": None, "same": True, "strategy": "jwt", "token": "garbage", "checked": None,
        }  # fmt: skip

    async def test_params_of_middleware_and_credentials_of_the_request(self):
        def add_tenant(req, res, next):
            req.framework.tenant = "acme"
            return next()

        def note(context):
            params = context.params
            seen.append((params.tenant, params.user, params.authentication["strategy"]))

        app, seen = await ready(make_app(add_tenant)), []
        app.service("secrets").hooks(before=[note])
        assert (await call(app, url="/secrets/1", headers=bearer(token_of(app)))).status == 200
        assert seen == [("acme", USER, "jwt")]
        assert (await call(app, url="/secrets/1", headers=bearer("x"))).status == 401

    async def test_without_an_authentication_service_it_does_nothing(self):
        app = express(App())
        app.use(parse_authentication())
        app.use(parse_authentication(service="elsewhere"))
        app.get("/parsed", me)
        answer = await call(finish(app), url="/parsed", headers=bearer("x"))
        assert answer.json["strategy"] is None

    async def test_a_service_that_parses_nothing_is_left_alone(self):
        class Plain:
            async def find(self, params):
                return []

        app = express(App()).use("authentication", Plain())
        app.use(parse_authentication())
        app.get("/parsed", me)
        assert (await call(finish(app), url="/parsed")).json["strategy"] is None

    async def test_again_for_another_service(self):
        app = make_app()
        app.use("machines", MemoryService([{"id": 1}]))
        options = {"service": "machines", "strategies": ["jwt"], "audience": "machines"}
        other = add_authentication(app, "machine-login", **options)
        other.register("jwt", type(other.strategy("jwt"))(header="X-Machine"))
        app.use(parse_authentication(service="machine-login"))
        app.get("/parsed", me)
        await ready(app)
        answer = await call(app, url="/parsed", headers={"x-machine": "abc"})
        assert answer.json["token"] == "abc"
        answer = await call(app, url="/parsed", headers=bearer("def"))
        assert answer.json["token"] == "def"

    @pytest.mark.parametrize("options", [{"strategies": "jwt"}, {"strategies": [5]}])
    def test_strategies_are_names(self, options):
        with pytest.raises(TypeError, match="takes names of strategies"):
            parse_authentication(**options)

    def test_of_strategies_there_is_one_at_least(self):
        with pytest.raises(TypeError, match="needs at least one strategy"):
            parse_authentication(strategies=[])


def from_link(req, res, next):
    """Take the token of a link: browsers send no header along with it."""
    token = req.query.pop("access_token", None)
    if isinstance(token, str):
        req.authentication = {"strategy": "jwt", "accessToken": token}
    return next()


class TestALink:
    @pytest.fixture
    async def app(self):
        app = make_app()
        app.get("/report", from_link, authenticate("jwt"), me)
        app.get("/broken", from_link, authenticate("jwt"), lambda req, res: 1 / 0)
        return await ready(app)

    async def test_its_token_counts(self, app):
        answer = await call(app, url=f"/report?access_token={token_of(app)}")
        assert (answer.status, answer.json["user"]) == (200, USER)

    @pytest.mark.parametrize(
        "query", ["", "?access_token=", "?access_token=x", "?access_token[a]=b", "?accessToken=x"]
    )
    async def test_what_is_no_token(self, app, query):
        assert (await call(app, url=f"/report{query}")).status == 401

    async def test_its_token_counts_for_a_service_behind_it(self):
        app = make_app()
        app.use("reports", from_link, MemoryService([{"id": 1}]))
        app.service("reports").hooks(before=[authenticate_hook("jwt")])
        await ready(app)
        answer = await call(app, url=f"/reports/1?access_token={token_of(app)}")
        assert answer.json == {"id": 1}
        assert (await call(app, url="/reports/1?access_token=x")).status == 401

    @pytest.mark.parametrize("place", ["/report", "/broken", "/nowhere", "/secrets/1"])
    @pytest.mark.parametrize("good", [True, False])
    async def test_its_token_stays_out_of_the_log(self, app, caplog, place, good):
        token = token_of(app) if good else token_of(app)[:-3]
        with caplog.at_level(logging.DEBUG):
            await call(app, url=f"{place}?access_token={token}")
            await call(app, url=place, headers=bearer(token))
        written = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
        assert token not in written
        assert token.split(".")[1] not in written


async def test_signing_in_over_http():
    app = await ready(make_app())
    import json as standard_json

    body = standard_json.dumps(login()).encode()
    answer = await call(app, "POST", "/authentication", body, {"content-type": "application/json"})
    assert (answer.status, answer.json["user"]) == (201, USER)
    headers = bearer(answer.json["accessToken"])
    assert (await call(app, url="/secrets/1", headers=headers)).status == 200
    assert (await call(app, "DELETE", "/authentication", headers=headers)).status == 200
    assert (await call(app, url="/authentication")).status == 405


class Door:
    """Reads the same credentials from every request."""

    def __init__(self, name):
        self.name = name

    async def create(self, data, params):
        return {}

    def parse(self, req, res):
        return {"strategy": self.name}


class Told:
    async def get(self, id, params):
        return {"credentials": params.authentication}


async def test_rest_asks_the_authentication_service_of_the_moment():
    app = express(App()).configure(rest()).use("told", Told())

    async def credentials():
        for _ in range(2):  # once looked up, and once remembered
            answer = await call(app, url="/told/1")
        return answer.json["credentials"]

    assert await credentials() is None
    app.use("authentication", Door("first"))
    assert await credentials() == {"strategy": "first"}
    await app.unuse("authentication")
    assert await credentials() is None
    app.use("authentication", Told())  # parses no requests
    assert await credentials() is None
    app.use("other", Door("second")).set("authentication", "other")
    assert await credentials() == {"strategy": "second"}


@pytest.mark.parametrize("is_first", [True, False])
async def test_middleware_behind_rest_runs_whatever_a_strategy_has_sent(is_first):
    class Challenge:
        async def create(self, data, params):
            return {}

        def parse(self, req, res):
            res.status(401).json("who are you?")

    seen = []

    def note(req, res, next):
        seen.append(res.status_code)
        return next()

    app = express(App())
    if not is_first:
        app.use(note)
    app.configure(rest()).use("authentication", Challenge()).use(note)
    answer = await call(app, url="/nothing")
    assert (answer.status, answer.json) == (401, "who are you?")
    assert seen == ([401] if is_first else [200, 401])
