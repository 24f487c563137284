"""Property resolvers of every form are called in the same way."""

from __future__ import annotations

import functools

import pytest

from alula.schema import hidden, virtual
from alula.schema._resolvers.resolver import property_function, takes_value
from alula.types import UNSET

RECORD = {"name": "Ada"}


class Method:
    def resolve(self, value, record):
        return "method", value, record


async def star(*given):
    return given


FORMS = {
    "value, record, context": (lambda value, record, context: (value, record, context), 3),
    "value, record": (lambda value, record: (value, record), 2),
    "value": (lambda value: (value,), 1),
    "nothing": (lambda: (), 0),
    "any names": (lambda a, b, c: (a, b, c), 3),
    "star": (lambda *given: given, 3),
    "value and star": (lambda value, *given: (value, *given), 3),
    "keyword only with default": (lambda value, *, length=3: (value,), 1),
    "keywords": (lambda value, **options: (value,), 1),
    "own default": (lambda value, length=80: (value,), 1),
    "offered by name": (
        lambda value, record=None, context=None: (value, record, context),
        3,
    ),
    "own default after record": (lambda value, record, length=80: (value, record), 2),
    "more than there is": (lambda value, record, context, more=1: (value, record, context), 3),
    "partial": (functools.partial(lambda length, value: (value,), 3), 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_gives_what_a_function_takes(form):
    function, count = FORMS[form]
    assert (
        property_function("name", function)("value", RECORD, "context")
        == ("value", RECORD, "context")[:count]
    )


VIRTUAL_FORMS = {
    "record, context": (lambda record, context: (record, context), 2),
    "record": (lambda record: (record,), 1),
    "nothing": (lambda: (), 0),
    "star": (lambda *given: given, 2),
    "own default": (lambda record, length=80: (record,), 1),
    "offered by name": (lambda record, context=None: (record, context), 2),
}


@pytest.mark.parametrize("form", VIRTUAL_FORMS)
def test_gives_virtual_ones_no_value(form):
    function, count = VIRTUAL_FORMS[form]
    assert (
        property_function("name", virtual(function))("value", RECORD, "context")
        == (RECORD, "context")[:count]
    )


def test_takes_functions_without_a_signature():
    assert property_function("age", int)("42", RECORD, None) == 42
    assert property_function("text", str.strip)(" a ", RECORD, None) == "a"


def test_takes_methods():
    assert property_function("name", Method().resolve)(1, RECORD, None) == ("method", 1, RECORD)


@pytest.mark.parametrize("form", FORMS)
def test_knows_by_the_signature_what_is_given_the_value(form):
    function, count = FORMS[form]
    assert takes_value(function) == (count > 0)


def test_is_given_no_value_where_it_is_computed_or_hidden():
    assert not takes_value(virtual(lambda record: record))
    assert not takes_value(hidden)
    assert takes_value(int)
    assert takes_value(Method().resolve)
    assert hidden() is UNSET


async def test_what_is_decorated_is_called_as_it_was():
    @functools.wraps(star)
    def outer(*given):
        return star(*given)

    assert await property_function("n", outer)(1, RECORD, 3) == (1, RECORD, 3)


@pytest.mark.parametrize("resolver", [None, "text", 3, virtual("text")])
def test_what_is_not_a_function_is_refused(resolver):
    with pytest.raises(TypeError, match=r"resolver of 'name' is .*expected a function"):
        property_function("name", resolver)


def test_a_function_with_too_many_parameters_is_refused():
    def greedy(value, record, context, status):
        """Wants more than there is."""

    with pytest.raises(TypeError, match=r"of 'name', .*greedy, takes .*status.*\(value, record, "):
        property_function("name", greedy)
    with pytest.raises(TypeError, match=r"greedy, takes .*; expected a function of \(record, con"):
        property_function("name", virtual(greedy))


def test_a_function_with_a_required_keyword_is_refused():
    def picky(value, *, length):
        """Wants what nobody gives."""

    with pytest.raises(TypeError, match="picky"):
        property_function("name", picky)
