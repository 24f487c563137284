"""Opens the socket and checks the certificate that an application is served with."""

from __future__ import annotations

import os
import socket
import ssl
from importlib.util import find_spec
from typing import Final

from alula._cli.terminal import UsageError
from alula._sockets import listen_on_path, listen_on_port

__all__ = ["check_certificate", "open_socket"]

IS_UNIX: Final = os.name == "posix"
"""Whether a process can inherit sockets by their descriptors."""


def open_socket(host: str, port: int, path: str | None = None) -> socket.socket:
    """Return a listening socket for the workers.

    Args:
        host: The address to listen on.
        port: The TCP port, 0 for any free one.
        path: The path of a Unix socket to listen on instead, None for the port.

    Raises:
        UsageError: The port or the path is not available, or no server is installed.
    """
    if not IS_UNIX:
        raise UsageError(
            "alula serve and alula dev need a system with Unix processes; here, run the"
            " application from a script: app.run(3030)"
        )
    # Only looked up: this process never imports the server, which only its workers need.
    if find_spec("uvicorn") is None:
        raise UsageError("no server is installed; install one with: pip install 'alula[server]'")
    try:
        return listen_on_port(host, port) if path is None else listen_on_path(path)
    except OSError as error:
        raise UsageError(error.args[-1]) from None


def check_certificate(certificate: str | None, key: str | None) -> None:
    """Check that a certificate can be served, for an error of one line instead of a traceback.

    Args:
        certificate: The file of the certificate in PEM format, None for HTTP.
        key: The file of its private key, None if it is in the same file.

    Raises:
        UsageError: It cannot; the message says why.
    """
    if certificate is None:
        if key is not None:
            raise UsageError("--ssl-keyfile needs --ssl-certfile, the certificate of the key")
        return
    try:
        # Without a password argument, OpenSSL would ask for the password of an encrypted key on
        # the terminal, here and in every worker.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise UsageError(
            f"cannot use {certificate} and {key or 'the private key in it'}: {error.strerror};"
            " both must be in PEM format, and the key must belong to the certificate and have no"
            " password"
        ) from None
