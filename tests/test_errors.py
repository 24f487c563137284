"""The error classes: what they say on the wire, and how they come back from it."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula import errors
from alula.errors import BadRequest, FrameworkError, NotFound, error_for_status, from_dict

WIRE_NAMES = [
    ("BadRequest", 400, "bad-request"),
    ("NotAuthenticated", 401, "not-authenticated"),
    ("PaymentError", 402, "payment-error"),
    ("Forbidden", 403, "forbidden"),
    ("NotFound", 404, "not-found"),
    ("MethodNotAllowed", 405, "method-not-allowed"),
    ("NotAcceptable", 406, "not-acceptable"),
    ("Timeout", 408, "timeout"),
    ("Conflict", 409, "conflict"),
    ("Gone", 410, "gone"),
    ("LengthRequired", 411, "length-required"),
    ("PayloadTooLarge", 413, "payload-too-large"),
    ("UnsupportedMediaType", 415, "unsupported-media-type"),
    ("Unprocessable", 422, "unprocessable"),
    ("TooManyRequests", 429, "too-many-requests"),
    ("GeneralError", 500, "general-error"),
    ("NotImplemented", 501, "not-implemented"),
    ("BadGateway", 502, "bad-gateway"),
    ("Unavailable", 503, "unavailable"),
]


def class_named(wire_name):
    return getattr(errors, {"NotImplemented": "NotImplementedMethod"}.get(wire_name, wire_name))


@pytest.mark.parametrize(("name", "code", "class_name"), WIRE_NAMES)
class TestEveryClass:
    def test_has_its_name_and_status_on_the_wire(self, name, code, class_name):
        assert class_named(name)("Forced error").to_dict() == {
            "name": name,
            "message": "Forced error",
            "code": code,
            "className": class_name,
        }

    def test_carries_data_and_errors_per_field(self, name, code, class_name):
        error = class_named(name)("Own text", {"reason": "because", "errors": {"field": "is bad"}})
        assert error.to_dict() == {
            "name": name,
            "message": "Own text",
            "code": code,
            "className": class_name,
            "data": {"reason": "because"},
            "errors": {"field": "is bad"},
        }

    def test_comes_back_from_the_wire_as_the_same_class(self, name, code, class_name):
        sent = class_named(name)("Own text", {"a": [1]}, errors={"field": "is bad"}).to_dict()
        received = from_dict(sent)
        assert type(received) is class_named(name)
        assert received.to_dict() == sent

    def test_is_looked_up_by_its_status(self, name, code, class_name):
        assert error_for_status(code) is class_named(name)

    def test_comes_back_by_its_status_where_the_name_is_unknown(self, name, code, class_name):
        received = from_dict({"name": "Special", "code": code, "message": "x"})
        assert isinstance(received, class_named(name))
        assert (received.name, received.code) == ("Special", code)

    def test_is_an_exception_with_a_text(self, name, code, class_name):
        with pytest.raises(FrameworkError, match=r"^Own text$"):
            raise class_named(name)("Own text")


def test_there_is_no_class_that_these_tests_do_not_name():
    assert {c.__name__ for c in FrameworkError.__subclasses__()} >= {
        class_named(name).__name__ for name, _, _ in WIRE_NAMES
    }
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert classes == {class_named(name).__name__ for name, _, _ in WIRE_NAMES} | {"FrameworkError"}


class TestMessageAndData:
    def test_no_message_is_the_word_error(self):
        assert BadRequest().to_dict()["message"] == "Error"
        assert str(BadRequest()) == "Error"

    def test_an_empty_message_stays_empty(self):
        assert BadRequest("").message == ""

    def test_a_list_stays_data_as_it_is(self):
        error = BadRequest("Array data", [{"a": 1}, {"b": 2}])
        assert error.to_dict()["data"] == [{"a": 1}, {"b": 2}]
        assert error.errors is None

    def test_a_mapping_in_place_of_the_message_is_message_errors_and_data(self):
        error = BadRequest({"message": "From object", "errors": {"a": 1}, "extra": 2})
        assert (error.message, error.errors, error.data) == ("From object", {"a": 1}, {"extra": 2})
        assert str(error) == "From object"

    def test_a_mapping_without_a_message_is_the_word_error(self):
        assert BadRequest({"extra": 2}).message == "Error"

    def test_a_message_in_data_takes_the_place_of_the_outer_one(self):
        error = BadRequest("Outer", {"message": "Inner", "x": 1})
        assert (error.message, error.data) == ("Inner", {"x": 1})

    def test_an_empty_message_in_data_does_not(self):
        assert BadRequest("Outer", {"message": "", "x": 1}).message == "Outer"

    def test_data_that_holds_nothing_else_is_no_data(self):
        error = BadRequest("x", {"errors": {"a": "b"}})
        assert error.data is None
        assert "data" not in error.to_dict()

    def test_none_is_no_data(self):
        assert "data" not in BadRequest("Null data", None).to_dict()

    def test_falsy_data_that_was_given_is_sent(self):
        assert BadRequest("x", []).to_dict()["data"] == []
        assert BadRequest("x", 0).to_dict()["data"] == 0

    def test_errors_by_keyword_win_over_those_in_data(self):
        error = BadRequest("x", {"errors": "in data", "y": 1}, errors="by keyword")
        assert (error.errors, error.data) == ("by keyword", {"y": 1})

    def test_the_mapping_of_the_caller_stays_as_it_was(self):
        data = {"message": "Inner", "errors": {}, "x": 1}
        BadRequest("Outer", data)
        assert data == {"message": "Inner", "errors": {}, "x": 1}

    def test_another_exception_gives_its_text_and_no_data(self):
        error = BadRequest(ValueError("Wrapped error"))
        assert error.to_dict() == {
            "name": "BadRequest",
            "message": "Wrapped error",
            "code": 400,
            "className": "bad-request",
        }

    def test_a_message_that_is_no_string_becomes_one(self):
        assert BadRequest({"message": 42}).message == "42"


class TestErrorsOfOnesOwn:
    def test_by_keywords(self):
        error = FrameworkError(
            "Short and stout", {"handle": "here"}, name="Teapot", code=418, class_name="teapot"
        )
        assert error.to_dict() == {
            "name": "Teapot",
            "message": "Short and stout",
            "code": 418,
            "className": "teapot",
            "data": {"handle": "here"},
        }

    def test_by_subclass(self):
        class Teapot(FrameworkError):
            name, code, class_name = "Teapot", 418, "teapot"

        assert Teapot("x").to_dict()["code"] == 418
        assert Teapot("x", code=419).code == 419
        assert Teapot.code == 418

    def test_the_base_class_is_a_server_error(self):
        assert FrameworkError("x").to_dict() == {
            "name": "GeneralError",
            "message": "x",
            "code": 500,
            "className": "general-error",
        }

    def test_headers_are_those_of_one_error_alone(self):
        error = NotFound("x")
        error.headers = {"Retry-After": "1"}
        assert NotFound("y").headers is None
        assert "headers" not in error.to_dict()

    @pytest.mark.parametrize(
        "clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
    )
    def test_copies_and_pickles_keep_everything(self, clone):
        error = NotFound("gone", {"id": 5}, errors={"a": 1}, code=410)
        twin = clone(error)
        assert type(twin) is NotFound
        assert twin.to_dict() == error.to_dict()
        assert str(twin) == "gone"


class TestFromDict:
    def test_an_unknown_error_keeps_all_its_data(self):
        sent = {
            "name": "Teapot",
            "message": "Short and stout",
            "code": 418,
            "className": "teapot",
            "data": {"handle": "here"},
            "errors": [1],
        }
        received = from_dict(sent)
        assert type(received) is FrameworkError
        assert received.to_dict() == sent

    def test_a_known_name_wins_over_the_status(self):
        received = from_dict({"name": "NotFound", "message": "x", "code": 410})
        assert isinstance(received, NotFound)
        assert received.code == 410

    def test_data_stays_as_it_was_sent(self):
        """`message` within data is data here: it was taken out, if at all, before it was sent."""
        received = from_dict({"name": "BadRequest", "message": "x", "data": {"message": "y"}})
        assert (received.message, received.data) == ("x", {"message": "y"})

    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"name": None, "message": None, "code": None, "className": None},
            {"name": 5, "code": "404", "className": ["x"], "message": 5},
            {"name": {"a": 1}, "code": True, "className": {}, "message": ["x"]},
        ],
    )
    def test_nonsense_is_a_server_error_without_a_text(self, value):
        assert from_dict(value).to_dict() == {
            "name": "GeneralError",
            "message": "Error",
            "code": 500,
            "className": "general-error",
        }

    def test_as_a_class_method(self):
        assert isinstance(FrameworkError.from_dict({"name": "NotFound"}), NotFound)

    def test_a_status_without_a_class(self):
        assert error_for_status(418) is FrameworkError
        assert type(from_dict({"code": 599, "message": "x"})) is FrameworkError


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    message=st.text(),
    data=JSON,
    field_errors=JSON,
    name=st.text(min_size=1),
    code=st.integers(400, 599),
    class_name=st.text(min_size=1),
)
def test_any_error_survives_the_wire(message, data, field_errors, name, code, class_name):
    sent = FrameworkError(
        message, data, errors=field_errors, name=name, code=code, class_name=class_name
    ).to_dict()
    assert from_dict(sent).to_dict() == sent


@given(st.dictionaries(st.sampled_from(["name", "message", "code", "className", "data"]), JSON))
def test_whatever_comes_over_the_wire_becomes_an_error(value):
    error = from_dict(value)
    assert isinstance(error, FrameworkError)
    assert isinstance(error.name, str)
    assert isinstance(error.message, str)
    assert isinstance(error.code, int)
    assert isinstance(error.class_name, str)


def failed(*failures):
    return BadRequest("validation failed", list(failures))


def failure(path, message, **params):
    return {"instancePath": path, "message": message, "params": params, "keyword": "x"}


class TestTheText:
    def test_names_the_first_failures_of_a_validation(self):
        error = failed(
            failure("/likes", "must be integer"),
            failure("", "must have required property 'text'"),
            failure("", "must NOT have additional properties", additionalProperty="txet"),
            failure("/a", "must be string"),
            failure("/b", "must be string"),
        )
        assert str(error) == (
            "validation failed: /likes must be integer; must have required property 'text';"
            " must NOT have additional properties: 'txet'; and 2 more"
        )
        assert error.message == error.to_dict()["message"] == "validation failed"

    def test_also_of_what_came_over_the_wire(self):
        error = from_dict(failed(failure("/likes", "must be integer")).to_dict())
        assert str(error) == "validation failed: /likes must be integer"
        assert error.to_dict()["message"] == "validation failed"

    def test_is_one_line_and_not_long(self):
        error = failed(failure("/a\n\x1b[2J" + "x" * 5_000, "must be integer"))
        assert "\n" not in str(error)
        assert "\x1b" not in str(error)
        assert str(error).isprintable()
        assert len(str(error)) < 250

    @pytest.mark.parametrize(
        "data", [None, [], [5], [{"message": "a"}], {"a": {"message": "b"}}, "text", 5]
    )
    def test_is_the_message_where_there_are_no_failures(self, data):
        assert str(BadRequest("no", data)) == "no"

    def test_does_not_get_into_the_message_of_another_error(self):
        inner = failed(failure("/likes", "must be integer"))
        assert BadRequest(inner).message == "validation failed"
