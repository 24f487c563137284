from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.contract import PATHS, TESTS


def test_each_path_leads_to_tests():
    for path in PATHS:
        found = TESTS / path
        files = [found] if found.is_file() else list(found.rglob("test_*.py"))
        assert files, path
        assert any("def test_" in file.read_text() or "Suite" in file.read_text() for file in files)


def test_each_store_is_tried_by_the_suite_of_adapters():
    stores = {
        str(path.relative_to(TESTS))
        for path in (TESTS / "adapters").rglob("test_*.py")
        if re.search(r"^class \w+\(.*AdapterSuite", path.read_text(), re.MULTILINE)
    }
    assert stores
    assert stores <= set(PATHS)


def test_the_tests_below_the_paths_have_the_mark(request):
    paths = [TESTS / path for path in PATHS]
    tests: dict[Path, list[pytest.Item]] = {}
    for item in request.session.items:
        tests.setdefault(item.path, []).append(item)
    for file, items in tests.items():
        below = any(file.is_relative_to(path) for path in paths)
        for item in items:
            slow = item.get_closest_marker("slow") is not None and file.parent.name != "packaging"
            assert (item.get_closest_marker("contract") is not None) == (below and not slow)
