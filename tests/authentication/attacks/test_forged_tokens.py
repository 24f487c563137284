"""Access tokens that nobody has issued, in every place that takes one."""

from __future__ import annotations

import base64
import hmac
import json
import time

import pytest
from tests.authentication.attacks.target import SECRET, Secrets, Target
from tests.authentication.building import OTHER_SECRET, add_authentication

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, Extension, authenticate
from alula.errors import NotAuthenticated

AUDIENCE = "https://yourdomain.com"
HEADER = {"alg": "HS256", "typ": "access"}


def encoded(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def payload(**changes):
    now = int(time.time())
    usual = {"iat": now, "exp": now + 7200, "aud": AUDIENCE, "sub": "1", "jti": "x"}
    return {name: value for name, value in {**usual, **changes}.items() if value is not ...}


def forged(header=HEADER, secret=SECRET, digest="sha256", **changes):
    """Return a token whose signature is right for a secret, whatever its header and payload say."""
    text = f"{encoded(header)}.{encoded(payload(**changes))}"
    return f"{text}.{encoded(hmac.digest(secret.encode(), text.encode(), digest))}"


def unsigned(alg, signature=""):
    return f"{encoded({**HEADER, 'alg': alg})}.{encoded(payload())}.{signature}"


def with_header(**more):
    return forged({**HEADER, **more})


# A public key is public: whoever takes it for the secret of an HMAC signs for everybody.
PUBLIC_KEY = (
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----\n"
)
GOOD = forged()
HEAD, BODY, SIGNATURE = GOOD.split(".")
HOUR = 3600

FORGED = {
    "algorithm none": unsigned("none"),
    "algorithm None": unsigned("None"),
    "algorithm NONE with a signature": unsigned("NONE", SIGNATURE),
    "no algorithm": unsigned(None),
    "an empty algorithm": unsigned(""),
    "a list of algorithms": unsigned(["none", "HS256"]),
    "HS256 without a signature": f"{HEAD}.{BODY}.",
    "two parts": f"{HEAD}.{BODY}",
    "four parts": f"{GOOD}.{SIGNATURE}",
    "the signature of another payload": f"{HEAD}.{encoded(payload(sub='2'))}.{SIGNATURE}",
    "the signature of another header": f"{encoded({**HEADER, 'a': 1})}.{BODY}.{SIGNATURE}",
    "RS256 signed with HMAC": forged({**HEADER, "alg": "RS256"}),
    "RS256 signed with its public key": forged({**HEADER, "alg": "RS256"}, secret=PUBLIC_KEY),
    "HS256 signed with a public key": forged(secret=PUBLIC_KEY),
    "HS512 where HS256 is pinned": forged({**HEADER, "alg": "HS512"}, digest="sha512"),
    "HS256 in name, HS512 in truth": forged(digest="sha512"),
    "hs256": forged({**HEADER, "alg": "hs256"}),
    "another secret": forged(secret=OTHER_SECRET),
    "an empty secret": forged(secret=""),
    "another audience": forged(aud="https://elsewhere.example"),
    "no audience": forged(aud=...),
    "a null audience": forged(aud=None),
    "a list of other audiences": forged(aud=["a", "b"]),
    "an object as audience": forged(aud={AUDIENCE: 1}),
    "a prefix of the audience": forged(aud=AUDIENCE[:-1]),
    "the type JWT": forged({**HEADER, "typ": "JWT"}),
    "the type of refresh tokens": forged({**HEADER, "typ": "refresh"}),
    "no type": forged({"alg": "HS256"}),
    "expired": forged(exp=int(time.time()) - 1),
    "expired long ago": forged(exp=1),
    "never to expire": forged(exp=...),
    "a null expiry": forged(exp=None),
    "a text as expiry": forged(exp=str(int(time.time()) + HOUR)),
    "true as expiry": forged(exp=True),
    "not yet valid": forged(nbf=int(time.time()) + HOUR),
    "a text as not before": forged(nbf="0"),
    "no subject": forged(sub=...),
    "a null subject": forged(sub=None),
    "a number as subject": forged(sub=1),
    "a list as subject": forged(sub=["1"]),
    "an operator as subject": forged(sub={"$ne": None}),
    "an empty subject": forged(sub=""),
    "an unknown subject": forged(sub="99"),
    "a subject with a slash": forged(sub="../1"),
    "a payload that is a list": f"{HEAD}.{encoded([payload()])}.{SIGNATURE}",
    "not understood but critical": with_header(crit=["exp2"], exp2=1),
    "an unencoded payload": with_header(b64=False, crit=["b64"]),
    "no JSON": f"{HEAD}.{encoded(b'not json')}.{SIGNATURE}",
    "deep JSON": f"{HEAD}.{encoded(b'[' * 5_000)}.{SIGNATURE}",
    "oversized": forged(extra="x" * 20_000),
    "a good token with something behind it": f"{GOOD}x",
    "a good token with padding": f"{GOOD}=",
    "a good token with what Base64 skips": f"{GOOD}*",
    "a good token whose last bits are others": GOOD[:-1] + chr(ord(GOOD[-1]) + 1),
    "a good token with a line break": f"{GOOD[:40]}\n{GOOD[40:]}",
}

# The key is the secret, whatever a header proposes.
KEYS = {
    "kid": "../../../../dev/null",
    "jku": "https://evil.example/keys.json",
    "x5u": "https://evil.example/cert.pem",
    "jwk": {"kty": "oct", "k": encoded(b"mine" * 8)},
    "x5c": ["MIIB"],
}


@pytest.fixture(scope="module")
async def target():
    return await Target().start()


async def test_the_token_that_the_others_are_made_from_is_good(target):
    assert (await target.opens(f"Bearer {GOOD}")).json["id"] == 1


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token_opens_nothing(target, name):
    token = FORGED[name]
    answers = [
        await target.opens(f"Bearer {token}"),
        await target.opens(token),
        await target.ask("POST", "/authentication", {"strategy": "jwt", "accessToken": token}),
        await target.ask("DELETE", "/authentication", headers={"Authorization": f"Bearer {token}"}),
    ]
    for answer in answers:
        assert answer.status == 401, answer.text
        assert SECRET not in answer.text
        assert token not in answer.text


@pytest.mark.parametrize("name", KEYS)
async def test_a_header_cannot_choose_the_key(target, name):
    header = {**HEADER, name: KEYS[name]}
    for secret in ("", "mine" * 8, "/dev/null"):
        answer = await target.opens(f"Bearer {forged(header, secret=secret)}")
        assert (answer.status, answer.json["message"]) == (401, "invalid signature")
    assert (await target.opens(f"Bearer {forged(header)}")).status == 200  # it is ignored


async def test_an_issuer_that_is_asked_for_has_to_be_there():
    target = await Target(issuer="https://issuer.example").start()
    for issuer in (..., None, "", "https://other.example", ["https://issuer.example"]):
        assert (await target.opens(f"Bearer {forged(iss=issuer)}")).status == 401
    assert (await target.opens(f"Bearer {forged(iss='https://issuer.example')}")).status == 200


async def test_what_was_checked_once_is_not_good_for_ever(target, monkeypatch):
    token = forged(exp=int(time.time()) + 60)
    for _ in range(3):
        assert (await target.opens(f"Bearer {token}")).status == 200
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 61)
    answer = await target.opens(f"Bearer {token}")
    assert (answer.status, answer.json["message"]) == (401, "jwt expired")


