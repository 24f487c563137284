"""WebAuthn: what browsers are asked for, and checks of what they send. Needs the extra `passkeys`.

Only this module uses the library. It checks type, challenge, origin, domain, presence and
verification of the person, and the signature. Checked here: that no page of another origin has
embedded ours, and the form. The handle of the user, the flags of backups, and the counter need the
stored passkey, so the callers check them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from alula.accounts._relying_party import RelyingParty
from alula.types import is_mapping

try:
    from webauthn import verify_authentication_response, verify_registration_response
    from webauthn.helpers import (
        base64url_to_bytes,
        bytes_to_base64url,
        decode_credential_public_key,
        decoded_public_key_to_cryptography,
        parse_attestation_object,
        parse_client_data_json,
    )
    from webauthn.helpers.cose import COSEAlgorithmIdentifier
    from webauthn.helpers.structs import CredentialDeviceType
except ImportError as error:
    raise ImportError(
        f"Accounts(passkeys=True) needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[passkeys]'"
    ) from error

__all__ = ["Assertion", "NewCredential", "WebAuthn"]

_log: Final = logging.getLogger("alula.accounts")

_ALGORITHMS: Final = [
    COSEAlgorithmIdentifier.ECDSA_SHA_256,
    COSEAlgorithmIdentifier.EDDSA,
    COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
]
_FORMATS: Final = ("none", "packed")
"""Of attestations. Nobody asks for one, but some authenticators sign their own key ("packed")."""

_TIMEOUT_MS: Final = 300_000
_MOST_TEXT: Final = 32_768  # of what a browser sends, in base64
_MOST_ID_BYTES: Final = 1023  # as WebAuthn says
_MOST_KEY_BYTES: Final = 2048
_REGISTERED: Final = ("clientDataJSON", "attestationObject")
_ASSERTED: Final = ("clientDataJSON", "authenticatorData", "signature", "userHandle")

_T = TypeVar("_T")


class NewCredential(NamedTuple):
    """What an authenticator has made.

    Attributes:
        id: Its id, in base64.
        public_key: The public key, in base64.
        sign_count: The counter of its signatures, 0 if it does not count.
        is_backup_eligible: Whether it may be copied to other devices of the person.
        is_backed_up: Whether it is.
    """

    id: str
    public_key: str
    sign_count: int
    is_backup_eligible: bool
    is_backed_up: bool


class Assertion(NamedTuple):
    """What an authenticator has signed.

    Attributes:
        user_handle: The handle of the user that it has stored, in base64.
        sign_count: The counter of its signatures, 0 if it does not count.
        is_backup_eligible: Whether the passkey may be copied to other devices of the person.
        is_backed_up: Whether it is.
    """

    user_handle: str
    sign_count: int
    is_backup_eligible: bool
    is_backed_up: bool


class WebAuthn:
    """Options for browsers, and checks of their responses.

    Args:
        party: For whom.
    """

    def __init__(self, party: RelyingParty) -> None:
        self._party = party

    def creation_options(
        self, challenge: str, *, handle: str, name: str, known: Iterable[str]
    ) -> dict[str, Any]:
        """Return options for ``navigator.credentials.create``.

        Args:
            challenge: The challenge, in base64.
            handle: The handle of the user, in base64.
            name: How the browser shows whose passkey it is.
            known: The ids of passkeys that the user has; no authenticator makes a second one.
        """
        return {
            "rp": {"id": self._party.id, "name": self._party.id},
            "user": {"id": handle, "name": name, "displayName": name},
            "challenge": challenge,
            "pubKeyCredParams": [
                {"type": "public-key", "alg": int(algorithm)} for algorithm in _ALGORITHMS
            ],
            "timeout": _TIMEOUT_MS,
            "excludeCredentials": [{"type": "public-key", "id": own} for own in known],
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": True,
                "userVerification": "required",
            },
            "attestation": "none",
        }

    def request_options(self, challenge: str) -> dict[str, Any]:
        """Return options for ``navigator.credentials.get``; the person chooses the passkey."""
        return {
            "challenge": challenge,
            "rpId": self._party.id,
            "allowCredentials": [],
            "userVerification": "required",
            "timeout": _TIMEOUT_MS,
        }

    def new_credential(self, credential: object, challenge: str) -> NewCredential | None:
        """Return what an authenticator has made for a challenge, None if it is not valid.

        Args:
            credential: Any value that a client has sent.
            challenge: The challenge.
        """
        return _none_if_refused(lambda: self._new_credential(credential, challenge))

    def assertion(self, credential: object, challenge: str, public_key: str) -> Assertion | None:
        """Return what an authenticator has signed for a challenge, None if it is not valid.

        Args:
            credential: Any value that a client has sent.
            challenge: The challenge.
            public_key: The stored public key of the passkey.
        """
        return _none_if_refused(lambda: self._assertion(credential, challenge, public_key))

    def _new_credential(self, credential: object, challenge: str) -> NewCredential:
        sent = _form_of(credential, _REGISTERED)
        _check_not_embedded(sent)
        attestation = base64url_to_bytes(sent["response"]["attestationObject"])
        # Before the library looks at it: other formats come with certificates of strangers.
        if (form := parse_attestation_object(attestation).fmt) not in _FORMATS:
            raise ValueError(f"attestations of the format {form!r} are not accepted")
        verified = verify_registration_response(
            credential=sent,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=self._party.id,
            expected_origin=self._party.origins,
            require_user_verification=True,
            supported_pub_key_algs=_ALGORITHMS,
        )
        credential_id, public_key = verified.credential_id, verified.credential_public_key
        if len(credential_id) > _MOST_ID_BYTES or len(public_key) > _MOST_KEY_BYTES:
            raise ValueError("the id or the public key is too long")
        if bytes_to_base64url(credential_id) != sent["id"]:  # the library does not compare them
            raise ValueError("the id is not that of the attestation")
        # A key that nobody could use would be a passkey that never works.
        decoded_public_key_to_cryptography(decode_credential_public_key(public_key))
        return NewCredential(
            sent["id"],
            bytes_to_base64url(public_key),
            verified.sign_count,
            verified.credential_device_type == CredentialDeviceType.MULTI_DEVICE,
            verified.credential_backed_up,
        )

    def _assertion(self, credential: object, challenge: str, public_key: str) -> Assertion:
        sent = _form_of(credential, _ASSERTED)
        _check_not_embedded(sent)
        verified = verify_authentication_response(
            credential=sent,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=self._party.id,
            expected_origin=self._party.origins,
            credential_public_key=base64url_to_bytes(public_key),
            credential_current_sign_count=0,  # checked by the caller, after the signature
            require_user_verification=True,
        )
        return Assertion(
            sent["response"]["userHandle"],
            verified.new_sign_count,
            verified.credential_device_type == CredentialDeviceType.MULTI_DEVICE,
            verified.credential_backed_up,
        )


def _form_of(credential: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the parts of a credential that are checked; the rest may be anything.

    Raises:
        ValueError: Something is missing, or is not a text of a sensible length.
    """
    response = credential.get("response") if is_mapping(credential) else None
    if not is_mapping(credential) or not is_mapping(response):
        raise ValueError("the credential is not an object with a response")
    return {
        **{name: _text(credential, name) for name in ("id", "rawId", "type")},
        "response": {name: _text(response, name) for name in names},
    }


def _text(values: Mapping[Any, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"{name} is not a text of at most {_MOST_TEXT} characters")
    return value


def _check_not_embedded(sent: Mapping[str, Any]) -> None:
    """Refuse a response from a page inside a page of another origin, which could deceive people.

    Raises:
        ValueError: It is one.
    """
    client_data = parse_client_data_json(base64url_to_bytes(sent["response"]["clientDataJSON"]))
    if client_data.cross_origin:
        raise ValueError("the page was embedded in a page of another origin")


def _none_if_refused(check: Callable[[], _T]) -> _T | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # parsers raise what they like for bytes of strangers
        # For owners: a wrong origin in the settings is seen here.
        _log.info("a passkey was refused: %s: %s", type(error).__name__, ascii(str(error))[:200])
        return None
