"""A software authenticator, and what a page does with it, for tests of passkeys."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.accounts.apps import as_caller, enter
from tests.accounts.building import World, started

ORIGIN = "https://app.example"
UP, UV, BE, BS, AT = 1, 4, 8, 16, 64


def to_text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def to_bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")


def new_key(algorithm: int) -> Any:
    if algorithm == -7:
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == -8:
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


@dataclass
class Authenticator:
    """Makes one passkey, and signs with it. Tests change what it says.

    Attributes:
        counts: Whether its signatures are counted.
        flags: What it says of the person and of backups.
        changes: What is different in the data of the client, such as the origin.
    """

    counts: bool = True
    algorithm: int = -7
    flags: int = UP | UV
    rp_id: str | None = None
    form: str = "none"
    id: bytes = field(default_factory=lambda: token_bytes(16))
    sign_count: int = 0
    handle: bytes = b""
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = new_key(self.algorithm)

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what `navigator.credentials.create` does, as JSON."""
        self.handle = to_bytes(options["user"]["id"])
        self.party = self.rp_id or options["rp"]["id"]
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + self.public_key()
        data = self.data(AT) + attested
        client_data = self.client_data("webauthn.create", options["challenge"])
        statement = {}
        if self.form == "packed":  # by the key itself
            signature = self.sign(data + hashlib.sha256(to_bytes(client_data)).digest())
            statement = {"alg": self.algorithm, "sig": signature}
        attestation = {"fmt": self.form, "attStmt": statement, "authData": data}
        response = {
            "clientDataJSON": client_data,
            "attestationObject": to_text(cbor2.dumps(attestation)),
            "transports": ["internal"],
        }
        return self.credential(response)

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what `navigator.credentials.get` does, as JSON."""
        self.party = self.rp_id or options["rpId"]
        data = self.data()
        client_data = self.client_data("webauthn.get", options["challenge"])
        response = {
            "clientDataJSON": client_data,
            "authenticatorData": to_text(data),
            "signature": to_text(self.sign(data + hashlib.sha256(to_bytes(client_data)).digest())),
            "userHandle": to_text(self.handle),
        }
        return self.credential(response)

    def credential(self, response: dict[str, Any]) -> dict[str, Any]:
        text = to_text(self.id)
        return {
            "id": text,
            "rawId": text,
            "type": "public-key",
            "response": response,
            "authenticatorAttachment": "something new",
            "clientExtensionResults": {},
        }

    def client_data(self, type: str, challenge: str) -> str:
        data = {"type": type, "challenge": challenge, "origin": ORIGIN, "crossOrigin": False}
        return to_text(json.dumps({**data, **self.changes}).encode())

    def data(self, flags: int = 0) -> bytes:
        if self.counts:
            self.sign_count += 1
        digest = hashlib.sha256(self.party.encode()).digest()
        return digest + bytes([self.flags | flags]) + self.sign_count.to_bytes(4, "big")

    def public_key(self) -> bytes:
        public = self.key.public_key()
        if self.algorithm == -8:
            return cbor2.dumps({1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()})
        numbers = public.public_numbers()
        if self.algorithm == -7:
            x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
            return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        return cbor2.dumps({1: 3, 3: -257, -1: numbers.n.to_bytes(256, "big"), -2: b"\1\0\1"})

    def sign(self, data: bytes) -> bytes:
        if self.algorithm == -8:
            return self.key.sign(data)
        if self.algorithm == -7:
            return self.key.sign(data, ec.ECDSA(SHA256()))
        return self.key.sign(data, padding.PKCS1v15(), SHA256())


async def started_with_passkeys(*arguments: Any, **options: Any) -> tuple[World, dict[str, Any]]:
    """Return an application that is set up, and the params of its first user."""
    world = await started(*arguments, **{"passkeys": True, "origins": [ORIGIN], **options})
    await world.sign_up()
    me = as_caller(await world.sign_in())
    await world.mails()
    return world, me


async def options_for(world: World, purpose: str, caller: dict[str, Any]) -> dict[str, Any]:
    return await world.app.service("account/passkey-options").create({"purpose": purpose}, caller)


async def new_passkey(
    world: World, caller: dict[str, Any], device: Authenticator, **changes: Any
) -> dict[str, Any]:
    """Return the data that adds a passkey."""
    issued = await options_for(world, "create", caller)
    credential = device.create(issued["options"])
    return {"token": issued["token"], "credential": credential, "name": "Phone", **changes}


async def add_passkey(world: World, caller: dict[str, Any], device: Authenticator) -> Any:
    data = await new_passkey(world, caller, device)
    return await world.app.service("account/passkeys").create(data, caller)


async def signed(world: World, device: Authenticator, **changes: Any) -> dict[str, Any]:
    """Return the credentials of a sign-in."""
    issued = await options_for(world, "get", {"provider": "rest", "ip": "192.0.2.1"})
    credential = device.get(issued["options"])
    return {"strategy": "passkey", "token": issued["token"], "credential": credential, **changes}


async def sign_in_with(world: World, device: Authenticator) -> dict[str, Any]:
    return await enter(world, await signed(world, device))
