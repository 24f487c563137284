"""Verbs to methods, results to responses: the facts of the wire, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula import UNSET, HookContext, Params
from alula._http import METHOD_HEADER, METHOD_OF_VERB, allowed_verbs, not_allowed, response_for
from alula.errors import MethodNotAllowed
from alula.types import STANDARD_METHODS


class Handle:
    path = "messages"


def context(method="find", result=None, http=None, dispatch=UNSET):
    made = HookContext(None, Handle(), method, Params())
    made.result, made.dispatch = result, dispatch
    if http is not None:
        made.http = http
    return made


class TestMethodFor:
    @pytest.mark.parametrize(
        ("verb", "has_id", "method"),
        [
            ("GET", False, "find"),
            ("GET", True, "get"),
            ("HEAD", False, "find"),
            ("HEAD", True, "get"),
            ("POST", False, "create"),
            ("POST", True, "create"),
            ("PUT", False, "update"),
            ("PUT", True, "update"),
            ("PATCH", False, "patch"),
            ("PATCH", True, "patch"),
            ("DELETE", False, "remove"),
            ("DELETE", True, "remove"),
        ],
    )
    def test_a_verb(self, verb, has_id, method):
        assert METHOD_OF_VERB[has_id][verb] == method

    @pytest.mark.parametrize("verb", ["OPTIONS", "TRACE", "LINK", "SEARCH", "PURGE", "get", ""])
    def test_a_verb_that_stands_for_nothing(self, verb):
        assert verb not in METHOD_OF_VERB[False]
        assert verb not in METHOD_OF_VERB[True]

    def test_the_header_is_in_lower_case_as_servers_give_it(self):
        assert METHOD_HEADER == "x-service-method"


class TestAllow:
    def test_of_a_service_with_everything(self):
        every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
        assert allowed_verbs(STANDARD_METHODS, has_id=False) == every
        assert allowed_verbs(STANDARD_METHODS, has_id=True) == every

    @pytest.mark.parametrize(
        ("methods", "collection", "member"),
        [
            (["find"], ["GET", "HEAD"], []),
            (["get"], [], ["GET", "HEAD"]),
            (["find", "get"], ["GET", "HEAD"], ["GET", "HEAD"]),
            (["create"], ["POST"], ["POST"]),
            (["find", "archive"], ["GET", "HEAD", "POST"], ["POST"]),
            (["create", "archive"], ["POST"], ["POST"]),
            (["update", "remove"], ["PUT", "DELETE"], ["PUT", "DELETE"]),
            ([], [], []),
        ],
    )
    def test_of_a_service_with_some(self, methods, collection, member):
        assert allowed_verbs(methods, has_id=False) == collection
        assert allowed_verbs(methods, has_id=True) == member

    def test_the_error_for_a_method_that_is_not_offered(self):
        error = not_allowed("remove", "DELETE", ["find", "create"], False)
        assert isinstance(error, MethodNotAllowed)
        assert error.code == 405
        assert error.message == "Method `remove` is not supported by this endpoint."
        assert error.headers == {"Allow": "GET, HEAD, POST"}

    def test_the_error_for_a_verb_that_stands_for_nothing(self):
        error = not_allowed(None, "OPTIONS", ["get", "patch"], True)
        assert error.message == "Method OPTIONS not allowed"
        assert error.headers == {"Allow": "GET, HEAD, PATCH"}

    def test_a_closed_service_allows_nothing(self):
        assert not_allowed("find", "GET", [], False).headers == {"Allow": ""}


class TestStatusOfAResult:
    @pytest.mark.parametrize("empty", [None, False, 0, 0.0, ""])
    @pytest.mark.parametrize("method", ["find", "create", "archive"])
    def test_nothing_is_204_without_a_body(self, empty, method):
        assert response_for(context(method, empty)) == (204, {}, None)

    @pytest.mark.parametrize("content", [[], {}, (), b"", "text", 42, True, [None], {"a": 0}])
    def test_anything_else_is_200_and_201_for_create(self, content):
        assert response_for(context("find", content)) == (200, {}, content)
        assert response_for(context("archive", content)) == (200, {}, content)
        assert response_for(context("create", content)) == (201, {}, content)

    @pytest.mark.parametrize("http", [None, {}, {"headers": {}}, {"headers": None}])
    def test_an_empty_http_decides_nothing(self, http):
        assert response_for(context("create", {"a": 1}, http)) == (201, {}, {"a": 1})
        assert response_for(context("create", None, http)) == (204, {}, None)
        assert response_for(context("find", [], http)) == (200, {}, [])


class TestDispatch:
    def test_takes_the_place_of_the_result(self):
        assert response_for(context("create", {"password": 1}, dispatch={"safe": 1})) == (
            201,
            {},
            {"safe": 1},
        )

    @pytest.mark.parametrize("empty", [None, False, 0, ""])
    def test_can_be_nothing(self, empty):
        assert response_for(context("find", {"a": 1}, dispatch=empty)) == (204, {}, None)

    def test_of_nothing_can_be_something(self):
        assert response_for(context("find", None, dispatch=[])) == (200, {}, [])


class TestContextHttp:
    @pytest.mark.parametrize("method", ["find", "create", "archive"])
    def test_a_status_is_the_status(self, method):
        assert response_for(context(method, {"a": 1}, {"status": 202})) == (202, {}, {"a": 1})

    def test_a_status_of_nothing_keeps_the_empty_body(self):
        assert response_for(context("find", None, {"status": 200})) == (200, {}, None)

    @pytest.mark.parametrize("status", [204, 304])
    def test_a_status_that_has_no_body_drops_it(self, status):
        assert response_for(context("find", {"a": 1}, {"status": status})) == (status, {}, None)

    def test_headers(self):
        given = {"X-Custom": "yes", "Cache-Control": "no-store"}
        assert response_for(context("create", {"a": 1}, {"headers": given})) == (
            201,
            given,
            {"a": 1},
        )
        assert response_for(context("remove", None, {"headers": given})) == (204, given, None)

    def test_the_headers_of_the_hook_stay_its_own(self):
        given = {"X-Custom": "yes"}
        response_for(context("find", [], {"headers": given, "location": "/x"}))
        assert given == {"X-Custom": "yes"}

    @pytest.mark.parametrize("method", ["find", "create", "archive"])
    @pytest.mark.parametrize("result", [{"a": 1}, None])
    def test_a_location_alone_is_303(self, method, result):
        response = response_for(context(method, result, {"location": "/echo/1"}))
        assert response == (303, {"Location": "/echo/1"}, result)

    @pytest.mark.parametrize("name", ["Location", "location"])
    def test_a_location_among_the_headers_is_303_too(self, name):
        response = response_for(context("create", {"a": 1}, {"headers": {name: "/somewhere"}}))
        assert response == (303, {name: "/somewhere"}, {"a": 1})

    def test_status_headers_and_location_at_once(self):
        http = {"status": 207, "headers": {"X-Custom": "all"}, "location": "/all"}
        assert response_for(context("find", {"a": 1}, http)) == (
            207,
            {"X-Custom": "all", "Location": "/all"},
            {"a": 1},
        )

    @pytest.mark.parametrize("name", ["Location", "location", "LOCATION"])
    def test_there_is_one_location_only(self, name):
        http = {"headers": {name: "/first", "X-Custom": "1"}, "location": "/second"}
        assert response_for(context("find", [], http))[1] == {
            "X-Custom": "1",
            "Location": "/second",
        }


class TestLocation:
    @pytest.mark.parametrize(
        ("location", "sent"),
        [
            ("/echo/1", "/echo/1"),
            ("/echo/1?name=ü&x=a b", "/echo/1?name=%C3%BC&x=a%20b"),
            ("https://user@[::1]:80/a;b,c?d=e#f", "https://user@[::1]:80/a;b,c?d=e#f"),
            ("/a%20b", "/a%20b"),
            ("/100%", "/100%25"),
            ("/%zz%4", "/%25zz%254"),
            ("/it's/(1)/*!~$-_.+", "/it's/(1)/*!~$-_.+"),
            ('/"<>\\^`{|}', "/%22%3C%3E%5C%5E%60%7B%7C%7D"),
            ("", ""),
        ],
    )
    def test_is_encoded_where_it_has_to_be(self, location, sent):
        response = response_for(context("find", [], {"location": location}))
        assert response == (303, {"Location": sent}, [])

    def test_cannot_split_the_response(self):
        response = response_for(context("find", [], {"location": "/x\r\nSet-Cookie: a=b\x00"}))
        assert response[1]["Location"] == "/x%0D%0ASet-Cookie:%20a=b%00"

    def test_may_be_any_object_with_a_text(self):
        class URL:
            def __str__(self):
                return "/a b"

        response = response_for(context("find", [], {"location": URL()}))
        assert response[1] == {"Location": "/a%20b"}

    @given(st.text(st.characters(codec="utf-8")))
    def test_is_ascii_and_stays_as_it_is_when_sent_on(self, location):
        def encoded(text):
            return response_for(context("find", [], {"location": text}))[1]["Location"]

        once = encoded(location)
        assert once.isascii()
        assert once.isprintable()
        assert encoded(once) == once
