"""How the database's own values look in JSON."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import bson
import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)  # fmt: skip
from bson.codec_options import CodecOptions

from alula._json_encoding import dumps
from alula.adapters.mongodb import JSON_ENCODERS

HEX = "64b0000000000000000000d1"
UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
DATE = datetime(2024, 1, 15, 12, 30, 0, 250_000, UTC)


VALUES = [
    (ObjectId(HEX), HEX),
    (Decimal128("12.50"), "12.50"),
    (Decimal128("NaN"), "NaN"),
    (Binary(b"\x00\xff"), "AP8="),
    (Binary(b"\x00\xff", 128), "AP8="),
    (Binary.from_uuid(UUID), str(UUID)),
    (Binary(b"short", 4), "c2hvcnQ="),
    (b"\x00\xff", "AP8="),
    (UUID, str(UUID)),
    (Int64(2**53), 2**53),
    (Timestamp(5, 6), {"t": 5, "i": 6}),
    (Regex("^a/b", "imx"), "/^a/b/imx"),
    (Regex(b"\xff", "s"), "/\ufffd/s"),
    (DatetimeMS(DATE), "2024-01-15T12:30:00.250Z"),
    (DatetimeMS(2**60), 2**60),
    (DATE, "2024-01-15T12:30:00.250Z"),
    (DBRef("notes", ObjectId(HEX), "db"), {"$ref": "notes", "$id": HEX, "$db": "db"}),
    (MinKey(), "MinKey"),
    (MaxKey(), "MaxKey"),
    (Code("return 1"), "return 1"),
]


@pytest.mark.parametrize(("value", "form"), VALUES)
def test_has_a_form_in_json(value, form):
    found = json.loads(dumps({"value": [value]}))["value"][0]
    assert (found, type(found)) == (form, type(form))


def test_all_forms_are_tried():
    assert {type(value) for value, _ in VALUES} >= JSON_ENCODERS.keys()


def test_an_id_may_be_a_key():
    assert json.loads(dumps({ObjectId(HEX): 1})) == {HEX: 1}


def test_what_the_driver_reads_has_a_form():
    """Types as they come from the database, not as they are made here."""
    options = CodecOptions(tz_aware=True)
    record = {"_id": ObjectId(HEX), "at": DATE, "size": Int64(5), "pattern": Regex("a", "i")}
    read = bson.decode(bson.encode(record), options)
    assert json.loads(dumps(read)) == {
        "_id": HEX,
        "at": "2024-01-15T12:30:00.250Z",
        "size": 5,
        "pattern": "/a/i",
    }
