"""Strategies for requests that a server may get: from well meant to hostile."""

from __future__ import annotations

import gzip
import json
from typing import NamedTuple
from urllib.parse import quote

from hypothesis import strategies as st


class Request(NamedTuple):
    """A request as it is sent.

    Attributes:
        method: HTTP method.
        target: Path and query string.
        headers: By name.
        body: None for none.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None


class Site(NamedTuple):
    """What a generator has to know of an application.

    Attributes:
        services: Paths of services, with values in the place of placeholders.
        ids: Ids that some records have.
        fields: Names of fields that records have.
        methods: Names of custom methods.
        pages: Other paths.
    """

    services: list[str]
    ids: list[str]
    fields: list[str]
    methods: list[str]
    pages: list[str]


METHODS = [*["GET"] * 6, *["POST"] * 4, *["PUT", "PATCH", "DELETE"] * 2, "HEAD", "OPTIONS"]
OPERATORS = ["$in", "$nin", "$lt", "$lte", "$gt", "$gte", "$ne", "$or", "$and", "$size", "$exists",
             "$regex", "$where", "$eq", "$not", "$foo"]  # fmt: skip
FILTERS = ["$limit", "$skip", "$sort", "$select", "$or", "$and", "$ignored", "$where", "$expr", "$"]
NAMES = ["__proto__", "constructor", "length", "", "0", "1", "20", "21", "999999999", "-1", "a.b"]
VALUES = ["", "1", "-1", "0", "1.5", "1e400", "NaN", "null", "true", "abc", "Ada", "9" * 30, "\x00",
          "é", "%", "%zz", "$in", "[]", "{}", "2024-01-01", "asc"]  # fmt: skip
NOISE = st.text("$[]=&%.+;#0123456789abcüé\x00'\"<>{}\\ ", max_size=30)
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
ACCEPTED = [JSON, "text/html", "text/plain", "text/csv", "*/*", "image/png", "", ",;q=x",
            f"{JSON};q=0", "text/html,application/xhtml+xml;q=0.9"]  # fmt: skip
TYPES = [JSON, FORM, "text/plain", "text/html", "", ";", "multipart/form-data",
         *(f"{JSON}; charset={name}" for name in ("utf-8", "utf-16", "foo"))]  # fmt: skip


def _containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    names = st.text(max_size=4)
    return st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(scalars, _containers, max_leaves=8)


def requests(site: Site) -> st.SearchStrategy[Request]:
    """Return a strategy for requests to an application."""
    return st.builds(
        _request,
        st.sampled_from(METHODS),
        targets(site),
        headers(site),
        st.none() | bodies(site),
    )


def _request(
    method: str, target: str, given: dict[str, str], sent: tuple[dict[str, str], bytes] | None
) -> Request:
    if sent is None:
        return Request(method, target, given, None)
    own, body = sent
    return Request(method, target, {**own, **given}, body)


def targets(site: Site) -> st.SearchStrategy[str]:
    """Return a strategy for request targets: paths of services, ids, query strings."""
    ids = st.sampled_from(site.ids) | NOISE.map(quote) | st.sampled_from(["%", "%zz", "%00", "%FF"])
    services = st.sampled_from(site.services).map(lambda path: f"/{path}")
    member = st.builds("{}/{}".format, services, ids)
    odd = st.builds("{}/{}/{}".format, services, ids, ids) | services.map(lambda path: f"/{path}//")
    pages = st.sampled_from([*site.pages, "/", "//", "/nope", "/.", "/..", "/%2e%2e/"])
    paths = st.one_of(*[services] * 4, *[member] * 4, odd, pages)
    queries = query_strings(site).map("?{}".format)
    return st.builds("{}{}".format, paths, st.just("") | queries | queries)


def query_strings(site: Site) -> st.SearchStrategy[str]:
    """Return a strategy for query strings, most of them in the common query syntax."""
    fields = st.sampled_from(site.fields)
    values = st.sampled_from(VALUES) | NOISE
    inner = st.one_of(fields, st.sampled_from(OPERATORS), st.sampled_from(FILTERS),
                      st.sampled_from(NAMES), st.integers(0, 3).map(str))  # fmt: skip
    brackets = st.lists(inner, max_size=5).map(lambda names: "".join(f"[{name}]" for name in names))
    keys = st.builds("{}{}".format, fields | st.sampled_from(FILTERS) | inner, brackets)
    pairs = st.builds("{}={}".format, keys.map(_as_key), values.map(quote))
    return st.lists(pairs | NOISE.map(_as_key), max_size=6).map("&".join)


def _as_key(text: str) -> str:
    """Encode what can not stand in a request line, and nothing else."""
    return quote(text, safe="$[]=&%.+;'0123456789")


def headers(site: Site) -> st.SearchStrategy[dict[str, str]]:
    """Return a strategy for headers that change what a request means."""
    latin = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20)
    method = st.sampled_from([*site.methods, "find", "create", "__init__", "hooks"]) | latin
    return st.fixed_dictionaries(
        {},
        optional={
            "accept": st.sampled_from(ACCEPTED) | latin,
            "x-service-method": method,
            "transfer-encoding": st.just("chunked"),
            "origin": st.just("http://example.com"),
            "x-in": latin,
            "x-test-params": json_values.map(json.dumps),
            "authorization": latin,
            "x-request-id": latin,
        },
    )


def bodies(site: Site) -> st.SearchStrategy[tuple[dict[str, str], bytes]]:
    """Return a strategy for bodies, each with the headers that say what it claims to be."""
    names = st.sampled_from([*site.fields, "id", "a", "b", "values", "what", "text", "$set", "a.b"])
    records = st.dictionaries(names, json_values, max_size=4)
    values = st.one_of(records, records, st.lists(records, max_size=3), json_values)
    texts = values.map(lambda value: json.dumps(value).encode("utf-8", "replace"))
    forms = query_strings(site).map(str.encode)
    kinds = st.sampled_from(TYPES).map(lambda kind: {"content-type": kind})
    packings = st.sampled_from(["gzip", "deflate", "br", "identity", ""])
    packed = packings.map(lambda name: {"content-type": JSON, "content-encoding": name})
    return st.one_of(
        *[st.tuples(st.just({"content-type": JSON}), texts)] * 5,
        *[st.tuples(st.just({"content-type": FORM}), forms)] * 2,
        st.tuples(kinds, texts | forms),
        st.tuples(packed, texts | texts.map(gzip.compress)),
        st.tuples(kinds, st.binary(max_size=30)),
        st.builds(lambda text, at: ({"content-type": JSON}, text[:at]), texts, st.integers(0, 20)),
    )
