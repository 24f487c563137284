"""The codes of authenticator apps, by the test vectors of RFC 6238, appendix B."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from alula.accounts._totp import code_at, matching_step, new_secret, secret_text, setup_uri

SECRET = b"12345678901234567890"


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_codes_are_those_of_the_rfc(seconds, code):
    # The vectors have eight digits; six digits are the last ones of these.
    assert code_at(SECRET, seconds // 30) == code[-6:]
    assert matching_step(SECRET, code[-6:], seconds) == seconds // 30


def test_the_steps_before_and_after_count():
    now = 2_000_000_000
    step = now // 30
    steps = [matching_step(SECRET, code_at(SECRET, step + n), now) for n in range(-2, 3)]
    assert steps == [None, step - 1, step, step + 1, None]


@pytest.mark.parametrize(
    "code",
    [
        None,
        287082,
        ["287082"],
        "",
        "28708",
        "2870820",
        "287 082",
        "287082\n",
        "\uff12\uff18\uff17\uff10\uff18\uff12",  # digits, but not ASCII
    ],
)
def test_what_is_no_code(code):
    assert matching_step(SECRET, "287082", 59) == 1
    assert matching_step(SECRET, code, 59) is None


def test_secrets_have_160_random_bits():
    assert len(new_secret()) == 20
    assert new_secret() != new_secret()


def test_the_uri_is_escaped():
    uri = urlsplit(setup_uri(SECRET, "A&B/C?", "a+b%@example.com"))
    assert (uri.scheme, uri.netloc) == ("otpauth", "totp")
    assert uri.path == "/A%26B%2FC%3F:a%2Bb%25%40example.com"
    assert parse_qs(uri.query) == {"secret": [secret_text(SECRET)], "issuer": ["A&B/C?"]}
