"""Encryption of what the store of accounts keeps, by AES-256-GCM. Needs the extra ``totp``."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from secrets import token_bytes
from typing import Final

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise ImportError(
        f"Accounts(totp=True) needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[totp]'"
    ) from error

__all__ = ["Encryption"]

_NONCE_BYTES: Final = 12


class Encryption:
    """Encrypts texts under the id of their record, so that no record can get the text of another.

    Args:
        keys: Keys of 32 bytes: the first encrypts, all decrypt.

    Examples:
        >>> encryption = Encryption([bytes(32)])
        >>> encryption.decrypt(encryption.encrypt(b"secret", "totp:1"), "totp:1")
        (b'secret', True)
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = [AESGCM(key) for key in keys]

    def encrypt(self, plain: bytes, id: str) -> str:
        """Return an encrypted text of a record."""
        nonce = token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[0].encrypt(nonce, plain, id.encode())
        return urlsafe_b64encode(nonce + sealed).decode()

    def decrypt(self, text: str, id: str) -> tuple[bytes, bool]:
        """Return what was encrypted, and whether that was done with the first key.

        Raises:
            RuntimeError: No key fits.
        """
        stored = urlsafe_b64decode(text)
        for cipher in self._ciphers:
            try:
                plain = cipher.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], id.encode())
            except InvalidTag:
                continue
            return plain, cipher is self._ciphers[0]
        raise RuntimeError(
            f"{id!r} was encrypted with another key: add the key to Accounts(encryption_keys=[...])"
            " as the last one, or restore the secret of the authentication service"
        )
