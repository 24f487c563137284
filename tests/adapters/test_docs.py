"""The page on adapters lists what a store may declare as unsupported.

The shown adapter is on the page on extending; ``tests/docs/test_projects.py`` runs its suite.
"""

from __future__ import annotations

import re
from pathlib import Path

from alula.testing._rules.subject import FEATURES

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text(encoding="utf-8")


def test_every_feature_is_listed():
    rows = dict(
        re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE.partition("| feature |")[2], re.MULTILINE)
    )
    assert {name: text.replace("`", "") for name, text in rows.items()} == {
        name: text.replace("`", "") for name, text in FEATURES.items()
    }
