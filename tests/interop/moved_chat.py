"""The feathers-chat of the page for newcomers, on settings as FeathersJS has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.docs.test_code_blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "from-feathersjs.md"
SECRET = "of thirty-two characters or more"
SETTINGS = {
    "host": "localhost",
    "port": 3030,
    "origins": ["http://localhost:3030", "http://localhost:3000"],
    "paginate": {"default": 10, "max": 50},
    "authentication": {
        "entity": "user",
        "service": "users",
        "authStrategies": ["jwt", "local"],
        "jwtOptions": {"header": {"typ": "access"}, "algorithm": "HS256", "expiresIn": "1d"},
        "local": {"usernameField": "email", "passwordField": "password"},
    },
}
VARIABLES = {
    "port": {"__name": "PORT", "__format": "number"},
    "authentication": {"secret": "FEATHERS_SECRET"},
}


def code_of_chat() -> str:
    """Return the code of the page that is the whole chat."""
    (code,) = (b.code for b in blocks_of(PAGE.read_text()) if "def make_chat(" in b.code)
    return code


def make_app(folder: Path) -> Any:
    """Return the chat, with its files in a folder that is empty."""
    paths = {"public": str(folder), "sqlite": {"connection": str(folder / "chat.sqlite")}}
    (folder / "config").mkdir()
    (folder / "config" / "default.json").write_text(json.dumps({**SETTINGS, **paths}))
    mapping = folder / "config" / "custom-environment-variables.json"
    mapping.write_text(json.dumps(VARIABLES))
    chat: dict[str, Any] = {"__name__": "chat"}
    # Not with the annotations of this module, which are texts.
    exec(compile(code_of_chat(), str(PAGE), "exec", dont_inherit=True), chat)
    environ = {"FEATHERS_SECRET": SECRET}
    return chat["make_chat"](chat["load_settings"](chat["Settings"], folder, environ=environ))
