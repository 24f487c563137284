"""The application of the page on authentication does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.express.asgi_client import call, post_json

PAGE = Path(__file__).parents[2] / "docs" / "authentication.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

ADA = {"id": 0, "email": "ada@example.com"}


@pytest.fixture(scope="module")
def page():
    """What the code of the page has defined; outside of any event loop, since it runs its own."""
    namespace = {"__name__": "documentation"}
    for code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(code, str(PAGE), "exec"), namespace)
    return namespace


@pytest.fixture
def app(page):
    return page["app"]


@pytest.fixture
def token(page):
    return page["result"]["accessToken"]


async def test_anybody_can_register_and_sign_in(app):
    data = {"email": "bob@example.com", "password": "battery staple"}
    answer = await post_json(app, data, "/users")
    assert (answer.status, answer.json["email"]) == (201, "bob@example.com")
    assert "password" not in answer.json
    answer = await post_json(app, {"strategy": "local", **data}, "/authentication")
    assert (answer.status, answer.json["user"]["email"]) == (201, "bob@example.com")


@pytest.mark.parametrize("url", ["/users", "/users/0", "/notes", "/me", "/report", "/status"])
async def test_all_else_is_for_those_who_are_signed_in(app, url):
    assert (await call(app, url=url)).status == 401


async def test_the_token_signs_in(app, token):
    headers = {"authorization": f"Bearer {token}"}
    assert (await call(app, url="/users/0", headers=headers)).json == ADA
    assert (await call(app, url="/me", headers=headers)).json == ADA
    answer = await call(app, "DELETE", "/authentication", headers=headers)
    assert (answer.status, answer.json["user"]) == (200, ADA)


async def test_the_token_of_a_link(app, token):
    assert (await call(app, url=f"/report?access_token={token}")).text == "..."
    assert (await call(app, url="/report?access_token=x")).status == 401
    assert (await call(app, url=f"/me?access_token={token}")).status == 401


async def test_an_api_key(page):
    machines, key = page["machines"], page["api_key"]
    answer = await call(machines, url="/export", headers={"authorization": f"ApiKey {key}"})
    assert answer.json == {"for": "CI"}
    for text in (key, f"Bearer {key}", f"ApiKey {key}x"):
        answer = await call(machines, url="/export", headers={"authorization": text})
        assert answer.status == 401
    data = {"strategy": "apiKey", "apiKey": key}
    assert (await post_json(machines, data, "/authentication")).status == 401


async def test_a_certificate(app):
    await app.service("users").create(
        {"email": "robot@example.com", "password": "battery staple", "certificate": "robot"}
    )
    for ip, name, status in (
        ("10.0.0.5", "robot", 200),
        ("10.0.0.5", "other", 401),
        ("10.0.0.6", "robot", 401),
    ):
        headers = {"x-client-certificate": name}
        answer = await call(app, url="/status", headers=headers, client=(ip, 1))
        assert answer.status == status


async def test_claims_of_ones_own(page):
    service = page["MyAuthentication"](page["app"], secret="x" * 32)
    assert await service.get_payload({"user": {"roles": ["a"]}}, None) == {"roles": ["a"]}
