"""Node with the official clients, which does what it is told; see ``official_clients.mjs``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.conformance.replay import Bases

SCRIPT = Path(__file__).with_name("official_clients.mjs")
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/socketio-client",
    "socket.io-client",
    "ws",
)


class ClientFailed(Exception):
    """A client cannot do what it was told, or got no answer."""


class OfficialClients:
    """A Node process with clients of two servers.

    Args:
        node: The path of Node.
        node_modules: The folder with `PACKAGES`.
        bases: The addresses of the servers.
    """

    def __init__(self, node: str, node_modules: Path, bases: Bases) -> None:
        self._process = subprocess.Popen(
            [node, str(SCRIPT), str(node_modules), *bases],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def do(self, name: str, **order: Any) -> Any:
        """Give an order and return what came of it.

        Raises:
            ClientFailed: It cannot be done.
            RuntimeError: Node has ended.
        """
        self._process.stdin.write(json.dumps({"do": name, **order}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Node ended with {self._process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise ClientFailed(answer["failed"])
        return answer["value"]
