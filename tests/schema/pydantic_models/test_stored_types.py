"""Everyday types of Pydantic become what a store holds."""

from __future__ import annotations

import ipaddress
import re
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from uuid import UUID

import pytest
from bson import ObjectId
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, Secret, SecretBytes, SecretStr

from alula.schema._pydantic_models.model_validator import storable

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NUMBER = "c351e8b9-71b3-42e4-b115-4923418642a2"


class Kind(Enum):
    A = "a"
    ID = UUID(NUMBER)


class Level(IntEnum):
    LOW = 1


class Colour(StrEnum):
    RED = "red"


VALUES = [
    (Kind.A, "a"),
    (Kind.ID, NUMBER),
    (Level.LOW, 1),
    (Colour.RED, "red"),
    (UUID(NUMBER), NUMBER),
    (Decimal("1.50"), Decimal("1.50")),
    (date(2026, 1, 31), "2026-01-31"),
    (time(10, 30), "10:30:00"),
    (timedelta(minutes=90), "PT1H30M"),
    (AnyUrl("http://a.example/b"), "http://a.example/b"),
    (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    (PurePosixPath("/a/b"), "/a/b"),
    (re.compile("^a"), "^a"),
    (SecretStr("hush"), "hush"),
    (SecretBytes(b"hush"), b"hush"),
    (Secret(date(2026, 1, 31)), "2026-01-31"),
    (NOON, NOON),
    (b"\xff", b"\xff"),
    ({"b", "a", "c"}, ["a", "b", "c"]),
    (frozenset({Kind.A}), ["a"]),
    ((1, Kind.A), [1, "a"]),
    (deque([NOON]), [NOON]),
    (MappingProxyType({"a": Kind.A}), {"a": "a"}),
    ({Kind.A: 1, 5: 2, UUID(NUMBER): 3}, {"a": 1, "5": 2, NUMBER: 3}),
]


@pytest.mark.parametrize(("value", "stored"), VALUES, ids=lambda value: type(value).__name__)
def test_becomes(value, stored):
    for wrap in (lambda inner: inner, lambda inner: {"a": [{"b": inner}]}):
        found = storable(wrap(value))
        assert found == wrap(stored)
        assert repr(found) == repr(wrap(stored))  # 1 is not Level.LOW


@pytest.mark.parametrize("value", [ObjectId(), Int64(5), object()])
def test_what_only_a_database_knows_stays(value):
    assert storable([value])[0] is value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_plain_data_stays_as_it_is(value):
    assert storable(value) == value


def test_the_order_of_names_stays():
    assert list(storable(OrderedDict(b=1, a=2))) == ["b", "a"]
