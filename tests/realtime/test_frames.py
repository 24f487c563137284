"""Events as frames of socket.io."""

from __future__ import annotations

import pytest

from alula._connection import EventMessage
from alula.realtime._frames import encode_event


@pytest.mark.parametrize(
    ("path", "name"),
    [("messages", "messages created"), ("boxes/:id", "boxes/:id created"), ("", "/ created")],
)
def test_clients_listen_by_path_and_name(path, name):
    assert encode_event(EventMessage(path, "created", {})) == [f'42["{name}",{{}}]']


def test_an_event_without_a_json_form_is_logged_and_not_sent(caplog):
    assert encode_event(EventMessage("messages", "created", object())) == []
    assert "the event created of 'messages' was not sent" in caplog.text
