"""Access tokens: what they say, and every way in which one is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from datetime import timedelta

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.authentication.building import OTHER_SECRET, SECRET

from alula.authentication._access_tokens import Tokens, seconds_of
from alula.errors import NotAuthenticated

AUDIENCE = "https://yourdomain.com"


def claims(**more):
    now = int(time.time())
    usual = {"iat": now, "exp": now + 60, "aud": AUDIENCE, "sub": "1", "jti": "x"}
    return {name: value for name, value in {**usual, **more}.items() if value is not ...}


def made(secret=SECRET, algorithm="HS256", header=None, **more):
    """Return a token that some other program has made."""
    headers = {"typ": "access"} if header is None else header
    return jwt.encode(claims(**more), secret, algorithm, headers=headers)


def part(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def signed(header, payload, secret=SECRET):
    """Return a token of any header and payload with a signature that fits."""
    text = f"{part(header)}.{part(payload)}"
    return f"{text}.{part(hmac.digest(secret.encode(), text.encode(), hashlib.sha256))}"


def created(tokens, *args):
    """Return a new token and its payload, read by another program."""
    token = tokens.create(*args)
    return token, jwt.decode(token, options={"verify_signature": False})


def refusal(token, **options):
    with pytest.raises(NotAuthenticated) as caught:
        Tokens(SECRET, **options).verify(token)
    return caught.value


HEADER = {"alg": "HS256", "typ": "access"}
HEAD_OF_ANY = part(HEADER)


class TestCreate:
    def test_says_the_usual(self):
        before = int(time.time())
        token, payload = created(Tokens(SECRET), {}, "7")
        assert set(payload) == {"iat", "exp", "aud", "sub", "jti"}
        assert before <= payload["iat"] <= time.time()
        assert payload["exp"] == payload["iat"] + 86400
        assert (payload["aud"], payload["sub"]) == (AUDIENCE, "7")
        assert uuid.UUID(payload["jti"]).version == 4
        assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "access"}
        assert jwt.decode(token, SECRET, ["HS256"], audience=AUDIENCE) == payload

    def test_takes_the_settings(self):
        tokens = Tokens(
            SECRET * 2, algorithm="HS512", audience=["a", "b"], issuer="me", expires_in="2h"
        )
        token, payload = created(tokens, {"role": "admin"}, "7")
        assert payload["exp"] == payload["iat"] + 7200
        assert (payload["aud"], payload["iss"], payload["role"]) == (["a", "b"], "me", "admin")
        assert jwt.get_unverified_header(token)["alg"] == "HS512"
        assert tokens.verify(token) == payload

    def test_claims_cannot_name_another_user_or_audience(self):
        mine = {"sub": "2", "aud": "x", "iss": "y", "iat": 1}
        _, payload = created(Tokens(SECRET, issuer="me"), mine, "1")
        assert (payload["sub"], payload["aud"], payload["iss"]) == ("1", AUDIENCE, "me")
        assert payload["iat"] > 1

    def test_claims_can_shorten_it_and_name_it(self):
        _, payload = created(Tokens(SECRET), {"exp": 5, "jti": "mine"}, "1")
        assert (payload["exp"], payload["jti"]) == (5, "mine")

    def test_needs_no_subject_where_there_are_no_users(self):
        tokens = Tokens(SECRET, needs_subject=False)
        token, payload = created(tokens, {})
        assert "sub" not in payload
        assert tokens.verify(token) == payload

    def test_no_two_are_the_same(self):
        tokens = Tokens(SECRET)
        assert tokens.create({}, "1") != tokens.create({}, "1")


class TestSettings:
    @pytest.mark.parametrize(("algorithm", "least"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
    def test_the_secret_is_as_long_as_the_hash(self, algorithm, least):
        Tokens("x" * least, algorithm=algorithm)
        with pytest.raises(ValueError, match=f"has {least - 1} bytes; {algorithm} needs {least}"):
            Tokens("x" * (least - 1), algorithm=algorithm)

    def test_bytes_of_the_secret_count_and_not_letters(self):
        Tokens("ü" * 16)
        Tokens(b"x" * 32)

    @pytest.mark.parametrize("algorithm", ["none", "RS256", "hs256", "", None])
    def test_other_algorithms_are_none(self, algorithm):
        with pytest.raises(ValueError, match="use one of HS256, HS384, HS512"):
            Tokens(SECRET, algorithm=algorithm)

    @pytest.mark.parametrize(
        "key",
        [
            f"-----BEGIN PUBLIC KEY-----\n{'A' * 64}\n-----END PUBLIC KEY-----",
            f"ssh-rsa {'A' * 64}",
        ],
    )
    def test_a_public_key_is_no_secret(self, key):
        with pytest.raises(ValueError, match="secret is a public key"):
            Tokens(key)

    def test_a_derived_key_is_one_of_its_own(self):
        tokens = Tokens(SECRET)
        keys = {tokens.derived_key(b"a"), tokens.derived_key(b"b"), SECRET.encode()}
        assert len(keys) == 3
        assert tokens.derived_key(b"a") == Tokens(SECRET).derived_key(b"a")
        assert tokens.derived_key(b"a") != Tokens(OTHER_SECRET).derived_key(b"a")


class TestVerify:
    def test_takes_what_others_have_made_with_the_secret(self):
        payload = claims(extra={"a": [1]})
        assert Tokens(SECRET).verify(signed(HEADER, payload)) == payload

    def test_one_audience_of_several_is_enough(self):
        token = made(aud=["x", AUDIENCE])
        assert Tokens(SECRET).verify(token)["aud"] == ["x", AUDIENCE]
        assert Tokens(SECRET, audience=["y", "x"]).verify(token)["sub"] == "1"

    def test_any_issuer_counts_where_none_is_set(self):
        assert Tokens(SECRET).verify(made(iss="someone"))["iss"] == "someone"
        assert Tokens(SECRET, issuer="me").verify(made(iss="me"))["iss"] == "me"

    @pytest.mark.parametrize("token", [None, 5, b"a.b.c", ["a"], {"a": 1}, True])
    def test_is_a_text(self, token):
        assert refusal(token).message == "jwt must be a string"

    @pytest.mark.parametrize(
        "token", ["garbage", "a.b", "a.b.c.d", "", ".", "a..b.c", "x" * 9000, "a.b." + "c" * 9000]
    )
    def test_has_three_parts_and_no_endless_ones(self, token):
        error = refusal(token)
        assert (error.message, error.data) == ("jwt malformed", {"name": "JsonWebTokenError"})

    def test_the_longest_token_is_8192_characters_long(self):
        token = made(pad="x" * 5900)
        assert 7900 < len(token) <= 8192
        assert Tokens(SECRET).verify(token)["sub"] == "1"
        assert refusal(made(pad="x" * 6200)).message == "jwt malformed"

    def test_expired(self):
        error = refusal(made(exp=1704067260))
        assert error.message == "jwt expired"
        assert error.data == {"name": "TokenExpiredError", "expiredAt": "2024-01-01T00:01:00.000Z"}

    def test_ends_at_its_second(self, monkeypatch):
        token, tokens = made(exp=2_000_000_000), Tokens(SECRET)
        monkeypatch.setattr(time, "time", lambda: 1_999_999_999.9)
        assert tokens.verify(token)
        monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
        with pytest.raises(NotAuthenticated, match="jwt expired"):
            tokens.verify(token)

    def test_not_yet_valid(self):
        error = refusal(made(nbf=4070908790, exp=4070908800))
        assert error.message == "jwt not active"
        assert error.data == {"name": "NotBeforeError", "date": "2098-12-31T23:59:50.000Z"}

    def test_begins_at_its_second(self, monkeypatch):
        token, tokens = made(nbf=1_900_000_000, exp=2_000_000_000), Tokens(SECRET)
        monkeypatch.setattr(time, "time", lambda: 1_900_000_000.0)
        assert tokens.verify(token)

    @pytest.mark.parametrize("moment", [10**30, float("inf"), -(10**30)])
    def test_times_that_no_calendar_has(self, moment):
        name = "exp" if moment < 0 else "nbf"
        error = refusal(signed(HEADER, claims(**{name: moment})))
        assert error.data["expiredAt" if moment < 0 else "date"] is None

    def test_a_time_that_is_no_number_is_no_time(self):
        assert refusal(signed(HEADER, claims(exp=float("nan")))).message == "jwt expired"
        error = refusal(signed(HEADER, claims(nbf=float("nan"))))
        assert (error.message, error.data["date"]) == ("jwt not active", None)

    def test_what_is_not_yet_valid_is_not_remembered(self, monkeypatch):
        token, tokens = made(nbf=1_900_000_000, exp=2_000_000_000), Tokens(SECRET)
        for moment in (1_899_999_999.9, 2_000_000_000.0):
            monkeypatch.setattr(time, "time", lambda moment=moment: moment)
            with pytest.raises(NotAuthenticated):
                tokens.verify(token)
            assert tokens._verified == {}

    @pytest.mark.parametrize("name", ["exp", "nbf"])
    @pytest.mark.parametrize("value", ["4070908800", None, True, [4070908800], {}])
    def test_times_are_numbers(self, name, value):
        assert refusal(signed(HEADER, claims(**{name: value}))).message == f"invalid {name} value"

    def test_a_token_without_an_end_is_none(self):
        assert refusal(made(exp=...)).message == "invalid exp value"

    def test_another_secret(self):
        assert refusal(made(OTHER_SECRET)).message == "invalid signature"

    @pytest.mark.parametrize("audience", ["https://other.example", "", None, [], ["x"], {}, 5, ...])
    def test_another_audience(self, audience):
        error = refusal(signed(HEADER, claims(aud=audience)))
        assert error.message == "jwt audience invalid. expected: https://yourdomain.com"
        assert error.data == {"name": "JsonWebTokenError"}

    def test_several_audiences_are_named(self):
        assert refusal(made(), audience=["a", "b"]).message.endswith("expected: a or b")

    @pytest.mark.parametrize("issuer", ["someone", None, ["me"], ...])
    def test_another_issuer(self, issuer):
        error = refusal(signed(HEADER, claims(iss=issuer)), issuer="me")
        assert error.message == "jwt issuer invalid. expected: me"

    @pytest.mark.parametrize("subject", ["", None, 1, ["1"], {"$ne": 1}, ...])
    def test_a_subject_that_names_nobody(self, subject):
        assert refusal(signed(HEADER, claims(sub=subject))).message == "jwt subject invalid"

    def test_a_subject_is_a_text_also_where_it_is_not_needed(self):
        error = refusal(signed(HEADER, claims(sub={"$ne": 1})), needs_subject=False)
        assert error.message == "jwt subject invalid"

    @pytest.mark.parametrize("kind", ["JWT", "refresh", "Access", "", None, ["access"], ...])
    def test_another_type(self, kind):
        header = {"alg": "HS256"} if kind is ... else {"alg": "HS256", "typ": kind}
        error = refusal(signed(header, claims()))
        assert error.message == "jwt type invalid. expected: access"

    def test_no_algorithm(self):
        none = f"{part({'alg': 'none', 'typ': 'access'})}.{part(claims())}."
        assert refusal(none).message == "jwt signature is required"

    @pytest.mark.parametrize("algorithm", ["none", "None", "HS512", "RS256", "ES256", None, 5, []])
    def test_no_token_chooses_its_algorithm(self, algorithm):
        token = signed({"alg": algorithm, "typ": "access"}, claims())
        assert refusal(token).message in {"invalid algorithm", "invalid token"}

    def test_another_algorithm_with_the_very_secret(self):
        assert refusal(made(SECRET * 2, "HS512")).message == "invalid algorithm"

    @pytest.mark.parametrize("payload", [[], "text", 5, None, b"{", b"\xff", b"[" * 5000])
    def test_a_payload_that_is_no_object(self, payload):
        assert refusal(signed(HEADER, payload)).message == "invalid token"

    @pytest.mark.parametrize(
        "header",
        [[], b"{", {"typ": "access"}, {**HEADER, "crit": ["x"]}, {**HEADER, "kid": 5}],
        ids=str,
    )
    def test_a_header_that_is_not_in_order(self, header):
        assert refusal(signed(header, claims())).message in {"invalid token", "invalid algorithm"}

    @pytest.mark.parametrize(
        "kid", ["../../dev/null", "' UNION SELECT 'x", "http://evil.example/key", ""]
    )
    def test_no_header_chooses_the_key(self, kid):
        header = {**HEADER, "kid": kid, "jku": "http://evil.example", "jwk": {"k": part(b"x" * 32)}}
        assert Tokens(SECRET).verify(signed(header, claims()))["sub"] == "1"
        assert refusal(signed(header, claims(), "x" * 32)).message == "invalid signature"

    @pytest.mark.parametrize("token", ["ü.ü.ü", "a.b.\ud800", "a.b. ", "a b.c.d", "\n.\n.\n"])
    def test_strange_characters(self, token):
        assert refusal(token).message == "invalid token"

    def test_a_signature_has_one_spelling(self):
        token = made()
        assert refusal(f"{token}=").message == "invalid signature"
        assert refusal(f"{token}==").message in {"invalid signature", "invalid token"}

    def test_what_is_remembered_does_not_change(self):
        tokens, token = Tokens(SECRET), signed(HEADER, claims(roles=["user"]))
        tokens.verify(token)["roles"].append("admin")
        tokens.verify(token)["sub"] = "2"
        again = tokens.verify(token)
        assert (again["roles"], again["sub"]) == (["user"], "1")
        flat = made()
        tokens.verify(flat)["sub"] = "2"
        assert tokens.verify(flat)["sub"] == "1"

    def test_what_was_remembered_expires(self, monkeypatch):
        tokens, token = Tokens(SECRET), made()
        tokens.verify(token)
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        with pytest.raises(NotAuthenticated, match="jwt expired"):
            tokens.verify(token)

    def test_a_signature_is_verified_once(self, monkeypatch):
        tokens, token = Tokens(SECRET), made()
        reads = []
        read = tokens._read
        monkeypatch.setattr(tokens, "_read", lambda text: reads.append(text) or read(text))
        assert tokens.verify(token) == tokens.verify(token)
        assert reads == [token]
        tokens.forget(token)
        tokens.forget(token)  # one that is not remembered
        tokens.forget(None)
        tokens.verify(token)
        assert reads == [token, token]

    def test_no_token_is_in_the_memory(self):
        tokens, token = Tokens(SECRET), made()
        tokens.verify(token)
        assert len(tokens._verified) == 1
        signature = token.rpartition(".")[2]
        assert token not in repr(tokens._verified)
        assert signature not in repr(tokens._verified)

    def test_what_is_refused_is_never_remembered(self):
        tokens = Tokens(SECRET)
        for number in range(3000):
            with pytest.raises(NotAuthenticated):
                tokens.verify(f"{HEAD_OF_ANY}.{part({'sub': str(number)})}.{'A' * 43}")
        for token in (
            made(OTHER_SECRET),
            made(exp=int(time.time()) - 1),  # verified, but over
            made(algorithm="HS512", secret=SECRET * 2),
            made(aud="https://other.example"),
            "\ud800",
            "x" * 9000,
        ):
            with pytest.raises(NotAuthenticated):
                tokens.verify(token)
        assert (tokens._verified, tokens._verified_bytes) == ({}, 0)

    def test_the_memory_is_bounded_by_count(self):
        tokens = Tokens(SECRET)
        first = tokens.create({}, "1")
        tokens.verify(first)
        several = [tokens.create({}, str(number)) for number in range(2100)]
        for token in several:
            tokens.verify(token)
        assert len(tokens._verified) == 2048
        assert tokens._verified_bytes == sum(map(len, several[-2048:]))
        remembered = dict(tokens._verified)
        with pytest.raises(NotAuthenticated, match="jwt expired"):
            tokens.verify(made(exp=int(time.time()) - 1))
        assert tokens._verified == remembered  # it has pushed no other out
        assert tokens.verify(first)["sub"] == "1"  # the oldest are verified anew
        assert len(tokens._verified) == 2048

    def test_the_memory_is_bounded_by_bytes(self):
        tokens = Tokens(SECRET)
        for number in range(300):
            tokens.verify(tokens.create({"long": "x" * 5000}, str(number)))
            assert tokens._verified_bytes <= 2**20
        assert len(tokens._verified) < 200
        for token in [tokens.create({}, str(number)) for number in range(2000)]:
            tokens.verify(token)
            tokens.forget(token)
        assert 2**20 - 8192 < tokens._verified_bytes <= 2**20

    def test_what_expires_is_forgotten_and_a_clock_may_go_back(self, monkeypatch):
        tokens, now = Tokens(SECRET), time.time()
        token = made(nbf=int(now) - 10)
        tokens.verify(token)
        monkeypatch.setattr(time, "time", lambda: now + 61)
        with pytest.raises(NotAuthenticated, match="jwt expired"):
            tokens.verify(token)
        assert tokens._verified == {}
        monkeypatch.setattr(time, "time", lambda: now)
        tokens.verify(token)
        monkeypatch.setattr(time, "time", lambda: now - 100)
        with pytest.raises(NotAuthenticated, match="jwt not active"):
            tokens.verify(token)

    def test_a_remembered_token_helps_no_other_one(self):
        tokens, token = Tokens(SECRET), made()
        tokens.verify(token)
        head, payload, signature = token.split(".")
        other_key = made(OTHER_SECRET)
        changed = "A" if signature[0] != "A" else "B"
        for forged in (
            f"{head}.{payload}.{changed}{signature[1:]}",
            f"{head}.{payload}.",
            f"{part({'alg': 'none', 'typ': 'access'})}.{payload}.{signature}",
            f"{part({'alg': 'HS512', 'typ': 'access'})}.{payload}.{signature}",
            f"{head}.{payload}.{other_key.rpartition('.')[2]}",
            f"{token} ",
            f"{token}=",
        ):
            with pytest.raises(NotAuthenticated):
                tokens.verify(forged)
        assert len(tokens._verified) == 1

    def test_another_key_or_option_has_a_memory_of_its_own(self):
        token = made()
        Tokens(SECRET).verify(token)
        for other in (
            Tokens(OTHER_SECRET),
            Tokens(SECRET, audience="https://other.example"),
            Tokens(SECRET, issuer="https://issuer.example"),
            Tokens(SECRET, types=["JWT"]),
        ):
            with pytest.raises(NotAuthenticated):
                other.verify(token)

    @given(st.data())
    def test_no_changed_token_is_taken(self, data):
        token = Tokens(SECRET).create({"role": "user"}, "1")
        at = data.draw(st.integers(0, len(token) - 1))
        letter = data.draw(st.sampled_from("abcXYZ019-_.="))
        changed = token[:at] + letter + token[at + 1 :]
        if changed != token:
            with pytest.raises(NotAuthenticated):
                Tokens(SECRET).verify(changed)

    @given(st.text(max_size=200))
    def test_no_text_fails_in_another_way(self, text):
        with pytest.raises(NotAuthenticated):
            Tokens(SECRET).verify(text)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("1d", 86400),
        ("15m", 900),
        ("2 h", 7200),
        ("1.5h", 5400),
        ("30s", 30),
        ("2w", 1209600),
        (60, 60),
        (1.9, 1),
        (timedelta(minutes=5), 300),
    ],
)
def test_durations(duration, seconds):
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize(
    "duration", ["", "d", "1", "1 month", "-1d", "0s", 0, -5, 0.5, timedelta(0), None, [], "1d "]
)
def test_no_durations(duration):
    with pytest.raises(ValueError, match="is not a duration; write '15m'"):
        seconds_of(duration)


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ({}, True),
        ({"expires_in": "5m"}, True),
        ({"audience": ["b", "https://yourdomain.com"]}, True),
        ({"issuer": "me"}, True),
        ({"audience": "b"}, False),
        ({"secret": "x" * 64}, False),
        ({"algorithm": "HS384"}, False),
    ],
)
def test_accepts_tokens_of_agrees_with_verify(options, good):
    here, there = (Tokens(**{"secret": "s" * 64, **more}) for more in ({}, options))
    assert here.accepts_tokens_of(there) is good
    token = there.create({}, "1")
    if good:
        assert here.verify(token)["sub"] == "1"
    else:
        with pytest.raises(NotAuthenticated):
            here.verify(token)


def test_an_issuer_that_is_set_takes_tokens_of_no_other():
    here = Tokens("s" * 32, issuer="me")
    assert not here.accepts_tokens_of(Tokens("s" * 32))
    assert not here.accepts_tokens_of(Tokens("s" * 32, issuer="you"))
    assert here.accepts_tokens_of(Tokens("s" * 32, issuer="me"))
