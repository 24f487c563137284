"""What the page about MongoDB lists is all there is."""

from __future__ import annotations

import re
from pathlib import Path

from alula.adapters.mongodb import JSON_FORMS
from alula.adapters.mongodb.driver_options import options_for
from alula.context import Params

PAGE = (Path(__file__).parents[3] / "docs" / "mongodb.md").read_text(encoding="utf-8")


def test_every_type_with_a_form_is_on_the_page():
    table = PAGE.partition("## Values in JSON")[2].partition("## ")[0]
    named = {kind.__name__ for kind in JSON_FORMS} - {"Binary"}
    assert named <= set(re.findall(r"`(\w+)`", table))
    assert "binary" in table


def test_every_option_of_the_driver_on_the_page_is_one():
    listed = PAGE.partition("| `docdb` | options of the driver:")[2].partition("and more")[0]
    names = re.findall(r"`(\w+)`", listed)
    assert "session" in names
    for name in names:
        options_for("find", Params(docdb={name: 1}))
