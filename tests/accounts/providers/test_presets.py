"""Presets of Google, GitLab, Microsoft and Apple: what each of them does differently."""

from __future__ import annotations

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from tests.accounts.providers.asking import claims_of, publish, refusal, start

from alula import App
from alula.accounts import ProviderError, apple, gitlab, google, microsoft

SECRET = {"client_id": "app", "client_secret": "secret"}
ADA = {"sub": "ada", "email": "Ada@work.example", "email_verified": True, "name": "Ada"}
GOOGLE = "https://accounts.google.com"
LOGIN = "https://login.microsoftonline.com"
TENANT = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
OTHER = "11111111-2222-3333-4444-555555555555"
PRIVATE_ACCOUNTS = "9188040d-6c67-4c5b-b112-36a304b66dad"
APPLE = "https://appleid.apple.com"
IDS = {"client_id": "app", "team_id": "TEAM", "key_id": "KEY"}


@pytest.fixture(scope="module")
def apple_key():
    return ECKey.generate_key("P-256").as_pem(private=True).decode()


GOOGLE_ADDRESSES = {
    "of a Workspace": ({"hd": "work.example"}, True),
    "of Gmail": ({"email": "ADA@GMAIL.COM"}, True),
    "of others": ({}, False),
    "like Gmail": ({"email": "ada@evil-gmail.com"}, False),
    "not verified": ({"hd": "work.example", "email_verified": False}, False),
}


@pytest.mark.parametrize("case", GOOGLE_ADDRESSES)
async def test_google_vouches_for_the_addresses_that_it_manages(case, web, rsa_key):
    changes, is_verified = GOOGLE_ADDRESSES[case]
    publish(web, rsa_key, GOOGLE, {**ADA, **changes})
    claims = await claims_of(google(**SECRET))
    assert (claims.issuer, claims.is_verified) == (GOOGLE, is_verified)


async def test_google_lets_nobody_in_from_outside_of_a_workspace(web, rsa_key):
    provider = google(hd="work.example", **SECRET)
    publish(web, rsa_key, GOOGLE, {**ADA, "hd": "work.example"})
    assert "hd=work.example" in await start(provider, hd="evil.example", prompt="login")
    assert (await claims_of(provider)).is_verified
    for changes in ({}, {"hd": "evil.example"}):
        publish(web, rsa_key, GOOGLE, {**ADA, **changes})
        assert (await refusal(provider)).code == "access_denied"
    assert "hd=other.example" in await start(google(**SECRET), hd="other.example")


async def test_gitlab_is_trusted_with_confirmed_addresses(web, rsa_key):
    for host, options in (("gitlab.com", {}), ("git.work.example", {"host": "git.work.example"})):
        publish(web, rsa_key, f"https://{host}", ADA)
        claims = await claims_of(gitlab(**options, **SECRET))
        assert (claims.provider, claims.issuer) == ("gitlab", f"https://{host}")
        assert claims.is_verified
    publish(web, rsa_key, "https://gitlab.com", {**ADA, "email_verified": False})
    assert not (await claims_of(gitlab(**SECRET))).is_verified
    with pytest.raises(ValueError, match="host is"):
        gitlab(host="https://gitlab.com")


def published_microsoft(web, key, tenant, issuer, **claims):
    metadata = publish(
        web, key, f"{LOGIN}/{issuer}/v2.0", {**ADA, **claims}, at=f"{LOGIN}/{tenant}/v2.0"
    )
    return metadata, web.answers[f"{LOGIN}/{tenant}/v2.0/keys"]["keys"][0]


def of_tenant(tenant):
    return {"tid": tenant, "iss": f"{LOGIN}/{tenant}/v2.0"}


@pytest.mark.parametrize("tenant", ["common", "organizations"])
async def test_each_tenant_of_microsoft_is_an_issuer(tenant, web, rsa_key):
    provider = microsoft(tenant=tenant, **SECRET)
    _, key = published_microsoft(web, rsa_key, tenant, "{tenantid}", **of_tenant(TENANT))
    claims = await claims_of(provider)
    assert (claims.issuer, claims.is_verified) == (f"{LOGIN}/{TENANT}/v2.0", False)
    key["issuer"] = f"{LOGIN}/{{tenantid}}/v2.0"
    await provider.close()
    assert (await claims_of(provider)).subject == "ada"
    key["issuer"] = f"{LOGIN}/{OTHER}/v2.0"
    await provider.close()
    assert "another tenant" in str(await refusal(provider))


WRONG_TENANTS = {
    "none": {"iss": f"{LOGIN}/{TENANT}/v2.0"},
    "no id": {"tid": "common", "iss": f"{LOGIN}/common/v2.0"},
    "the pattern": {"tid": "{tenantid}"},
    "a number": {"tid": 5},
    "not that of the issuer": {**of_tenant(TENANT), "tid": OTHER},
    "of another site": {"tid": TENANT, "iss": f"https://evil.example/{TENANT}/v2.0"},
}


