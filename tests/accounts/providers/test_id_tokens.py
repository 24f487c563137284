"""Attacks with ID tokens: whatever is not exactly right is refused, and nothing else."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey
from tests.accounts.providers.asking import refusal, sign_in

from alula.accounts import openid

OTHER = ECKey.generate_key("P-256", {"kid": "other"})


def ago(seconds):
    """A time that is computed when the test runs."""
    return lambda: int(time.time()) - seconds


# By claim: values that must not pass. None leaves the claim out.
WRONG = {
    "iss": [None, 5, "", "https://other.example", ["https://other.example"]],
    "aud": [None, 5, "", "other", [], ["other"], ["app", 5], {"app": 1}],
    "azp": ["other", "", 5],
    "exp": [None, "9999999999", ago(61), True, [], float("nan")],
    "iat": [None, "0", ago(-90), True, float("nan")],
    "nbf": [ago(-90), "0"],
    "nonce": [None, "", "other", "nonce-\u00e4", 5, ["nonce-1"]],
    "at_hash": ["", 5, "other", ["other"], "\u00e4"],
    "sub": [None, "", 5, "x" * 256, "a\x00", ["ada"]],
    "amr": ["pwd"],
}


@pytest.mark.parametrize("claim", WRONG)
async def test_a_wrong_claim_is_refused(claim, provider, fake):
    for value in WRONG[claim]:
        fake.changes = {claim: value() if callable(value) else value}
        error = await refusal(provider, fake)
        assert (error.code, claim in str(error)) == ("invalid", True), (value, error)


async def test_a_token_for_others_too_needs_to_be_asked_for_by_us(provider, fake):
    for changes in (
        {"aud": ["app", "other"]},
        {"aud": ["app", "other"], "azp": "other"},
        {"aud": ["other"], "azp": "app"},
    ):
        fake.changes = changes
        assert (await refusal(provider, fake)).code == "invalid", changes


RIGHT = {
    "one of one": {"aud": ["app"]},
    "asked for by us": {"aud": ["app", "other"], "azp": "app"},
    "expired a moment ago": {"exp": ago(50)},
    "issued in a moment": {"iat": ago(-50)},
    "without a hash of the access token": {"at_hash": None},
    "a long subject": {"sub": "x" * 255},
}


async def test_other_right_claims_pass(provider, fake):
    for case, changes in RIGHT.items():
        fake.changes = {
            name: value() if callable(value) else value for name, value in changes.items()
        }
        claims = await sign_in(provider, fake)
        assert claims.subject == changes.get("sub", "ada"), case


def joined(header, claims, signature=b""):
    """A token with this header, and a signature that is not computed."""
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


def encoded(part):
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def hmac_with(secret):
    """A token with a signature that everybody can make who has the secret, or the public key."""

    def sign(claims):
        unsigned = joined({"alg": "HS256"}, claims).removesuffix(".")
        return f"{unsigned}.{encoded(hmac.digest(secret, unsigned.encode(), 'sha256'))}"

    return sign


def signed(header, key=OTHER):
    """A token with a true signature, by the key of another provider."""
    registry = jws.JWSRegistry(strict_check_header=False)
    return lambda claims: jwt.encode({"alg": "ES256", **header}, claims, key, registry=registry)


FORGERIES = {
    "no signature": lambda fake: lambda claims: joined({"alg": "none"}, claims),
    "None": lambda fake: lambda claims: joined({"alg": "None"}, claims),
    "HMAC with the public key": lambda fake: hmac_with(fake._key.as_pem(private=False)),
    "HMAC with the public key as JSON": lambda fake: hmac_with(
        json.dumps(fake.keys()["keys"][0]).encode()
    ),
    "HMAC with the secret of the client": lambda fake: hmac_with(fake.client_secret.encode()),
    "the key of another": lambda fake: signed({"kid": "other"}),
    "the key of another with our id": lambda fake: signed({"kid": fake._key.kid}),
    "its own key": lambda fake: signed({"jwk": OTHER.as_dict(private=False)}),
    "an id that is not a text": lambda fake: (
        lambda claims: joined({"alg": "ES256", "kid": [fake._key.kid]}, claims)
    ),
    "an algorithm in a list": lambda fake: lambda claims: joined({"alg": ["ES256"]}, claims),
    "an algorithm of another key": lambda fake: lambda claims: joined({"alg": "RS256"}, claims),
    "no algorithm": lambda fake: lambda claims: joined({"kid": fake._key.kid}, claims),
    "a header that is a list": lambda fake: lambda claims: joined(["alg"], claims),
    "something critical": lambda fake: (
        lambda claims: joined({"alg": "ES256", "crit": ["x"], "x": 1}, claims)
    ),
    "no claims": lambda fake: lambda _: jwt.encode({"alg": "ES256"}, {}, fake._key),
    "three dots": lambda fake: lambda _: "a.b.c.d",
    "nothing": lambda fake: lambda _: "",
    "a number": lambda fake: lambda _: 5,
    "no base64": lambda fake: lambda _: "\u00e4.\u00e4.\u00e4",
    "much": lambda fake: lambda claims: joined({"alg": "ES256"}, {**claims, "x": "x" * 200_000}),
}


async def test_a_forgery_is_refused(provider, fake):
    for case, forger_at in FORGERIES.items():
        fake.id_token = forger_at(fake)
        error = await refusal(provider, fake)
        assert error.code == "invalid", case
        assert "ID token" in str(error), case


async def test_a_list_of_claims_is_refused(provider, fake):
    fake.id_token = lambda claims: jws.serialize_compact({"alg": "ES256"}, b"[]", fake._key)
    assert str(await refusal(provider, fake)) == "the ID token is not valid: invalid_payload"


async def test_a_changed_token_is_refused(provider, fake):
    def change(claims):
        header, _, signature = type(fake).id_token(fake, claims).split(".")
        payload = joined({}, {**claims, "sub": "eve"}).split(".")[1]
        return f"{header}.{payload}.{signature}"

    fake.id_token = change
    assert str(await refusal(provider, fake)) == "the ID token is not valid: bad_signature"


async def test_only_the_algorithms_of_the_preset_pass(fake):
    strict = openid("fake", issuer=fake.issuer, algorithms=["RS256"], **fake.credentials)
    assert "unsupported_algorithm" in str(await refusal(strict, fake))
    await strict.close()


async def test_headers_that_nobody_knows_are_no_error(provider, fake):
    fake.id_token = signed({"kid": fake._key.kid, "origin": "x"}, fake._key)
    assert (await sign_in(provider, fake)).subject == "ada"


async def test_a_token_without_a_key_id_is_by_the_only_key(provider, fake, clock):
    fake.id_token = signed({}, fake._key)
    assert (await sign_in(provider, fake)).subject == "ada"
    keys = [*fake.keys()["keys"], OTHER.as_dict(private=False)]
    fake.keys = lambda: {"keys": keys}
    clock.now += 3600
    assert "not signed by a key" in str(await refusal(provider, fake))


UNFIT = {
    "another use": {"use": "enc"},
    "another algorithm": {"alg": "ES384"},
    "another kind": {"kty": "OKP"},
    "no kind": {"kty": None},
    "no numbers": {"x": None},
    "other numbers": {"x": "AAAA"},
    "numbers that are none": {"x": 5},
}


async def test_a_key_for_something_else_is_not_used(provider, fake, clock):
    published = fake.keys()["keys"][0]
    for case, changes in UNFIT.items():
        members = {**published, **changes}
        fake.keys = lambda members=members: {"keys": [members, "no key", {"kty": ["EC"]}]}
        clock.now += 3600
        assert (await refusal(provider, fake)).code == "invalid", case


async def test_the_private_part_of_a_key_is_not_read(provider, fake):
    members = {**fake._key.as_dict(private=True), "d": "nonsense", "oth": [1]}
    fake.keys = lambda: {"keys": [members]}
    assert (await sign_in(provider, fake)).subject == "ada"


async def test_a_short_rsa_key_is_not_used(provider, fake):
    short = {"kty": "RSA", "kid": fake._key.kid, "n": "x" * 171, "e": "AQAB"}
    fake.keys = lambda: {"keys": [short]}
    fake.id_token = lambda claims: joined({"alg": "RS256", "kid": fake._key.kid}, claims)
    assert "not signed by a key" in str(await refusal(provider, fake))
