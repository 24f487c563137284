"""What several modules of this room need: a clock, and connections that close soon."""

from __future__ import annotations

import pytest
from tests.authentication.building import Clock
from tests.authentication.connecting import follow_the_book

from alula.authentication import _connections as connections_module


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told(app):
    """What the application says of its connections; see `follow_the_book`."""
    return follow_the_book(app)


@pytest.fixture
def closes_soon(monkeypatch):
    """Close connections 20 ms after they were signed out."""
    monkeypatch.setattr(connections_module, "_CLOSE_DELAY_SECONDS", 0.02)