async def test_a_token_of_another_application_is_not_good_in_this_one():
    one, other = await Target().start(), await Target(secret=OTHER_SECRET).start()
    token = await one.token()
    assert (await one.opens(f"Bearer {token}")).status == 200
    assert (await other.opens(f"Bearer {token}")).status == 401


async def test_a_user_who_is_removed_or_changed_meanwhile():
    target = await Target().start()
    token, users = await target.token("bob@example.com"), target.app.service("users")
    assert (await target.opens(f"Bearer {token}")).json == {"id": 2, "keys": ["email", "id"]}
    await users.patch(2, {"locked": True})
    assert (await target.opens(f"Bearer {token}")).json["keys"] == ["email", "id", "locked"]
    await users.remove(2)
    for answer in (
        await target.opens(f"Bearer {token}"),
        await target.ask("POST", "/authentication", {"strategy": "jwt", "accessToken": token}),
        await target.sign_in("bob@example.com"),
    ):
        assert answer.status == 401


async def with_sessions():
    target = Target(sessions="sessions")
    target.app.use("sessions", MemoryService(), methods=[])
    return await target.start()


async def test_a_remembered_token_ends_with_its_session():
    target = await with_sessions()
    tokens = target.app.service("authentication").service.tokens
    token = await target.token()
    assert (await target.opens(f"Bearer {token}")).status == 200
    assert len(tokens._verified) == 1
    headers = {"Authorization": f"Bearer {token}"}
    assert (await target.ask("DELETE", "/authentication", headers=headers)).status == 200
    assert tokens._verified == {}
    assert (await target.opens(f"Bearer {token}")).status == 401
    assert tokens._verified == {}


