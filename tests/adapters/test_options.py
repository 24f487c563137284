"""Options are read once, and a wrong one says what is wrong with it."""

from __future__ import annotations

import pytest

from alula.adapters._options import Options, Pagination, read_multi, read_pagination

KNOWN = ("default", "max", "count")


@pytest.mark.parametrize("nothing", [None, False, {}])
def test_no_pages(nothing):
    assert read_pagination(nothing, KNOWN) is None


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"default": 10, "max": 50}, (10, 50)),
        ({"default": 10}, (10, None)),
        ({"max": 50}, (50, 50)),
        ({"default": 5, "max": 5}, (5, 5)),
        ({"default": None, "max": 5}, (5, 5)),
        ({"default": 5, "max": None}, (5, None)),
    ],
)
def test_page_sizes(given, sizes):
    pagination = read_pagination(given, KNOWN)
    assert (pagination.default, pagination.max) == sizes
    assert pagination.more == {}


def test_what_an_adapter_reads_beside_the_sizes():
    pagination = read_pagination({"max": 5, "count": "none"}, KNOWN)
    assert pagination.more == {"count": "none"}
    with pytest.raises(TypeError):
        pagination.more["count"] = "exact"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (True, "paginate is True; give"),
        (10, "paginate is 10; give"),
        ([10, 50], r"paginate is \[10, 50\]; give"),
        ({"limit": 5}, "paginate has 'limit'; it may have count, default, max"),
        ({"default": 0}, "'default' is 0; give a whole number from 1 on"),
        ({"default": "10"}, "'default' is '10'; give a whole number"),
        ({"default": True}, "'default' is True; give a whole number"),
        ({"default": 1, "max": 2.0}, "'max' is 2.0; give a whole number"),
        ({"max": -1}, "'max' is -1; give a whole number"),
        ({"default": 11, "max": 10}, r"'default' \(11\) is greater than 'max' \(10\)"),
        ({"count": "none"}, "neither 'default' nor 'max'"),
    ],
)
def test_wrong_page_sizes(given, text):
    with pytest.raises(ValueError, match=text):
        read_pagination(given, KNOWN)


@pytest.mark.parametrize(
    ("pagination", "asked", "limit"),
    [
        (Pagination(10, 50), None, 10),
        (Pagination(10, 50), 0, 0),
        (Pagination(10, 50), 20, 20),
        (Pagination(10, 50), 50, 50),
        (Pagination(10, 50), 51, 50),
        (Pagination(10), None, 10),
        (Pagination(10), 10_000, 10_000),
    ],
)
def test_the_limit_of_a_page(pagination, asked, limit):
    assert pagination.limit(asked) == limit


@pytest.mark.parametrize(
    ("given", "methods"),
    [
        (True, {"create", "patch", "remove"}),
        (False, set()),
        (None, set()),
        ([], set()),
        (["remove", "create"], {"create", "remove"}),
        (("patch",), {"patch"}),
        ({"patch": 1}.keys(), {"patch"}),
        (iter(["patch"]), {"patch"}),
    ],
)
def test_multi(given, methods):
    assert read_multi(given) == methods


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("patch", "multi is 'patch'; give True, False or a list of create, patch, remove"),
        (1, "multi is 1; give True"),
        (["update"], "multi lists 'update'; it may list create, patch, remove"),
        (["create", None], "multi lists None; it may list"),
    ],
)
def test_wrong_multi(given, text):
    with pytest.raises(ValueError, match=text):
        read_multi(given)


def test_options_cannot_change():
    options = Options()
    assert (options.id, options.pagination, options.multi) == ("id", None, frozenset())
    with pytest.raises(AttributeError):
        options.multi = frozenset({"patch"})
