"""What the page about MongoDB lists is all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alula._context import Params
from alula.adapters.mongodb import JSON_ENCODERS
from alula.adapters.mongodb._options import driver_options

PAGE = (Path(__file__).parents[3] / "docs" / "mongodb.md").read_text(encoding="utf-8")


def test_every_type_with_a_form_is_on_the_page():
    table = PAGE.partition("## Values in JSON")[2].partition("## ")[0]
    named = {kind.__name__ for kind in JSON_ENCODERS} - {"Binary"}
    assert named <= set(re.findall(r"`(\w+)`", table))
    assert "binary" in table


def test_the_options_of_the_driver_on_the_page_are_those_there_are():
    part = PAGE.partition("### Options of the driver")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    with pytest.raises(ValueError, match="MongoDBService reads ") as caught:
        driver_options("find", Params(docdb={"nonsense": 1}))
    known = set(str(caught.value).partition("reads ")[2].split(", "))
    assert listed == known - {"oplog_replay"}  # which servers have not needed for years
