"""Paths and query strings that are broken, endless, or an attempt."""

from __future__ import annotations

import time

import pytest
from tests.conformance.wire import send
from tests.robustness.raw import assert_refused, exchange, head

JSON = {"content-type": "application/json"}
SECONDS_FOR_THE_WORST = 10  # on a busy machine; it is a tenth of a second on an idle one
READING = ["/echo", "/people", "/people/1", "/messages", "/at-memory"]


OVER_THE_LIMITS = {
    "10,000 parameters": "&".join(f"p{i}=1" for i in range(10_000)),
    "10,000 names": "p&" * 10_000,
    "10,000 ampersands": "&" * 10_000,
    "5,000 items": "a[]=1&" * 5000,
    "depth of 1,000": "a" + "[b]" * 1000 + "=1",
    "depth of 1,000, encoded": "a" + "%5Bb%5D" * 1000 + "=1",
    "depth of 1,000 in lists": "a" + "[]" * 1000 + "=1",
    "depth of 6": "a" + "[0]" * 6 + "=1",
    "depth of 10 in $and": "$and[0]" + "[$and][0]" * 10 + "[a]=1",
}


@pytest.mark.parametrize("path", READING)
@pytest.mark.parametrize("query", OVER_THE_LIMITS.values(), ids=OVER_THE_LIMITS)
def test_refuses_a_query_over_the_limits(base, path, query):
    # The longest of them are too long for a request line already.
    assert_refused(send(base, "GET", f"{path}?{query}"), 400, 431)


WITHIN_THE_LIMITS = {
    "$or": "&".join(f"$or[{i}][text]=x" for i in range(999)),
    "$in": "&".join("text[$in][]=x" for _ in range(999)),
    "fields": "&".join(f"f{i}=1" for i in range(999)),
    "$sort": "&".join(f"$sort[f{i}]=1" for i in range(999)),
    "$select": "&".join(f"$select[]=f{i}" for i in range(999)),
    "indexes downwards": "&".join(f"a[{i}]=1" for i in range(999, 0, -1)),
    "lists and names": "&".join(f"a[{i}]=1&a[]=2&a=3" for i in range(333)),
    "a long name": "a" * 60_000 + "=1",
    "a long path": "a" + ".a" * 20_000 + "=1",
    "open brackets": "[" * 60_000,
    "closed brackets": "]" * 60_000,
    "escapes": "%41" * 20_000,
}


@pytest.mark.parametrize("query", WITHIN_THE_LIMITS.values(), ids=WITHIN_THE_LIMITS)
def test_no_query_is_slow(base, query):
    start = time.perf_counter()
    reply = send(base, "GET", f"/messages?{query}")
    assert reply.status in {200, 400}
    assert time.perf_counter() - start < SECONDS_FOR_THE_WORST


def test_refuses_a_query_over_the_limits_in_every_method(base):
    query = "&".join(f"p{i}=1" for i in range(1001))
    for method in ("GET", "DELETE"):
        assert_refused(send(base, method, f"/people/1?{query}"), 400)
    for method in ("POST", "PUT", "PATCH"):
        assert_refused(send(base, method, f"/people/1?{query}", JSON, b"{}"), 400)


@pytest.mark.parametrize(
    "query",
    [
        "a=%00",
        "%00=a",
        "a=%",
        "a=%f",
        "a=%zz",
        "a=%FF%FE",
        "a=%C3",
        "a=%ED%A0%80",
        "a=%F4%90%80%80",
        "a=%u0041",
        "%",
        "%%%",
        "=",
        "==",
        "[]=1",
        "[=1",
        "]=1",
        "a[=1",
        "a]=1",
        "a[[]]=1",
        "a[]]=1",
        "a[b=1",
        "a[0]b[1]=1",
        "__proto__=1",
        "__proto__[x]=1",
        "a[__proto__][x]=1",
        "constructor[prototype][x]=1",
        "hasOwnProperty=1",
        "a[999999999999]=1",
        "a[" + "9" * 400 + "]=1",
        "a[-1]=1",
        "a=" + "9" * 10_000,
        "a=1e400",
        "a=NaN",
        "a=-0",
        "?a=1",
        "a=1#b",
        "a=b;c=d",
        "'%20OR%201=1--",
        "<script>=1",
        "a=${7*7}",
        "a={{7*7}}",
    ],
)
@pytest.mark.parametrize("path", READING)
def test_takes_or_refuses_a_strange_query(base, path, query):
    target = f"{path}?{query}".replace("<", "%3C").replace(">", "%3E")
    reply = send(base, "GET", target.replace("{", "%7B").replace("}", "%7D"))
    if reply.status == 200:
        reply.json()
    else:
        assert_refused(reply, 400, 404)


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "", "NaN", "Infinity", "1e400", "9" * 400,
                                   "%00", "0x10", "[]", "null", "true", "٣"])  # fmt: skip