async def test_a_session_that_ends_elsewhere_ends_the_memory_of_its_token():
    target = await with_sessions()
    tokens = target.app.service("authentication").service.tokens
    token = await target.token()
    for _ in range(2):
        assert (await target.opens(f"Bearer {token}")).status == 200
    await target.app.service("sessions").remove(None, adapter={"multi": ["remove"]})
    assert (await target.opens(f"Bearer {token}")).status == 401
    assert tokens._verified == {}


async def test_each_request_with_a_remembered_token_is_checked():
    names = set()

    class Blocked(Extension):
        async def check_token(self, payload, entity, params):
            if entity["email"] in names:
                raise NotAuthenticated("Blocked")

    blocked, late = Blocked(), Extension()
    target = await Target(extensions=[blocked, late]).start()
    token = await target.token()
    assert (await target.opens(f"Bearer {token}")).status == 200
    names.add("ada@example.com")
    assert (await target.opens(f"Bearer {token}")).json["message"] == "Blocked"
    names.clear()
    assert (await target.opens(f"Bearer {token}")).status == 200

    async def refuse(payload, entity, params):
        raise NotAuthenticated("Too late")

    late.check_token = refuse  # of the object, not of its class
    assert (await target.opens(f"Bearer {token}")).json["message"] == "Too late"


async def test_a_subclass_that_verifies_tokens_itself_is_asked_each_time():
    class Strict(AuthenticationService):
        refused = False

        def verify_access_token(self, token):
            if self.refused:
                raise NotAuthenticated("Refused")
            return {"sub": "1", "exp": 2**40}

    app = App().use("users", MemoryService([{"id": 1}]))
    service = Strict(app)  # without a secret: it has no tokens of ours to forget
    params, credentials = Params(), {"strategy": "jwt", "accessToken": "x"}
    assert (await service.authenticate(credentials, params, "jwt"))["user"] == {"id": 1}
    service.refused = True
    with pytest.raises(NotAuthenticated, match="Refused"):
        await service.authenticate(credentials, params, "jwt")


async def test_one_hook_of_two_applications_asks_that_of_the_call():
    hook, targets = authenticate("jwt"), []
    for secret in (SECRET, OTHER_SECRET):
        target = await Target(secret=secret).start()
        target.app.use("shared", Secrets())
        target.app.service("shared").hooks(around=[hook])
        targets.append((target, {"Authorization": f"Bearer {await target.token()}"}))
    (one, of_one), (other, of_other) = targets
    for _ in range(2):
        assert (await one.ask("GET", "/shared", headers=of_one)).status == 200
        assert (await other.ask("GET", "/shared", headers=of_one)).status == 401
        assert (await other.ask("GET", "/shared", headers=of_other)).status == 200
        assert (await one.ask("GET", "/shared", headers=of_other)).status == 401


async def test_a_service_that_is_replaced_counts_at_once():
    target = await Target().start()
    token = await target.token()
    assert (await target.opens(f"Bearer {token}")).status == 200
    await target.app.unuse("authentication")
    assert (await target.opens(f"Bearer {token}")).status == 500  # nobody can check it
    add_authentication(target.app, secret=OTHER_SECRET)
    assert (await target.opens(f"Bearer {token}")).status == 401
    answer = await target.opens(f"Bearer {await target.token()}")
    assert answer.status == 200


async def test_credentials_stay_with_their_request(target):
    token = await target.token()
    for authorization, status in ((f"Bearer {token}", 200), ("", 401), ("Bearer x", 401)) * 2:
        assert (await target.opens(authorization)).status == status
