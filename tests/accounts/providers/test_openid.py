"""`openid`: a sign-in with a provider, what is sent, and what is believed."""

from __future__ import annotations

import hashlib
import logging
from base64 import urlsafe_b64encode

import pytest
from tests.accounts.providers.asking import (
    SENT,
    STARTED,
    VERIFIER,
    claims_of,
    publish,
    refusal,
    sign_in,
    start,
)

from alula import App
from alula.accounts import Claims, ProviderError, openid

ISSUER = "https://id.example"
SECRET = {"client_id": "app", "client_secret": "secret: 100 %"}


@pytest.fixture
def published(web, rsa_key):
    """A provider that is written down, and its metadata."""
    made = openid("work", issuer=ISSUER, **SECRET)
    return made, publish(web, rsa_key, ISSUER, {"sub": "ada", "email": "a@b.c", "name": "Ada"})


async def test_a_person_signs_in(provider, fake):
    claims = await sign_in(provider, fake)
    assert claims == Claims("fake", fake.issuer, "ada", "ada@example.com", True, "Ada", claims.raw)
    assert claims.raw["aud"] == "app"
    assert "aud" not in repr(claims)


async def test_the_start_of_a_sign_in_sends_a_challenge_and_the_end_its_verifier(provider, fake):
    url = await start(provider, prompt="login", login_hint="ada", hd="x", client_id="eve")
    digest = hashlib.sha256(VERIFIER.encode()).digest()
    sent = dict(pair.split("=") for pair in url.partition("?")[2].split("&"))
    assert sent == {
        "client_id": "app",
        "response_type": "code",
        "redirect_uri": "https%3A%2F%2Fapp.example%2Foauth%2Ffake%2Fcallback",
        "scope": "openid+email+profile",
        "state": "state-1",
        "nonce": "nonce-1",
        "prompt": "login",
        "login_hint": "ada",
        "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    code = fake.sign_in(url)["code"]
    await provider.claims(**SENT, code=code, nonce="nonce-1")
    assert fake.token_requests == [
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": SENT["redirect_uri"],
            "code_verifier": VERIFIER,
            **fake.credentials,
        }
    ]


async def test_the_code_of_another_sign_in_is_refused(provider, fake):
    async def fails(code, **changes):
        with pytest.raises(ProviderError, match="gave no token: invalid_grant") as caught:
            await provider.claims(**{**SENT, "code": code, "nonce": "nonce-1", **changes})
        assert caught.value.code == "invalid"

    url = await start(provider)
    await fails(fake.sign_in(url)["code"], verifier="another" * 7)
    await fails(fake.sign_in(url)["code"], redirect_uri="https://app.example/other")
    used = fake.sign_in(url)["code"]
    await provider.claims(**SENT, code=used, nonce="nonce-1")
    await fails(used)


async def test_other_codes_are_not_sent(provider, fake):
    await start(provider)
    for code in ("", "a\nb", "\ud800", "x" * 4097):
        with pytest.raises(ProviderError, match="characters that are not allowed"):
            await provider.claims(**SENT, code=code, nonce="nonce-1")
    assert fake.token_requests == []


async def test_a_wrong_secret_is_not_a_fault_of_the_person(fake):
    wrong = openid("fake", issuer=fake.issuer, client_id="app", client_secret="wrong")
    error = await refusal(wrong, fake)
    assert (error.code, str(error)) == (
        "unavailable",
        "127.0.0.1 gave no token: invalid_client",
    )
    await wrong.close()


async def test_the_issuer_of_an_answer_is_checked(provider, fake):
    await provider.check_issuer(fake.issuer)
    for iss in (None, "https://other.example", fake.issuer + "/"):
        with pytest.raises(ProviderError, match="issuer") as caught:
            await provider.check_issuer(iss)
        assert caught.value.code == "invalid"


async def test_an_issuer_that_the_provider_does_not_send_may_be_missing(published):
    made, _ = published
    await made.check_issuer(None)
    await made.check_issuer(ISSUER)
    with pytest.raises(ProviderError, match="issuer"):
        await made.check_issuer("https://other.example")
    assert await made.issuer() == ISSUER


WITHOUT = {"email": None, "email_verified": None, "name": None}


async def test_what_an_id_token_lacks_is_asked_for(provider, fake):
    fake.changes = WITHOUT
    claims = await sign_in(provider, fake)
    assert (claims.email, claims.is_verified, claims.name) == ("ada@example.com", True, "Ada")


async def test_another_person_in_the_answer_is_refused(provider, fake):
    fake.changes = {**WITHOUT, "sub": "eve"}
    assert "another person" in str(await refusal(provider, fake))


async def test_verified_is_said_of_one_address_alone(provider, fake):
    fake.changes = {**WITHOUT, "email": "victim@example.com"}
    claims = await sign_in(provider, fake)
    assert (claims.email, claims.is_verified) == ("victim@example.com", False)


async def test_an_id_token_with_everything_is_enough(published, web):
    made, metadata = published
    metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"  # would be a 404
    assert (await claims_of(made)).name == "Ada"


@pytest.mark.parametrize("answer", [["sub"], None, "x", {"name": "Ada"}])
async def test_an_answer_that_tells_nobody_is_refused(answer, web, rsa_key):
    made = openid("work", issuer=ISSUER, **SECRET)
    metadata = publish(web, rsa_key, ISSUER, {"sub": "ada"})
    metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    web.answers[f"{ISSUER}/userinfo"] = answer
    assert (await refusal(made)).code == "invalid"
    assert web.requests[-1].headers["authorization"] == "Bearer access-1"


