"""`github`: who somebody is, by GitHub's own interface."""

from __future__ import annotations

import httpx2
import pytest
from tests.accounts.providers.asking import SENT, VERIFIER, claims_of, refusal, start

from alula.accounts import Claims, ProviderError, github

TOKEN = "https://github.com/login/oauth/access_token"
USER = "https://api.github.com/user"
EMAILS = "https://api.github.com/user/emails"
SECRET = {"client_id": "app", "client_secret": "secret"}
ADA = {"id": 1001, "login": "ada", "name": "Ada", "email": "public@example.com"}
OLD = {"email": "old@example.com", "primary": False, "verified": True}
PRIMARY = {"email": "ada@example.com", "primary": True, "verified": True}


@pytest.fixture
def site(web):
    web.answers[TOKEN] = {"access_token": "gho_1", "token_type": "bearer", "scope": "user:email"}
    web.answers[USER] = ADA
    web.answers[EMAILS] = [OLD, PRIMARY]
    return web


async def test_a_person_signs_in(site):
    provider = github(**SECRET)
    url = await start(provider, prompt="select_account", login_hint="x")
    assert url.startswith("https://github.com/login/oauth/authorize?response_type=code&")
    for sent in ("scope=user%3Aemail", "state=state-1", "prompt=select_account"):
        assert f"&{sent}&" in f"{url}&"
    assert "&code_challenge_method=S256&" in url
    assert "login_hint" not in url
    claims = await claims_of(provider)
    assert claims == Claims(
        "github", "https://github.com", "1001", "ada@example.com", True, "Ada", ADA
    )
    assert site.form() == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": SENT["redirect_uri"],
        "code_verifier": VERIFIER,
        **SECRET,
    }
    assert site.requests[0].headers["accept"] == "application/json"
    for request in site.requests[1:]:
        assert request.headers["authorization"] == "Bearer gho_1"
        assert request.headers["accept"] == "application/vnd.github+json"
    await provider.close()


async def test_an_error_with_status_200_is_an_error(site):
    site.answers[TOKEN] = {"error": "incorrect_client_credentials", "error_description": "secret"}
    error = await refusal(github(**SECRET))
    assert error.code == "unavailable"
    assert str(error) == "github.com gave no token: incorrect_client_credentials"


ADDRESSES = {
    "not verified": ([{**PRIMARY, "verified": False}, OLD], ("ada@example.com", False)),
    "nearly verified": ([{**PRIMARY, "verified": 1}], ("ada@example.com", False)),
    "no primary": ([OLD, "x", {**PRIMARY, "primary": "yes"}], (None, False)),
    "no text": ([{**PRIMARY, "email": 5}], (None, False)),
    "none": ([], (None, False)),
}


@pytest.mark.parametrize("case", ADDRESSES)
async def test_only_the_primary_address_counts(case, site):
    site.answers[EMAILS], expected = ADDRESSES[case]
    claims = await claims_of(github(**SECRET))
    assert (claims.email, claims.is_verified) == expected


async def test_without_the_scope_nobody_has_an_address(site):
    del site.answers[EMAILS]
    claims = await claims_of(github(scopes=["read:user"], **SECRET))
    assert (claims.subject, claims.email, claims.is_verified) == ("1001", None, False)


@pytest.mark.parametrize("number", [None, "1001", 0, True, 1.0, [1]])
async def test_somebody_without_a_number_is_nobody(number, site):
    site.answers[USER] = {**ADA, "id": number}
    assert (await refusal(github(**SECRET))).code == "invalid"


async def test_an_answer_of_another_form_is_refused(site):
    site.answers[USER] = [ADA]
    assert str(await refusal(github(**SECRET))) == "GitHub has sent no user"
    site.answers[USER] = ADA
    site.answers[EMAILS] = {"0": PRIMARY}
    assert str(await refusal(github(**SECRET))) == "GitHub has sent no addresses"
    site.answers[EMAILS] = httpx2.Response(404)
    assert str(await refusal(github(**SECRET))) == "api.github.com responded with 404"


async def test_the_issuer_of_an_answer_is_checked():
    provider = github(**SECRET)
    assert await provider.issuer() == "https://github.com"
    for iss in (None, "https://github.com", "https://github.com/login/oauth"):
        await provider.check_issuer(iss)
    with pytest.raises(ProviderError, match="another issuer"):
        await provider.check_issuer("https://gitlab.com")


HOSTS = {
    "github.work.example": "https://github.work.example/api/v3",
    "octo.ghe.com": "https://api.octo.ghe.com",
}


@pytest.mark.parametrize("host", HOSTS)
async def test_an_enterprise_has_hosts_of_its_own(host, web):
    web.answers = {
        f"https://{host}/login/oauth/access_token": {"access_token": "a", "token_type": "bearer"},
        f"{HOSTS[host]}/user": ADA,
        f"{HOSTS[host]}/user/emails": [PRIMARY],
    }
    claims = await claims_of(github(name="work", host=host, **SECRET))
    assert (claims.provider, claims.issuer) == ("work", f"https://{host}")


def test_a_host_is_a_name():
    for host in ("https://github.com", "github.com/x", "localhost", "github.com:x", ""):
        with pytest.raises(ValueError, match="host is"):
            github(host=host)
