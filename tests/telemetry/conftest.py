"""Recordings for the tests of telemetry."""

from __future__ import annotations

import pytest
from tests.telemetry.recording import Recording

from alula.logs import _fields as fields


@pytest.fixture
def recording(monkeypatch):
    monkeypatch.setattr(fields, "_providers", {})  # what the plugins add stays in the test
    made = Recording()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()
