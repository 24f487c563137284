"""CORS: which pages of other origins may call."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.errors import Conflict
from alula.express import cors, error_handler, express, not_found, rest, serve_static

SITE = "https://app.example"
OTHER = "https://evil.example"


def app_with(*middleware):
    def fail(req, res):
        raise Conflict("taken")

    app = express()
    for each in middleware:
        app.use(each)
    app.get("/", lambda req, res: res.json({"a": 1}))
    app.get("/conflict", fail)
    app.use(not_found())
    app.use(error_handler(logger=False))
    return app


def cors_headers(answer):
    return {name: value for name, value in answer.headers if name.startswith("access-control-")}


async def get(app, origin=SITE, url="/", method="GET"):
    return await call(app, method, url, headers={"origin": origin} if origin else {})


async def preflight(app, origin=SITE, method="PATCH", headers=None, url="/"):
    sent = {"origin": origin, "access-control-request-method": method}
    if headers is not None:
        sent["access-control-request-headers"] = headers
    return await call(app, "OPTIONS", url, headers=sent)


async def test_nothing_is_sent_unless_it_is_configured():
    answer = await get(app_with())
    assert cors_headers(answer) == {}
    answer = await preflight(app_with())
    assert answer.status == 404
    assert cors_headers(answer) == {}


# -- all origins ----------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [SITE, OTHER, "null"])
async def test_by_default_all_origins_may_read(origin):
    answer = await get(app_with(cors()), origin)
    assert (answer.status, answer.json) == (200, {"a": 1})
    assert cors_headers(answer) == {"access-control-allow-origin": "*"}
    assert "Origin" in answer.vary


async def test_a_request_without_an_origin_gets_only_headers_for_caches():
    answer = await get(app_with(cors()), None)
    assert cors_headers(answer) == {}
    assert "Origin" in answer.vary


async def test_by_default_all_that_services_need_is_allowed():
    answer = await preflight(app_with(cors()), headers="content-type,x-service-method")
    assert (answer.status, answer.body) == (204, b"")
    assert cors_headers(answer) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET, HEAD, PUT, PATCH, POST, DELETE",
        "access-control-allow-headers": "content-type,x-service-method",
        "access-control-max-age": "600",
    }


async def test_a_preflight_request_needs_no_route():
    assert (await preflight(app_with(cors()), url="/nope")).status == 204


async def test_other_options_requests_go_on():
    assert (await get(app_with(cors()), method="OPTIONS")).status == 404
    answer = await call(
        app_with(cors()), "OPTIONS", "/", headers={"access-control-request-method": "GET"}
    )
    assert answer.status == 404


# -- some origins ---------------------------------------------------------------------------------

POLICIES = {
    "one": {"origins": SITE},
    "several": {"origins": ["https://a.example", SITE, "http://localhost:5173"]},
    "regex": {"origins": [], "origin_regex": r"https://[a-z]+\.example(?<!evil\.example)"},
    "both": {"origins": ["https://a.example"], "origin_regex": "https://app[.]example"},
    "credentials": {"origins": SITE, "credentials": True},
}


@pytest.mark.parametrize("options", POLICIES.values(), ids=POLICIES)
async def test_an_origin_that_may_call_is_named(options):
    answer = await get(app_with(cors(**options)))
    assert answer.get("access-control-allow-origin") == SITE
    assert "Origin" in answer.vary
    answer = await preflight(app_with(cors(**options)))
    assert (answer.status, answer.get("access-control-allow-origin")) == (204, SITE)
    assert "Origin" in answer.vary


LOOK_ALIKES = [
    OTHER,
    "https://app.exampl",
    "https://app.example.evil.example",
    "https://evil.example/https://app.example",
    "https://app.example:8443",
    "http://app.example",
    "https://APP.example",
    "null",
    "",
    "h",
]


@pytest.mark.parametrize("origin", LOOK_ALIKES)
@pytest.mark.parametrize("options", POLICIES.values(), ids=POLICIES)
async def test_others_are_not(options, origin):
    answer = await get(app_with(cors(**options)), origin or "x")
    assert answer.status == 200
    assert answer.get("access-control-allow-origin") is None
    assert "Origin" in answer.vary
    answer = await preflight(app_with(cors(**options)), origin)
    assert (answer.status, answer.get("access-control-allow-origin")) == (400, None)
    assert answer.json["message"] == "Disallowed CORS origin"


async def test_credentials_are_announced():
    app = app_with(cors(origins=[SITE], credentials=True))
    assert (await get(app)).get("access-control-allow-credentials") == "true"
    assert (await preflight(app)).get("access-control-allow-credentials") == "true"
    app = app_with(cors(origins=[SITE]))
    assert (await get(app)).get("access-control-allow-credentials") is None


@pytest.mark.parametrize("origins", [["null"], ["https://app.example", "null"], "null"])
def test_credentials_for_the_origin_null_are_refused(origins):
    with pytest.raises(ValueError, match="'null', which any page has"):
        cors(origins=origins, credentials=True)
    assert cors(origins=origins)


def test_credentials_for_all_origins_are_refused():
    with pytest.raises(ValueError, match="let every page on the web act"):
        cors(credentials=True)


@pytest.mark.parametrize(
    "origin",
    ["app.example", "https://app.example/", "https://", "HTTPS://app.example", "", "https://a b"],
)
def test_an_origin_that_can_never_fit_is_refused(origin):
    with pytest.raises(ValueError, match="not an origin as browsers send"):
        cors(origins=[SITE, origin])


# -- the other options ----------------------------------------------------------------------------


async def test_methods():
    app = app_with(cors(methods=["GET", "POST"]))
    answer = await preflight(app, method="POST")
    assert (answer.status, answer.get("access-control-allow-methods")) == (204, "GET, POST")
    answer = await preflight(app, method="PATCH")
    assert (answer.status, answer.json["message"]) == (400, "Disallowed CORS method")


async def test_headers():
    app = app_with(cors(headers=["X-A", "Content-Type"]))
    answer = await preflight(app, headers="content-type, x-a")
    assert answer.status == 204
    assert "X-A" in answer.get("access-control-allow-headers")
    answer = await preflight(app, headers="x-a, x-b")
    assert (answer.status, answer.json["message"]) == (400, "Disallowed CORS headers")


async def test_a_single_name_is_not_read_letter_by_letter():
    app = app_with(cors(origins=SITE, methods="PATCH", headers="X-Long", expose="X-Total"))
    assert (await preflight(app, method="P")).status == 400
    assert (await preflight(app, headers="X")).status == 400
    assert (await preflight(app, headers="x-long")).status == 204
    assert (await get(app)).get("access-control-expose-headers") == "X-Total"


async def test_exposed_headers_and_age():
    app = app_with(cors(expose=["X-Total", "X-Count"], max_age=5))
    assert (await get(app)).get("access-control-expose-headers") == "X-Total, X-Count"
    assert (await preflight(app)).get("access-control-max-age") == "5"


async def test_what_is_asked_for_cannot_break_the_head():
    answer = await preflight(app_with(cors()), headers="x-a\r\nx-evil: 1")
    assert (answer.status, answer.get("x-evil")) == (400, None)
    assert answer.json["message"].startswith("Invalid preflight request: the head")


# -- with others ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("url", "status"), [("/conflict", 409), ("/nope", 404)])
async def test_errors_carry_the_headers_too(url, status):
    answer = await get(app_with(cors(origins=[SITE])), url=url)
    assert answer.status == status
    assert answer.get("access-control-allow-origin") == SITE
    assert {"Origin", "Accept"} <= answer.vary


async def test_files_and_other_applications_carry_the_headers_too(tmp_path):
    (tmp_path / "a.txt").write_text("a")

    async def theirs(scope, receive, send):
        head = {"type": "http.response.start", "status": 200, "headers": [(b"vary", b"X-A")]}
        await send(head)
        await send({"type": "http.response.body", "body": b"theirs"})

    app = express()
    app.use(cors())
    app.use("/files", serve_static(tmp_path))
    app.use("/theirs", theirs)
    for url in ("/files/a.txt", "/theirs"):
        answer = await get(app, url=url)
        assert answer.status == 200
        assert answer.get("access-control-allow-origin") == "*"
        assert "Origin" in answer.vary


async def test_services_carry_the_headers_too():
    class Messages:
        async def find(self, params):
            return []

    app = express(App())
    app.use(cors(origins=[SITE]))
    app.configure(rest())
    app.use("messages", Messages())
    answer = await get(app, url="/messages")
    assert (answer.json, answer.get("access-control-allow-origin")) == ([], SITE)
    assert {"Origin", "Accept"} <= answer.vary
    assert (await preflight(app, url="/messages")).status == 204
    assert (await get(app, url="/messages", method="OPTIONS")).status == 405


async def test_may_stand_at_a_path():
    app = express()
    app.use("/open", cors())
    app.all("*", lambda req, res: res.end())
    assert (await get(app, url="/open/a")).get("access-control-allow-origin") == "*"
    assert (await get(app, url="/closed")).get("access-control-allow-origin") is None


async def test_what_varies_already_goes_on_varying():
    def vary(req, res, next):
        res.vary("X-A")
        return next()

    answer = await preflight(app_with(vary, cors()))
    assert {"X-A", "Origin", "Access-Control-Request-Method"} <= answer.vary
