"""The header of a token, spelled in every way that servers have fallen for."""

from __future__ import annotations

import pytest
from tests.authentication.attacks.target import Target


@pytest.fixture(scope="module")
async def target():
    return await Target().start()


@pytest.fixture(scope="module")
async def token(target):
    return await target.token()


@pytest.mark.parametrize(
    "spelled",
    [
        "Bearer {}",
        "bearer {}",
        "BEARER {}",
        "JWT {}",
        "Bearer   {}",
        " Bearer {} ",
        "Bearer {} what follows is not read",
        "{}",
    ],
)
async def test_what_clients_send_is_taken(target, token, spelled):
    assert (await target.opens(spelled.format(token))).json["id"] == 1


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        " ",
        "Bearer",
        "Bearer ",
        "Bearer Bearer {}",
        "Bearer Bearer",
        "Bearer bearer {}",
        "JWT Bearer {}",
        "Bearer {}, Bearer {0}",
        "Bearer {0},{0}",
        "Bearer {},",
        "Bearer {};",
        "Bearer x {}",
        'Bearer "{}"',
        "Bearer={}",
        "Bearer:{}",
        "Bearer:: {}",
        "Bearer : {}",
        "Bearer,{}",
        "Bearer\t\t",
        "Bearer\xa0{}",
        "Bearer\x85{}",
        "\xa0Bearer {}",
        "Bearer {}\xa0",
        "Bearer \xa0{}",
        "Bea\xadrer {}",
        "B\xe9arer {}",
        "Bearer \xef\xbb\xbf{}",
        "XBearer {}",
        "BearerX {}",
        "Bear {}",
        "Basic {}",
        "Token {}",
        "NotBearer {}",
        "Bearer|JWT {}",
        "{0} {0}",
        "null {}",
    ],
)
async def test_what_is_spelled_otherwise_opens_nothing(target, token, spelled):
    answer = await target.opens(spelled.replace("{}", "{0}").format(token))
    assert answer.status == 401
    assert token not in answer.text


async def test_two_headers_are_not_one(target, token):
    for pairs in (
        [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")],
        [("Authorization", "Bearer x"), ("authorization", f"Bearer {token}")],
        [("Authorization", f"Bearer {token}")] * 2,
        [("Authorization", ""), ("Authorization", f"Bearer {token}")],
    ):
        assert (await target.ask("GET", "/secrets", headers=pairs)).status == 401


@pytest.mark.parametrize(
    "name",
    [
        "X-Authorization",
        "Proxy-Authorization",
        "Authorization_",
        "HTTP_AUTHORIZATION",
        "X-Forwarded-User",
        "X-Access-Token",
        "Cookie",
    ],
)
async def test_another_header_is_another_header(target, token, name):
    for value in (f"Bearer {token}", f"accessToken={token}", "1"):
        assert (await target.ask("GET", "/secrets", headers={name: value})).status == 401


async def test_a_query_is_no_header(target, token):
    for url in (
        f"/secrets?access_token={token}",
        f"/secrets?accessToken={token}",
        f"/secrets?authentication[strategy]=jwt&authentication[accessToken]={token}",
        "/secrets?authenticated=true&user[id]=1&provider=",
    ):
        answer = await target.ask("GET", url)
        assert answer.status == 401
        assert token not in answer.text


async def test_a_body_is_no_header(target, token):
    proof = {"authentication": {"strategy": "jwt", "accessToken": token}, "user": {"id": 1}}
    answer = await target.ask("PATCH", "/users/2", {**proof, "role": "admin"})
    assert answer.status == 401


async def test_signing_out_takes_the_token_of_the_caller_alone(target, token):
    other = await target.token("bob@example.com")
    header = {"Authorization": f"Bearer {token}"}
    assert (await target.ask("DELETE", f"/authentication/{other}", headers=header)).status == 401
    assert (await target.ask("DELETE", f"/authentication/{other}")).status == 401
    assert (await target.ask("DELETE", "/authentication")).status == 401
    assert (await target.ask("DELETE", f"/authentication/{token}", headers=header)).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH"])
async def test_a_sign_in_cannot_be_read_or_changed(target, token, method):
    value = None if method == "GET" else {"sub": "2"}
    header = {"Authorization": f"Bearer {token}"}
    for url in ("/authentication", f"/authentication/{token}"):
        answer = await target.ask(method, url, value, header)
        assert answer.status == 405
        assert token not in answer.text


@pytest.mark.parametrize(
    "method", ["authenticate", "register", "strategy", "create_access_token", "setup", "_attempt"]
)
async def test_what_belongs_to_the_server_is_no_method_of_the_service(target, method):
    value = {"strategy": "local", "email": "ada@example.com", "password": "right"}
    answer = await target.ask("POST", "/authentication", value, {"X-Service-Method": method})
    assert answer.status == 405