@pytest.mark.parametrize("case", WRONG_TENANTS)
async def test_a_wrong_tenant_is_refused(case, web, rsa_key):
    published_microsoft(web, rsa_key, "common", "{tenantid}", **WRONG_TENANTS[case])
    assert (await refusal(microsoft(**SECRET))).code == "invalid"


@pytest.mark.parametrize(("tenant", "issuer"), [(TENANT, TENANT), ("consumers", PRIVATE_ACCOUNTS)])
async def test_one_tenant_lets_nobody_in_from_another(tenant, issuer, web, rsa_key):
    provider = microsoft(tenant=tenant, **SECRET)
    published_microsoft(web, rsa_key, tenant, issuer, tid=issuer)
    assert (await claims_of(provider)).issuer == f"{LOGIN}/{issuer}/v2.0"
    published_microsoft(web, rsa_key, tenant, issuer, **of_tenant(OTHER))
    assert (await refusal(provider)).code == "invalid"
    with pytest.raises(ProviderError, match="another issuer"):
        await provider.check_issuer(f"{LOGIN}/{OTHER}/v2.0")


async def test_an_answer_may_name_the_tenant(web, rsa_key):
    provider = microsoft(**SECRET)
    published_microsoft(web, rsa_key, "common", "{tenantid}")
    assert await provider.issuer() == f"{LOGIN}/{{tenantid}}/v2.0"
    for iss in (None, f"{LOGIN}/{TENANT}/v2.0"):
        await provider.check_issuer(iss)
    for iss in (f"https://evil.example/{TENANT}/v2.0", f"{LOGIN}/common/v2.0", TENANT):
        with pytest.raises(ProviderError, match="another issuer"):
            await provider.check_issuer(iss)


EDOV = [(True, True), ("true", True), ("1", True), (1, True), (False, False), (None, False)]


async def test_addresses_of_microsoft_need_a_claim_about_their_domain(web, rsa_key):
    for said, is_verified in EDOV:
        published_microsoft(
            web, rsa_key, "common", "{tenantid}", **of_tenant(TENANT), xms_edov=said
        )
        assert (await claims_of(microsoft(**SECRET))).is_verified is is_verified, said


def test_a_tenant_is_one():
    for tenant in ("work.example", "", TENANT.upper(), "{tenantid}"):
        with pytest.raises(ValueError, match="tenant is"):
            microsoft(tenant=tenant)


async def test_apple_gets_a_secret_that_the_application_has_signed(web, rsa_key, apple_key):
    publish(web, rsa_key, APPLE, {**ADA, "email_verified": "true"})
    provider = apple(private_key=apple_key.replace("\n", "\\n"), **IDS)
    assert (provider.form_post, provider.start_parameters) == (True, frozenset())
    url = await start(provider, prompt="none")
    assert "scope=openid+email+name&" in url
    assert "response_mode=form_post" in url
    assert "prompt" not in url
    claims = await claims_of(provider)
    assert (claims.issuer, claims.is_verified) == (APPLE, True)
    form = web.form()
    assert (form["client_id"], form["code_verifier"][:9]) == ("app", "verifier-")
    secret = jwt.decode(form["client_secret"], ECKey.import_key(apple_key))
    assert secret.header == {"typ": "JWT", "alg": "ES256", "kid": "KEY"}
    sent = secret.claims
    assert (sent["iss"], sent["sub"], sent["aud"]) == ("TEAM", "app", APPLE)
    assert sent["exp"] == sent["iat"] + 300


def test_apple_reads_settings(apple_key):
    app = App()
    needed = {"client_id": "app", "team_id": "TEAM", "key_id": "KEY", "private_key": apple_key}
    for name, value in needed.items():
        with pytest.raises(ValueError, match=f"needs a {name}: set 'apple_{name}'"):
            apple().configure(app)
        app.set(f"apple_{name}", value)
    apple().configure(app)


WRONG_KEYS = {
    "no key": lambda: "secret-text",
    "a key of RSA": lambda: "-----BEGIN PRIVATE KEY-----\nsecret-text\n-----END PRIVATE KEY-----",
    "another curve": lambda: ECKey.generate_key("P-384").as_pem(private=True).decode(),
    "the public key": lambda: ECKey.generate_key("P-256").as_pem(private=False).decode(),
}


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_another_key_is_refused_when_the_application_is_configured(case):
    provider = apple(private_key=WRONG_KEYS[case](), **IDS)
    with pytest.raises(ValueError, match="is not a key of Apple") as caught:
        provider.configure(App())
    assert "secret-text" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


async def test_presets_accept_their_own_algorithm_alone(web, rsa_key, apple_key):
    def with_another(request):
        id_token = jwt.encode({"alg": "PS256", "kid": "rsa"}, ADA, rsa_key, ["PS256"])
        return {"access_token": "a", "token_type": "Bearer", "id_token": id_token}

    presets = {
        GOOGLE: google(**SECRET),
        "https://gitlab.com": gitlab(**SECRET),
        APPLE: apple(private_key=apple_key, **IDS),
    }
    for issuer, provider in presets.items():
        publish(web, rsa_key, issuer, ADA)
        web.answers[f"{issuer}/token"] = with_another
        assert "unsupported_algorithm" in str(await refusal(provider))
