"""How commands set up the application that they call in their own process."""

from __future__ import annotations

import pytest

from alula import App
from alula._cli.application import set_up


@pytest.mark.parametrize(
    ("environment", "is_debugged"),
    [
        ({}, True),
        ({"ALULA_ENV": "production"}, False),
        ({"ALULA_ENV": "test"}, False),
        ({"ALULA_DEBUG": "0"}, False),
    ],
)
async def test_it_is_debugged_in_development(environment, is_debugged, monkeypatch):
    for name in ("ALULA_ENV", "ALULA_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    class Service:
        was_set_up = False

        async def find(self, params):
            return []

        async def setup(self, app, path):
            self.was_set_up = True

    service = Service()
    app = App().use("some", service)
    await set_up(app)
    assert app.debug is is_debugged
    assert service.was_set_up