async def test_addresses_are_not_trusted_unless_the_owner_says_so(fake):
    careful = openid("fake", issuer=fake.issuer, **fake.credentials)
    assert (await sign_in(careful, fake)).is_verified is False
    await careful.close()


SAID = [(True, True), ("true", True), (False, False), ("false", False), (1, True), (None, False)]


async def test_only_what_is_called_verified_is(provider, fake):
    for said, is_verified in SAID:
        fake.changes = {"email_verified": said}
        assert (await sign_in(provider, fake)).is_verified is is_verified, said


async def test_values_that_are_no_text_are_left_out(provider, fake):
    for value in (5, "", ["a@b.c"], "a\x00@b.c", "x" * 321):
        fake.changes = {"email": value, "name": value}
        claims = await sign_in(provider, fake)
        assert (claims.email, claims.name, claims.is_verified) == (None, None, False), value


async def test_the_secret_is_sent_as_the_provider_wants(published, web):
    made, metadata = published
    await claims_of(made)
    assert web.form()["client_secret"] == SECRET["client_secret"]
    assert "authorization" not in web.requests[-2].headers
    del metadata["token_endpoint_auth_methods_supported"]  # then it is the header (RFC 8414)
    await made.close()
    await claims_of(made)
    posts = [request for request in web.requests if request.method == "POST"]
    assert posts[-1].headers["authorization"] == "Basic YXBwOnNlY3JldCUzQSsxMDArJTI1"
    assert "client_secret" not in web.form()


async def test_it_reads_settings(web, rsa_key):
    publish(web, rsa_key, ISSUER, {"sub": "ada"})
    made = openid("at-work", issuer=ISSUER)
    with pytest.raises(ValueError, match="'at-work' has no client_id"):
        await start(made)
    app = App()
    app.set("at_work_client_id", "app")
    with pytest.raises(ValueError, match="needs a client_secret: set 'at_work_client_secret'"):
        made.configure(app)
    app.set("at_work_client_secret", "from settings")
    made.configure(app)
    await claims_of(made)
    assert web.form()["client_secret"] == "from settings"
    app.set("given_client_id", "other")
    given = openid("given", issuer=ISSUER, **SECRET)
    given.configure(app)
    assert "client_id=app" in await start(given)


async def test_nothing_shows_the_secret(published):
    made, _ = published
    shown = repr(made) + str(made) + repr(await claims_of(made)) + await start(made)
    assert repr(made) == "<OpenIDProvider work>"
    assert SECRET["client_secret"] not in shown
    assert "access-1" not in shown


async def test_no_log_has_a_secret(provider, fake, caplog):
    caplog.set_level(logging.DEBUG)
    await sign_in(provider, fake)
    fake.changes = {"aud": "other"}
    assert (await refusal(provider, fake)).code == "invalid"
    forms = fake.token_requests
    secrets = [VERIFIER, fake.client_secret, *(form["code"] for form in forms), *fake._users]
    assert len(forms) == 2
    assert "HTTP Request" in caplog.text  # httpx2 has told something
    assert [secret for secret in secrets if secret in caplog.text] == []


MISTAKES = {
    "scopes": ({"scopes": ["email"]}, "needs the scope 'openid'"),
    "none": ({"algorithms": ["RS256", "none"]}, "has algorithms="),
    "HMAC": ({"algorithms": ["HS256"]}, "has algorithms="),
    "a text": ({"algorithms": "RS256"}, "has algorithms="),
    "no algorithms": ({"algorithms": []}, "has algorithms="),
    "not private": ({"issuer": "http://id.example"}, "write its https URL"),
    "no host": ({"issuer": "https://"}, "write its https URL"),
    "no URL": ({"issuer": "https://[id"}, "write its https URL"),
    "two hosts": ({"issuer": "https://id.example\\@evil.example"}, "write its https URL"),
    "a port that is none": ({"issuer": "https://id.example:99999"}, "write its https URL"),
    "credentials": ({"issuer": "https://a:b@id.example"}, "write its https URL"),
    "much": ({"issuer": "https://id.example/" + "x" * 70_000}, "write its https URL"),
    "a query": ({"issuer": "https://id.example?x"}, "write its https URL"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_refused(case):
    changes, message = MISTAKES[case]
    with pytest.raises(ValueError, match=message):
        openid("work", **{"issuer": ISSUER, **SECRET, **changes})


def test_a_name_is_part_of_a_url():
    for name in ("", "Work", "a/b", "-a", "x" * 33, "w\u00f6rk"):
        with pytest.raises(ValueError, match="is part of a URL"):
            openid(name, issuer=ISSUER)


async def test_this_machine_needs_no_https(web, rsa_key):
    for host in ("localhost", "id.localhost", "127.0.0.1:8000", "[::1]:8000"):
        issuer = f"http://{host}"
        publish(web, rsa_key, issuer, {"sub": "ada"})
        made = openid("local", issuer=issuer, **SECRET)
        assert (await claims_of(made)).issuer == issuer


async def test_parameters_stay_behind_a_query_of_the_endpoint(published):
    made, metadata = published
    metadata["authorization_endpoint"] += "?tenant=1"
    url = await made.authorization_url(**STARTED, passed_on={})
    assert url.startswith("https://id.example/authorize?tenant=1&response_type=code&")
