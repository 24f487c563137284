"""Discovery documents and keys: whose they are, how long they are kept, and when renewed."""

from __future__ import annotations

import asyncio

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from tests.accounts.providers.asking import claims_of, publish, refusal, sign_in, start

from alula.accounts import ProviderError, openid

ISSUER = "https://id.example"
DOCUMENT = f"{ISSUER}/.well-known/openid-configuration"
SECRET = {"client_id": "app", "client_secret": "secret"}


@pytest.fixture
def published(web, rsa_key):
    made = openid("work", issuer=ISSUER, **SECRET)
    return made, publish(web, rsa_key, ISSUER, {"sub": "ada"})


def count(web, url):
    return sum(str(request.url) == url for request in web.requests)


@pytest.mark.parametrize("issuer", ["https://other.example", f"{ISSUER}/", None, [ISSUER]])
async def test_a_document_of_another_issuer_is_refused(issuer, published):
    made, metadata = published
    metadata["issuer"] = issuer
    with pytest.raises(ProviderError, match="character by character") as caught:
        await start(made)
    assert caught.value.code == "invalid"


async def test_an_issuer_may_end_with_a_slash(web, rsa_key):
    issuer = "https://id.example/tenant/"
    publish(web, rsa_key, issuer, {"sub": "ada"}, at="https://id.example/tenant")
    assert (await claims_of(openid("work", issuer=issuer, **SECRET))).issuer == issuer


@pytest.mark.parametrize("document", [[], "x", None])
async def test_a_document_that_is_none_is_refused(document, published, web):
    web.answers[DOCUMENT] = document
    with pytest.raises(ProviderError) as caught:
        await start(published[0])
    assert caught.value.code == "invalid"


ENDPOINTS = ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"]


@pytest.mark.parametrize("name", ENDPOINTS)
async def test_an_endpoint_that_others_can_read_is_refused(name, published, clock):
    made, metadata = published
    for url in ("http://id.example/x", 5, "https://[x", "/token", "file:///x", "https://a b/"):
        metadata[name] = url
        with pytest.raises(ProviderError, match=f"the {name} .* is not an https URL"):
            await start(made)
        clock.now += 5
    if name != "userinfo_endpoint":
        del metadata[name]
        with pytest.raises(ProviderError, match=name):
            await start(made)


async def test_documents_and_keys_are_kept_for_an_hour(published, web, clock):
    made, _ = published
    for seconds in (0, 3599, 1):
        clock.now += seconds
        await claims_of(made)
    assert count(web, DOCUMENT) == count(web, f"{ISSUER}/keys") == 2


async def test_people_who_come_at_once_share_one_document(published, web):
    made, _ = published
    await asyncio.gather(*(start(made) for _ in range(5)))
    assert count(web, DOCUMENT) == 1


async def test_after_a_failure_nobody_waits_for_the_next(published, web, clock):
    made, metadata = published
    web.answers[DOCUMENT] = None
    failures = await asyncio.gather(*(start(made) for _ in range(5)), return_exceptions=True)
    assert {str(failure) for failure in failures} == {"id.example responded with 404"}
    assert count(web, DOCUMENT) == 1
    web.answers[DOCUMENT] = metadata
    clock.now += 4
    with pytest.raises(ProviderError):
        await start(made)
    clock.now += 1
    await start(made)


async def test_an_unknown_key_reads_the_keys_again_once_a_minute(provider, fake, clock):
    new = ECKey.generate_key("P-256", {"kid": "new"})
    old, read = fake.keys(), []
    fake.keys = lambda: read.append(1) or old
    assert (await sign_in(provider, fake)).subject == "ada"
    fake.id_token = lambda claims: jwt.encode({"alg": "ES256", "kid": "new"}, claims, new)
    assert "not signed by a key" in str(await refusal(provider, fake))
    assert len(read) == 1  # they were read a moment ago
    clock.now += 60
    for _ in range(3):
        assert "not signed by a key" in str(await refusal(provider, fake))
    assert len(read) == 2
    old["keys"].append(new.as_dict(private=False))
    clock.now += 60
    assert (await sign_in(provider, fake)).subject == "ada"
    assert len(read) == 3


async def test_keys_that_cannot_be_renewed_still_count(published, web, clock):
    made, _ = published
    await claims_of(made)
    url = f"{ISSUER}/keys"
    known, web.answers[url] = web.answers[url], None
    clock.now += 60
    stranger = ECKey.generate_key("P-256", {"kid": "stranger"})
    honest = web.answers[f"{ISSUER}/token"]
    web.answers[f"{ISSUER}/token"] = lambda request: {
        **honest(request),
        "id_token": jwt.encode({"alg": "ES256", "kid": "stranger"}, {}, stranger),
    }
    assert (await refusal(made)).code == "invalid"
    web.answers[f"{ISSUER}/token"] = honest
    assert (await claims_of(made)).subject == "ada"
    assert known


@pytest.mark.parametrize("keys", [[], {"keys": {}}, {}])
async def test_keys_that_are_none_are_refused(keys, published, web):
    web.answers[f"{ISSUER}/keys"] = keys
    assert "there are no keys at" in str(await refusal(published[0]))


async def test_a_closed_provider_reads_everything_again(published, web):
    made, _ = published
    await made.close()  # of one that nobody has used
    await start(made)
    await made.close()
    await start(made)
    assert count(web, DOCUMENT) == 2
