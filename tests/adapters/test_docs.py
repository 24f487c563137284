"""The adapter of the documentation keeps the rules that its page promises."""

from __future__ import annotations

import re
from pathlib import Path

from alula.testing._rules.subject import FEATURES

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def defined_by_the_page():
    """Run the blocks that define something, without those that call it."""
    namespace = {"__name__": __name__}
    for block in BLOCKS:
        if "asyncio.run" not in block:
            exec(block, namespace)
    return namespace


TestSQLite = defined_by_the_page()["TestSQLite"]


def test_the_adapter_is_short():
    code = next(block for block in BLOCKS if "class SQLiteService" in block)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 45


def test_every_feature_is_listed():
    rows = dict(
        re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE.partition("| feature |")[2], re.MULTILINE)
    )
    assert {name: text.replace("`", "") for name, text in rows.items()} == {
        name: text.replace("`", "") for name, text in FEATURES.items()
    }