@pytest.mark.parametrize("name", ["%24limit", "%24skip"])
@pytest.mark.parametrize("path", ["/people", "/messages", "/todos", "/keyed"])
def test_refuses_what_is_no_number(base, path, name, value):
    value = value if value.isascii() else "%D9%A3"
    assert_refused(send(base, "GET", f"{path}?{name}={value}"), 400)


@pytest.mark.parametrize(
    "query",
    [
        "$where=1",
        "$function[body]=1",
        "$expr[$gt][0]=1",
        "$or=1",
        "$or[0]=1",
        "$or[a]=1",
        "$and=",
        "$and[0][]=1",
        "$or[0][$where]=1",
        "$or[0][$or]=1",
        "name[$where]=1",
        "name[$regex]=(a%2B)%2B$",
        "name[$foo]=1",
        "name[$or][0]=1",
        "a[b][c][$foo]=1",
        "$sort=name",
        "$sort[name]=up",
        "$sort[name]=0",
        "$sort[name][$gt]=1",
        "$select[a]=b",
        "$select[0][a]=b",
        "$=1",
        "$limit[$gt]=1",
        "$skip[]=1",
        "$foo[bar]=1",
    ],
)
@pytest.mark.parametrize("path", ["/people", "/messages", "/keyed", "/people/1"])
def test_refuses_what_the_grammar_does_not_know(base, path, query):
    assert_refused(send(base, "GET", f"{path}?{query}"), 400)
    assert_refused(send(base, "PATCH", f"{path}?{query}", JSON, b"{}"), 400)
    assert_refused(send(base, "DELETE", f"{path}?{query}"), 400)


@pytest.mark.parametrize(
    "id",
    [
        "%",
        "%zz",
        "%00",
        "1%00",
        "%FF%FE",
        "%ED%A0%80",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..",
        ".",
        "..%5C..",
        "__proto__",
        "constructor",
        "9" * 400,
        "9" * 5000,
        "-1",
        "1e400",
        "NaN",
        "null",
        "[object%20Object]",
        "%7B%22$gt%22:%22%22%7D",
        "a" * 10_000,
        "'",
        "%22",
        "%0d%0aX-Injected:%20yes",
        "٣".encode().hex(),
        "%D9%A3",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
@pytest.mark.parametrize("service", ["people", "messages", "keyed"])
def test_an_unknown_id_is_not_found(base, service, method, id):
    body = b"{}" if method in {"PUT", "PATCH"} else None
    reply = send(base, method, f"/{service}/{id}", JSON if body else {}, body)
    assert_refused(reply, 404)
    assert "x-injected" not in reply.headers


@pytest.mark.parametrize("id", ["a%2Fb", "%0d%0aX-Injected:%20yes", "%E4%BD%A0", "%00", "%FF"])
def test_ids_in_headers_do_no_harm(base, id):
    reply = send(base, "GET", f"/after-mw/{id}")
    assert reply.status == 200
    assert "x-injected" not in reply.headers


@pytest.mark.parametrize("value", ["%0d%0aX-Injected:%20yes", "%00", "%FF", "javascript:x"])
def test_a_query_never_reaches_the_headers(base, value):
    reply = send(base, "GET", f"/custom-http?mode={value}")
    assert reply.status == 200
    assert "x-injected" not in reply.headers


@pytest.mark.parametrize("target", [b"/people/\x00", b"/people\x01", b"/\xe9", "/é".encode(),
                                    b"/a b c", b"people", b"?a=1", b"/people?a=\xff"])  # fmt: skip
def test_refuses_raw_bytes_in_the_target(base, target):
    assert_refused(exchange(base, head(target)), 400)


@pytest.mark.parametrize("target", [b"/people/" + b"a" * 100_000, b"/people?a=" + b"1" * 100_000])
def test_refuses_an_endless_target(base, target):
    assert_refused(exchange(base, head(target)), 400, 414, 431)


@pytest.mark.parametrize(
    "value", ["{", "1", "null", '{"paginate":1}', '{"paginate":{"default":"x"}}',
              '{"adapter":{"multi":"all"}}', '{"adapter":1}', '{"adapter":{"model":1}}', "\xff"]
)  # fmt: skip
def test_params_for_tests_are_checked_too(base, value):
    assert_refused(send(base, "GET", "/at-memory", {"x-test-params": value}), 400)
