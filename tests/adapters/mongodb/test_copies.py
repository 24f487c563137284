from __future__ import annotations

from datetime import UTC, datetime

from bson import SON, Binary, Decimal128, Int64, ObjectId, Regex

from alula.adapters.mongodb._copies import copied


def test_a_copy_is_equal_and_shares_no_container():
    record = {
        "_id": ObjectId(),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "numbers": [1, 2.5, Int64(3), Decimal128("4.5"), [None, True]],
        "inner": {"list": [{"deep": "x"}]},
    }
    copy = copied(record)
    assert copy == record
    copy["numbers"][4].append(1)
    copy["inner"]["list"][0]["deep"] = "y"
    copy["inner"]["list"].append(2)
    copy["new"] = 1
    assert record["numbers"][4] == [None, True]
    assert record["inner"] == {"list": [{"deep": "x"}]}
    assert "new" not in record


def test_types_stay_as_they_are():
    value = {"a": Int64(1), "b": Binary(b"x", 5), "c": Regex("a"), "d": SON([("x", [1])])}
    copy = copied(value)
    assert {name: type(each) for name, each in copy.items()} == {
        "a": Int64,
        "b": Binary,
        "c": Regex,
        "d": SON,
    }
    assert copy["d"]["x"] is not value["d"]["x"]


def test_none_stands_for_no_record():
    assert copied(None) is None
