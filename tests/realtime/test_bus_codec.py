"""Events keep their types and their redaction on the way to other processes."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass

import pytest
from bson import ObjectId

from alula._channels import Event
from alula.outgoing import RedactedRecord, public_part, register_json_encoder
from alula.outgoing._encoders import JSON_ENCODERS
from alula.realtime._bus import _codec as codec
from alula.realtime._bus._codec import decode_event, encode_event, read_header


def event_of(record, data=None, **values):
    fields = {"path": "messages", "name": "created", "method": "create", "id": None}
    fields |= {"query": {}, "provider": "socketio", "user": {"id": 7}, "origin": "here"}
    data = record if data is None else data
    return Event(record=record, data=data, **{**fields, "sequence": 3, **values})


def travelled(record, data=None, **values):
    return decode_event(read_header(encode_event(event_of(record, data, **values))))


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    pass


VALUES = [
    {"text": "hello", "n": [1, 2.5, None, True], "deep": {"er": [{}]}},
    "text",
    12345678901234567890123,
    b"\x00\xff",
    ObjectId("5f1d7c3e9b1e8a0001a1b2c3"),
    uuid.UUID(int=7),
    decimal.Decimal("1.10"),
    datetime.datetime(2026, 11, 22, 17, 0, 0, 123456, datetime.UTC),
    datetime.datetime(2026, 11, 22),
    datetime.date(2026, 11, 22),
    datetime.time(17, 30),
    datetime.timedelta(days=-400, seconds=5, microseconds=7),
    {"lone surrogate": "\ud800", "null": "\x00"},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_arrive_as_what_they_were(value):
    for data in (value, {"of": [value]}):
        arrived = travelled(data)
        assert arrived.record == data
        assert arrived.data is arrived.record
        assert type(arrived.record) is type(data)


@dataclass
class Point:
    x: int
    y: datetime.date


class Money:
    pass


def test_types_of_the_application_arrive_in_their_json_form():
    register_json_encoder(Money, lambda _: "1 EUR")
    try:
        data = {"c": Colour.RED, "t": (1, 2), "p": Point(1, datetime.date(2026, 1, 1))}
        data |= {"m": Money(), "s": Text("a"), "b": bytearray(b"b"), "v": memoryview(b"v")}
        assert travelled(data).record == {
            "c": "red",
            "t": [1, 2],
            "p": {"x": 1, "y": datetime.date(2026, 1, 1)},
            "m": "1 EUR",
            "s": "a",
            "b": b"b",
            "v": b"v",
        }
    finally:
        del JSON_ENCODERS[Money]


def test_a_value_without_a_json_form_is_refused():
    with pytest.raises(TypeError, match="a value of the type object has no JSON form"):
        encode_event(event_of({"x": object()}))


def test_redaction_travels():
    user = RedactedRecord({"name": "Ada", "password": "hash"}, {"name": "Ada"})
    arrived = travelled(user, user.public)
    assert (arrived.record["password"], arrived.data) == ("hash", {"name": "Ada"})
    assert arrived.data is arrived.record.public
    arrived = travelled({"user": user}, {"user": {"name": "Ada"}})
    assert arrived.record["user"]["password"] == "hash"
    assert public_part(arrived.record) == arrived.data == {"user": {"name": "Ada"}}
    # What is hidden travels once.
    assert encode_event(event_of(user, user.public)).count(b"Ada") == 2


def test_another_public_part_travels_beside_the_record():
    arrived = travelled({"a": 1, "b": 2}, {"a": 1})
    assert (arrived.record, arrived.data) == ({"a": 1, "b": 2}, {"a": 1})


def test_the_call_travels_without_its_headers():
    given = event_of({"id": 1}, query={"room": "a"}, id=ObjectId(), route={"a": "1"})
    assert decode_event(read_header(encode_event(given))) == given


def test_a_client_cannot_send_a_tagged_value():
    # Records are made of what clients send, so the key of tagged values must not be known.
    forged = {"ownerId": {"objectid": "5f1d7c3e9b1e8a0001a1b2c3"}, "$tag": ["objectid", "1"]}
    assert travelled(forged).record == forged
    assert len(codec._TAG) == 32
    # Each process has its own, and writes it into the header of its events.
    foreign = encode_event(event_of({"at": datetime.date(2026, 1, 1)}))
    foreign = foreign.replace(codec._TAG.encode(), b"0" * 32)
    assert decode_event(read_header(foreign)).record == {"at": datetime.date(2026, 1, 1)}


@pytest.mark.parametrize("event", [b"", b"{}\n", b'[2,"o",1,"t"]\n[]', b"[1]\n[]", b"\xff"])
def test_what_another_version_sends_is_refused(event):
    with pytest.raises(ValueError):  # json's own, or ours
        read_header(event)
