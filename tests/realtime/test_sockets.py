"""Events become frames of socket.io."""

from __future__ import annotations

import pytest

from alula._connection import Event
from alula.realtime._sockets import encode_event


@pytest.mark.parametrize(
    ("path", "name"),
    [("messages", "messages created"), ("boxes/:id", "boxes/:id created"), ("", "/ created")],
)
def test_clients_listen_by_path_and_name(path, name):
    assert encode_event(Event(path, "created", {}, {})) == [f'42["{name}",{{}}]']


def test_an_event_without_a_json_form_is_logged_and_not_sent(caplog):
    assert encode_event(Event("messages", "created", None, object())) == []
    assert "the event created of 'messages' was not sent" in caplog.text
