"""Certificates: looked at before a server gets them, to say in a line what is wrong with them."""

from __future__ import annotations

import ssl

from alula._cli.terminal import UsageError

__all__ = ["check_certificate"]


def check_certificate(certificate: str | None, key: str | None) -> None:
    """Hold that a certificate can be served with.

    Args:
        certificate: Its file in PEM, None where none is wanted.
        key: The file of its private key, None where that is in the same file.

    Raises:
        UsageError: It can not; the text says why.
    """
    if certificate is None:
        if key is not None:
            raise UsageError(
                "--ssl-keyfile needs --ssl-certfile, the certificate that the key is of"
            )
        return
    try:
        # Without a password, Python would ask for that of an encrypted key, here and in workers.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise UsageError(
            f"{certificate} and {key or 'the private key in it'} can not be used: {error.strerror};"
            " both have to be in PEM, the key without a password, and of this certificate"
        ) from None
