"""Tokens in cookies: which requests they sign in, and which other sites may have made."""

from __future__ import annotations

import json
import re
from http.cookies import SimpleCookie
from typing import Any

import pytest
from tests.authentication.building import SECRET, add_authentication, add_user, login, make_app
from tests.authentication.connecting import call as call_over
from tests.authentication.connecting import open_connection
from tests.express.asgi_client import Answer, call

from alula import App
from alula._identity import identify_connection
from alula.adapters.memory import MemoryService
from alula.authentication import JWTStrategy, TokenCookie, authenticate
from alula.errors import NotAuthenticated
from alula.express import authenticate as authenticated
from alula.express import error_handler, express, rest
from alula.express import json as json_body
from alula.outgoing import RedactedRecord

HOST = "app.example"
OWN = {"Host": HOST, "Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}
OWN_GET = {"Host": HOST, "Sec-Fetch-Site": "same-origin"}  # without Origin, as browsers do
TOKEN, REFRESH, CSRF = "__Host-token", "__Secure-refresh", "__Host-csrf"


class Notes:
    """Tells who calls; what is under ``open`` needs no sign-in."""

    async def find(self, params: Any) -> Any:
        return {"user": params.user and params.user["email"]}

    async def create(self, data: Any, params: Any) -> Any:
        return await self.find(params)


class Browser:
    """Keeps cookies as a browser does, apart from their paths and rules.

    Args:
        app: The application that it sends requests to.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.cookies: dict[str, str] = {}
        self.lines: list[str] = []

    async def ask(
        self, method: str, url: str, data: Any = None, headers: Any = None, **more: str
    ) -> Answer:
        """Send a request of a page of the application itself, or with other headers."""
        sent = dict((OWN_GET if method == "GET" else OWN) if headers is None else headers)
        sent |= {name.replace("_", "-"): value for name, value in more.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None
        if data is not None:
            sent["Content-Type"], body = "application/json", json.dumps(data).encode()
        answer = await call(self.app, method, url, body, sent)
        self.lines = answer.all("set-cookie")
        for line in self.lines:
            (morsel,) = SimpleCookie(line).values()
            self.cookies[morsel.key] = morsel.value
            if morsel["max-age"] == "0":
                del self.cookies[morsel.key]
        return answer

    async def sign_in(self, **more: Any) -> Answer:
        answer = await self.ask("POST", "/authentication", login(), **more)
        assert answer.status == 201, answer.text
        return answer

    @property
    def csrf(self) -> dict[str, str]:
        return {"X_CSRF_Token": self.cookies[CSRF]}


async def make_browser(*plugins: Any, **options: Any) -> Browser:
    """Return a browser at an application with a user, who is not signed in."""
    app = express(App()).use(json_body()).configure(rest())
    app.use("users", MemoryService(start_id=1))
    app.use("sessions", MemoryService(), methods=[])
    add_authentication(app, **{"cookie": TokenCookie(), **options})
    app.use("notes", Notes()).use("open", Notes())
    app.service("notes").hooks(around=[authenticate("jwt")])
    app.get("/route", authenticated("jwt"), lambda req, res: res.json(req.user["id"]))
    app.use(error_handler(logger=False))
    for plugin in plugins:
        plugin(app)
    await app.setup()
    await add_user(app)
    return Browser(app)


@pytest.fixture
async def browser():
    return await make_browser(sessions="sessions")


# -- sign-in ---------------------------------------------------------------------------------------


async def test_a_sign_in_sets_cookies(browser):
    answer = await browser.sign_in()
    assert [line.partition("=")[0] for line in browser.lines] == [TOKEN, CSRF, REFRESH]
    # The test may take a second or more of the 15 minutes.
    assert [re.sub("=8[5-9].;", "=900;", line.partition("; ")[2]) for line in browser.lines] == [
        "Path=/; Max-Age=900; Secure; HttpOnly; SameSite=Lax",
        "Path=/; Max-Age=2592000; Secure; SameSite=Lax",
        "Path=/authentication; Max-Age=2592000; Secure; HttpOnly; SameSite=Lax",
    ]
    body = answer.json
    assert browser.cookies == {
        TOKEN: body["accessToken"],
        REFRESH: body["refreshToken"],
        CSRF: body["csrfToken"],
    }
    assert answer.all("cache-control") == ["no-store"]


async def test_without_sessions_there_is_no_refresh_token():
    browser = await make_browser()
    await browser.sign_in()
    assert [line.partition("=")[0] for line in browser.lines] == [TOKEN, CSRF]
    assert all(re.search("Max-Age=86[34]..;", line) for line in browser.lines)


async def test_options_change_the_cookies():
    cookie = TokenCookie(
        name="t", refresh_name="r", csrf_name="c", refresh_path="/api/login", same_site="strict"
    )
    browser = await make_browser(sessions="sessions", cookie=cookie)
    await browser.sign_in()
    assert [*browser.cookies] == ["t", "c", "r"]
    assert all(line.endswith("SameSite=Strict") for line in browser.lines)
    assert "; Path=/api/login; " in browser.lines[2]


async def test_tokens_can_be_kept_away_from_scripts():
    browser = await make_browser(sessions="sessions", cookie=TokenCookie(tokens_in_body=False))
    body = (await browser.sign_in()).json
    assert sorted(body) == ["authentication", "csrfToken", "user"]
    renewed = await browser.ask("POST", "/authentication", {"strategy": "refresh"}, **browser.csrf)
    again = await browser.ask("POST", "/authentication", {"strategy": "jwt"}, **browser.csrf)
    gone = await browser.ask("DELETE", "/authentication", **browser.csrf)
    for answer in (renewed, again, gone):
        assert answer.status in {200, 201}
        assert "accessToken" not in answer.text
        assert "refreshToken" not in answer.text
    assert renewed.json["csrfToken"] == body["csrfToken"]  # of the same session


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": HOST},  # not a browser
        {"Host": HOST, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Host": HOST, "Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_other_pages_sign_nobody_in_by_cookies(browser, headers):
    answer = await browser.sign_in(headers=headers)
    assert browser.lines == []
    assert answer.json["accessToken"]  # FeathersJS' clients need nothing else
    assert "csrfToken" not in answer.json


async def test_a_failed_sign_in_sets_no_cookies(browser):
    answer = await browser.ask("POST", "/authentication", login(password="wrong"))
    assert answer.status == 401
    assert browser.lines == []


async def test_a_sign_in_that_a_hook_lets_fail_sets_no_cookies():
    def fail(context):
        raise NotAuthenticated("not today")

    browser = await make_browser(
        lambda app: app.service("authentication").hooks(after={"create": [fail]})
    )
    assert (await browser.ask("POST", "/authentication", login())).status == 401
    assert browser.lines == []


@pytest.mark.parametrize("given", ["theme=dark", ["theme=dark"]])
async def test_cookies_and_results_of_hooks_stay(given):
    def hide(context):
        context.http["headers"] = {"Set-Cookie": given, "X-Own": "1"}
        context.dispatch = RedactedRecord(context.result, {"user": None}, ("test",))

    browser = await make_browser(
        lambda app: app.service("authentication").hooks(after={"create": [hide]})
    )
    answer = await browser.sign_in()
    assert [*browser.cookies] == ["theme", TOKEN, CSRF]
    assert answer.get("x-own") == "1"
    assert sorted(answer.json) == ["csrfToken", "user"]
    assert answer.json["user"] is None


@pytest.mark.parametrize("result", ["welcome", {"authentication": "by cookie"}])
async def test_a_result_of_another_form_is_left_alone(result):
    def replace(context):
        context.dispatch = result

    browser = await make_browser(
        lambda app: app.service("authentication").hooks(after={"create": [replace]}),
        cookie=TokenCookie(tokens_in_body=False),
    )
    body = (await browser.sign_in()).json
    csrf = {} if isinstance(result, str) else {"csrfToken": browser.cookies[CSRF]}
    assert body == (result if isinstance(result, str) else {**result, **csrf})
    assert [*browser.cookies] == [TOKEN, CSRF]


async def test_calls_of_the_server_itself_set_no_cookies(browser):
    service = browser.app.service("authentication")
    result = await service.create(login())
    credentials = {"strategy": "jwt", "accessToken": result["accessToken"]}
    assert "csrfToken" not in result
    assert "csrfToken" not in await service.create(login(), provider="socketio")
    assert await service.remove(None, authentication=credentials)


# -- requests with a cookie ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_reading_needs_the_cookie_alone(browser, method):
    await browser.sign_in()
    for headers in ({"Host": HOST}, {"Host": HOST, "Sec-Fetch-Site": "cross-site"}, OWN):
        answer = await browser.ask(method, "/notes", headers=headers)
        assert answer.status == 200
        assert answer.get("cache-control") == "private"
        assert "Cookie" in answer.vary


async def test_changing_needs_page_and_csrf_token(browser):
    await browser.sign_in()
    answer = await browser.ask("POST", "/notes", {}, **browser.csrf)
    assert (answer.status, answer.json) == (201, {"user": "ada@example.com"})
    assert answer.get("cache-control") == "private"


ORIGINS_OF_OTHERS = {
    "no headers": {},
    "no origin, another site": {"Sec-Fetch-Site": "same-site"},
    "another origin": {"Origin": "https://evil.example"},
    "a sandboxed frame": {"Origin": "null"},
    "an empty origin": {"Origin": ""},
    "no host in it": {"Origin": "https://"},
    "without encryption": {"Origin": f"http://{HOST}"},
    "a subdomain": {"Origin": f"https://a.{HOST}"},
    "the host in the name of another": {"Origin": f"https://{HOST}.evil.example"},
    "another port": {"Origin": f"https://{HOST}:8443"},
    "the host as a user name": {"Origin": f"https://{HOST}@evil.example"},
    "another scheme": {"Origin": f"chrome-extension://{HOST}"},
    "own origin, but of another site": {**OWN, "Sec-Fetch-Site": "cross-site"},
    "a navigation": {**OWN, "Sec-Fetch-Site": "none"},
}


@pytest.mark.parametrize("headers", ORIGINS_OF_OTHERS.values(), ids=[*ORIGINS_OF_OTHERS])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_of_another_site_is_refused(browser, headers, method):
    await browser.sign_in()
    sent = {"Host": HOST, **headers}
    answer = await browser.ask(method, "/route" if method == "GET" else "/notes", {}, sent)
    assert answer.status in {403, 405}  # the service has no `update`, `patch` and `remove`
    created = await browser.ask("POST", "/notes", {}, sent, **browser.csrf)  # as if it knew it
    assert created.status == 403
    assert "Origin" in created.json["message"]


async def test_two_origins_are_none(browser):
    await browser.sign_in()
    pairs = [*OWN.items(), ("Origin", "https://evil.example"), ("X-CSRF-Token", "x")]
    pairs.append(("Cookie", f"{TOKEN}={browser.cookies[TOKEN]}"))
    answer = await call(browser.app, "POST", "/notes", b"", pairs)
    assert answer.status == 403


@pytest.mark.parametrize("host", ["", None])
async def test_a_request_without_host_is_refused(browser, host):
    await browser.sign_in()
    headers = {**OWN, "Origin": "https://", **({} if host is None else {"Host": host})}
    headers = {n: v for n, v in headers.items() if host is not None or n != "Host"}
    assert (await browser.ask("POST", "/notes", {}, headers, **browser.csrf)).status == 403


@pytest.mark.parametrize("csrf", ["", "x", "\xe4", "a" * 43])
async def test_a_wrong_csrf_token_is_refused(browser, csrf):
    await browser.sign_in()
    answer = await browser.ask("POST", "/notes", {}, X_CSRF_Token=csrf)
    assert answer.status == 403
    assert CSRF in answer.json["message"]
    assert (await browser.ask("POST", "/notes", {})).status == 403


@pytest.mark.parametrize("options", [{}, {"sessions": "sessions"}])
async def test_the_csrf_token_of_another_sign_in_is_refused(options):
    browser = await make_browser(**options)
    await browser.sign_in()
    other = Browser(browser.app)
    await other.sign_in()
    assert (await browser.ask("POST", "/notes", {}, **other.csrf)).status == 403
    assert (await browser.ask("POST", "/notes", {}, **browser.csrf)).status == 201


@pytest.mark.parametrize("host", ["localhost:3030", "127.0.0.1:3030", "[::1]", "chat.localhost"])
async def test_this_machine_needs_no_encryption(browser, host):
    await browser.sign_in()
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await browser.ask("POST", "/notes", {}, headers, **browser.csrf)).status == 201


@pytest.mark.parametrize("host", ["localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"])
async def test_other_machines_need_encryption(browser, host):
    await browser.sign_in()
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await browser.ask("POST", "/notes", {}, headers, **browser.csrf)).status == 403


async def test_other_origins_are_allowed_by_name():
    browser = await make_browser(cookie=TokenCookie(origins=["https://Front.example:8443"]))
    front = {"Host": HOST, "Origin": "https://front.example:8443", "Sec-Fetch-Site": "same-site"}
    await browser.sign_in(headers=front)
    assert (await browser.ask("POST", "/notes", {}, front, **browser.csrf)).status == 201
    assert (await browser.ask("POST", "/notes", {}, front)).status == 403
    assert (await browser.ask("GET", "/notes", headers=front)).status == 200


async def test_an_open_service_takes_a_refused_request_as_that_of_a_stranger(browser):
    await browser.sign_in()
    evil = {"Host": HOST, "Origin": "https://evil.example"}
    answer = await browser.ask("POST", "/open", {}, evil)
    assert (answer.status, answer.json) == (201, {"user": None})
    # So is a sign-in with a cookie of before, whose page has lost the CSRF token.
    assert (await browser.ask("POST", "/authentication", login())).status == 201


async def test_a_script_of_another_origin_reads_nothing(browser):
    await browser.sign_in()
    evil = {"Host": HOST, "Origin": "https://evil.example"}
    assert (await browser.ask("GET", "/notes", headers=evil)).status == 401


async def test_middleware_takes_the_cookie_too(browser):
    await browser.sign_in()
    assert (await browser.ask("GET", "/route")).json == 1


async def test_a_hook_that_names_another_strategy_takes_no_cookie(browser):
    class Never(JWTStrategy):
        def parse(self, req, res):
            return None

    service = browser.app.service("authentication").service
    service.register("other", Never())
    browser.app.get("/other", authenticated("other"), lambda req, res: res.end())
    await browser.sign_in()
    assert service.parse(FakeRequest(browser), None, "other") is None
    assert service.parse(FakeRequest(browser), None, "jwt")["accessToken"]


class FakeRequest:
    """A request for a page of the application.

    Args:
        browser: Its cookies are sent.
    """

    def __init__(self, browser: Browser) -> None:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        self.headers = {"host": HOST, "sec-fetch-site": "same-origin", "cookie": cookie}
        raw = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        self.scope = {"method": "GET", "headers": raw}
        self.sent_headers = dict(raw)


async def test_without_a_cookie_caches_learn_that_it_matters(browser):
    answer = await browser.ask("GET", "/open")
    assert "Cookie" in answer.vary
    assert answer.get("cache-control") is None


async def test_other_cookies_sign_nobody_in(browser):
    browser.cookies = {"theme": "dark", TOKEN: "", "__host-token": "x"}
    answer = await browser.ask("GET", "/notes")
    assert answer.status == 401
    assert answer.get("cache-control") is None


async def test_what_middleware_says_about_caches_counts():
    async def forbid(req, res, next):
        res.set("Cache-Control", "no-store")
        await next()

    app = express(App()).use(json_body()).use(forbid).configure(rest())
    app.use("users", MemoryService(start_id=1)).use("open", Notes())
    add_authentication(app, cookie=TokenCookie())
    await app.setup()
    await add_user(app)
    browser = Browser(app)
    await browser.sign_in()
    assert (await browser.ask("GET", "/open")).get("cache-control") == "no-store"


# -- other credentials take precedence -------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["Bearer wrong", "Basic QTpC", "Bearer", "", "x", "Refresh x", "Bearer a.b.c"]
)
async def test_a_wrong_header_does_not_fall_back_to_the_cookie(browser, value):
    await browser.sign_in()
    for method in ("GET", "POST"):
        answer = await browser.ask(method, "/notes", Authorization=value, **browser.csrf)
        assert answer.status == 401
    for method, data in (("POST", {"strategy": "refresh"}), ("DELETE", None)):
        answer = await browser.ask(
            method, "/authentication", data, Authorization=value, **browser.csrf
        )
        assert answer.status == 401


async def test_a_header_needs_no_csrf_token(browser):
    token = (await browser.sign_in()).json["accessToken"]
    browser.cookies[TOKEN] = "wrong"
    evil = {"Host": HOST, "Origin": "https://evil.example", "Authorization": f"Bearer {token}"}
    assert (await browser.ask("POST", "/notes", {}, evil)).status == 201


async def test_a_header_of_another_name_takes_precedence_too():
    def rename(app):
        strategy = JWTStrategy(header="X-Token", schemes=["Token"])
        app.service("authentication").service.register("jwt", strategy)

    browser = await make_browser(rename)
    await browser.sign_in()
    assert (await browser.ask("GET", "/notes")).status == 200
    for value in ("Token wrong", "Basic QTpC"):
        assert (await browser.ask("GET", "/notes", X_Token=value)).status == 401


# -- renewal and sign-out --------------------------------------------------------------------------


async def test_a_refresh_token_is_taken_from_its_cookie(browser):
    await browser.sign_in()
    before, csrf = dict(browser.cookies), browser.csrf
    del browser.cookies[TOKEN]  # it has expired
    answer = await browser.ask("POST", "/authentication", {"strategy": "refresh"}, **csrf)
    assert answer.status == 201
    assert browser.cookies[REFRESH] != before[REFRESH]
    assert browser.cookies[CSRF] == before[CSRF]  # so other tabs go on
    assert (await browser.ask("POST", "/notes", {}, **csrf)).status == 201


@pytest.mark.parametrize("headers", [{"Host": HOST, "Origin": "https://evil.example"}, OWN])
async def test_another_site_does_not_renew(browser, headers):
    await browser.sign_in()
    answer = await browser.ask("POST", "/authentication", {"strategy": "refresh"}, headers)
    assert answer.status == 403
    assert (await browser.ask("GET", "/notes")).status == 200  # and the session goes on


async def test_a_refresh_token_in_the_data_takes_precedence(browser):
    token = (await browser.sign_in()).json["refreshToken"]
    browser.cookies[REFRESH] = "wrong"
    data = {"strategy": "refresh", "refreshToken": token}
    assert (await browser.ask("POST", "/authentication", data)).status == 201


@pytest.mark.parametrize("token", ["wrong", "a.b.c", ""])
async def test_a_wrong_refresh_token_is_refused(browser, token):
    browser.cookies[REFRESH] = token
    answer = await browser.ask("POST", "/authentication", {"strategy": "refresh"})
    assert answer.status == 401


async def test_a_page_asks_who_it_is(browser):
    await browser.sign_in()
    answer = await browser.ask("POST", "/authentication", {"strategy": "jwt"}, **browser.csrf)
    assert answer.json["user"]["email"] == "ada@example.com"
    assert (await browser.ask("POST", "/authentication", {"strategy": "jwt"})).status == 403
    browser.cookies.clear()
    assert (await browser.ask("POST", "/authentication", {"strategy": "jwt"})).status == 401


@pytest.mark.parametrize("data", [[], [login()], "x", {}, {"strategy": ["refresh"]}])
async def test_data_of_any_form_is_refused(browser, data):
    await browser.sign_in()
    answer = await browser.ask("POST", "/authentication", data, **browser.csrf)
    assert 400 <= answer.status < 500


async def test_a_sign_out_removes_the_cookies(browser):
    await browser.sign_in()
    stolen = dict(browser.cookies)
    assert (await browser.ask("DELETE", "/authentication")).status == 403
    answer = await browser.ask("DELETE", "/authentication", **browser.csrf)
    assert answer.status == 200
    assert browser.cookies == {}
    assert [line.partition(";")[2].partition(" Secure")[0] for line in browser.lines] == [
        " Path=/; Max-Age=0;",
        " Path=/; Max-Age=0;",
        " Path=/authentication; Max-Age=0;",
    ]
    browser.cookies = stolen
    assert (await browser.ask("GET", "/notes")).status == 401


async def test_a_sign_out_works_with_the_refresh_token_alone(browser):
    await browser.sign_in()
    csrf = browser.csrf
    del browser.cookies[TOKEN]
    assert (await browser.ask("DELETE", "/authentication")).status == 403
    assert (await browser.ask("DELETE", "/authentication", **csrf)).status == 200
    assert browser.cookies == {}
    assert await browser.app.service("sessions").find() == []


async def test_a_sign_out_without_cookies_is_refused(browser):
    assert (await browser.ask("DELETE", "/authentication")).status == 401


async def test_a_sign_out_of_another_page_leaves_the_cookies(browser):
    token = (await browser.sign_in()).json["accessToken"]
    evil = {"Host": HOST, "Origin": "https://evil.example", "Authorization": f"Bearer {token}"}
    assert (await browser.ask("DELETE", "/authentication", headers=evil)).status == 200
    assert browser.lines == []


async def test_a_token_that_is_not_valid_says_why(browser):
    await browser.sign_in()
    other = await make_browser(secret="another secret of it, just as long as the first")
    await other.sign_in()
    browser.cookies[TOKEN] = other.cookies[TOKEN]
    answer = await browser.ask("POST", "/notes", {}, **browser.csrf)
    assert (answer.status, answer.json["message"]) == (401, "invalid signature")


async def test_an_error_leaves_the_cookies(browser):
    """A page renews by its refresh token, and a concurrent request may have just done so."""
    await browser.sign_in()
    await browser.app.service("sessions").remove(None, adapter={"multi": True})
    kept = dict(browser.cookies)
    assert (await browser.ask("GET", "/notes")).status == 401
    assert (await browser.ask("DELETE", "/authentication", **browser.csrf)).status == 401
    assert browser.cookies == kept
    await browser.sign_in()
    assert (await browser.ask("GET", "/notes")).status == 200


async def test_a_second_setup_changes_nothing(browser):
    service = browser.app.service("authentication").service
    await service.setup(browser.app, "authentication")
    await browser.sign_in()
    assert len(browser.lines) == 3


# -- real time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "email"),
    [
        ({"origin": f"https://{HOST}"}, "ada@example.com"),
        ({"sec-fetch-site": "same-origin"}, "ada@example.com"),
        ({"origin": f"https://{HOST}", "authorization": "Basic QTpC"}, None),
        ({}, None),
        ({"origin": "https://evil.example"}, None),
        ({"sec-fetch-site": "cross-site"}, None),
        ({"origin": "null"}, None),
    ],
)
async def test_a_connection_of_a_page_of_ours_is_signed_in(browser, headers, email):
    await browser.sign_in()
    sent = {"host": HOST, "cookie": f"{TOKEN}={browser.cookies[TOKEN]}", **headers}
    connection = open_connection(browser.app, headers=sent)
    await identify_connection(browser.app, connection)
    assert (connection.user and connection.user["email"]) == email
    assert (connection.authentication is None) == (email is None)
    if email is None:
        with pytest.raises(NotAuthenticated):
            await call_over(connection, browser.app, "notes", "find")
    else:
        await call_over(connection, browser.app, "notes", "find")


async def test_a_connection_does_not_get_the_cookie_that_middleware_has_read(browser):
    await browser.sign_in()
    service = browser.app.service("authentication").service
    request = FakeRequest(browser)
    request.headers.pop("sec-fetch-site")
    credentials = service.parse(request, None)
    assert credentials["accessToken"]  # for a GET, which another site may make
    connection = open_connection(browser.app, authentication=credentials)
    await identify_connection(browser.app, connection)
    assert (connection.user, connection.authentication) == (None, None)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "a b"}, "not a name"),
        ({"name": "__Host-csrf"}, "name of its own"),
        ({"name": "A", "csrf_name": "a"}, "name of its own"),
        ({"csrf_name": "__Host-Http-csrf"}, "http_only=True"),
        ({"refresh_path": "x"}, "not a path"),
        ({"refresh_name": "__Host-refresh", "refresh_path": "/login"}, "no domain"),
        ({"same_site": "Lax"}, "same_site is"),
        ({"origins": ["*"]}, "not an origin"),
        ({"origins": ["null"]}, "not an origin"),
        ({"origins": ["https://*.example"]}, "not an origin"),
        ({"origins": ["https://app.example/"]}, "not an origin"),
    ],
)
def test_wrong_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        TokenCookie(**options)


def test_options_of_another_type_are_refused():
    with pytest.raises(TypeError, match="list of texts"):
        TokenCookie(origins="https://app.example")
    with pytest.raises(TypeError, match=r"cookie=TokenCookie\(\)"):
        add_authentication(App(), cookie=True)


async def test_cookies_need_access_tokens():
    app = App()
    app.use("users", MemoryService())
    add_authentication(app, strategies=["local"], cookie=TokenCookie(), secret=SECRET)
    with pytest.raises(ValueError, match="register a JWTStrategy"):
        await app.setup()


ADMIN = {
    "name": "__Host-admin",
    "refresh_name": "__Secure-admin-refresh",
    "csrf_name": "__Host-admin-csrf",
}


@pytest.mark.parametrize("same", [{}, {"name": TOKEN.upper()}, {"csrf_name": TOKEN}])
@pytest.mark.parametrize("is_mounted", [False, True])
async def test_two_services_need_cookies_of_different_names(same, is_mounted):
    app = App().use("users", MemoryService())
    add_authentication(app, cookie=TokenCookie())
    cookie = TokenCookie(**{**ADMIN, **same} if same else {})
    if is_mounted:
        inner = App().use("users", MemoryService())
        add_authentication(inner, "login", cookie=cookie, secret="another secret, as long as it is")
        app.use("admin", inner)
    else:
        add_authentication(app, "login", cookie=cookie)
    with pytest.raises(ValueError, match=r"'(admin/)?login' have the same cookies, .*__host-token"):
        await app.setup()


def sibling(**options):
    app = App().use("users", MemoryService())
    add_authentication(
        app, cookie=TokenCookie(**options), secret=f"of {id(app)}, with thirty-two bytes"
    )
    return app


@pytest.mark.parametrize("are_deep", [False, True])
async def test_services_mounted_side_by_side_need_different_cookies(are_deep):
    def outer():
        return App().use("a", sibling()).use("b", second)

    second = sibling()
    if are_deep:
        App().use("c", outer()).use("d", App().use("e", sibling(**ADMIN)))
    else:
        outer()
    with pytest.raises(ValueError, match=r"have the same cookies, .*__host-token"):
        await second.setup()
    other = sibling(**ADMIN)
    App().use("a", sibling()).use("b", other)
    await other.setup()
    await other.teardown()


async def test_web_applications_mounted_side_by_side_need_different_cookies():
    second = express(sibling())
    express().use("/a", express(sibling())).use("/b", second)
    with pytest.raises(ValueError, match=r"have the same cookies, .*__host-token"):
        await second.setup()
    other = express(sibling(**ADMIN))
    express().use("/a", express(sibling())).use("/b", other)
    await other.setup()
    await other.teardown()


async def test_two_services_with_cookies_of_different_names():
    app = App().use("users", MemoryService())
    service = add_authentication(app, cookie=TokenCookie())
    add_authentication(app, "login", cookie=TokenCookie(**ADMIN))
    add_authentication(app, "api", cookie=None)
    app.use("again", service)
    await app.setup()
    await app.teardown()


async def test_a_refresh_token_of_the_whole_host_needs_its_path():
    app = App()
    app.use("users", MemoryService()).use("sessions", MemoryService(), methods=[])
    options = {"refresh_name": "__Host-refresh"}
    add_authentication(app, sessions="sessions", cookie=TokenCookie(**options))
    with pytest.raises(ValueError, match=r'needs secure=True, path="/"'):
        await app.setup()
    browser = await make_browser(
        sessions="sessions", cookie=TokenCookie(**options, refresh_path="/")
    )
    await browser.sign_in()
    assert "__Host-refresh" in browser.cookies


async def test_an_application_without_cookies_reads_none():
    browser = await make_browser(cookie=None)
    answer = await browser.sign_in()
    assert browser.lines == []
    browser.cookies = {TOKEN: answer.json["accessToken"]}
    answer = await browser.ask("GET", "/notes")
    assert answer.status == 401
    assert "Cookie" not in answer.vary


@pytest.mark.parametrize(
    ("given", "path"), [(None, "/authentication"), ("/api/login", "/api/login")]
)
async def test_the_options_have_the_path_of_the_refresh_token(given, path):
    app = make_app(cookie=TokenCookie(refresh_path=given))
    await app.setup()
    assert app.service("authentication").service.token_cookies.options.refresh_path == path
