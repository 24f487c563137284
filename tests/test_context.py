"""`Params` and `HookContext`: what belongs to one call, and never to two."""

import copy
import pickle
from collections import OrderedDict
from types import MappingProxyType
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula import UNSET, HookContext, Params
from alula.query import ValidatedQuery

WELL_KNOWN_AND_UNSET = [
    "provider",
    "paginate",
    "adapter",
    "pipeline",
    "docdb",
    "collation",
    "authentication",
    "user",
]


class Handle:
    path = "messages"

    def __repr__(self):
        return "service 'messages'"


class TestWhatParamsAreMadeOf:
    def test_nothing(self):
        params = Params()
        assert params.query == {}
        assert (params.headers, params.route) == ({}, {})

    @pytest.mark.parametrize("name", WELL_KNOWN_AND_UNSET)
    def test_what_is_well_known_is_none_until_it_is_set(self, name):
        assert getattr(Params(), name) is None
        assert getattr(Params({name: 5}), name) == 5

    def test_keywords(self):
        params = Params(query={"a": 1}, provider="rest", tenant="acme")
        assert (params.query, params.provider, params.tenant) == ({"a": 1}, "rest", "acme")

    def test_a_mapping(self):
        params = Params(MappingProxyType({"query": {"a": 1}, "tenant": "acme"}))
        assert (params.query, params.tenant) == ({"a": 1}, "acme")

    def test_other_params_of_which_keywords_take_the_place(self):
        first = Params(query={"a": 1}, user="ann", tenant="acme")
        second = Params(first, user="bob")
        assert (second.query, second.user, second.tenant) == ({"a": 1}, "bob", "acme")
        assert first.user == "ann"

    def test_an_attribute_may_be_called_params_or_self(self):
        assert Params(None, params=1).params == 1
        assert Params({"self": 1})["self"] == 1

    @pytest.mark.parametrize("query", [None, {}, OrderedDict(), []])
    def test_an_empty_query_is_a_dict(self, query):
        assert Params(query=query).query == {}
        assert type(Params(query=query).query) is dict

    @pytest.mark.parametrize("query", ["text", 5, ["text"], object()])
    def test_a_query_that_is_no_mapping_is_refused(self, query):
        with pytest.raises(TypeError, match=r"params\.query has to be a mapping"):
            Params(query=query)

    @pytest.mark.parametrize("params", ["text", 5, [("query", {})], object()])
    def test_params_that_are_no_mapping_are_refused(self, params):
        with pytest.raises(TypeError, match="params has to be a mapping"):
            Params(params)


class TestNothingIsShared:
    def test_the_query_of_the_caller_stays_as_it_is(self):
        query = {"a": 1}
        Params(query=query).query["b"] = 2
        Params({"query": query}).query["b"] = 2
        assert query == {"a": 1}

    def test_the_mapping_of_the_caller_stays_as_it_is(self):
        given = {"user": "ann"}
        params = Params(given)
        params.user = "bob"
        params.tenant = "acme"
        assert given == {"user": "ann"}

    def test_params_made_of_params_have_a_query_of_their_own(self):
        first = Params(query={"a": 1})
        Params(first).query["b"] = 2
        first.copy().query["b"] = 2
        assert first.query == {"a": 1}

    @pytest.mark.parametrize("name", ["query", "headers", "route"])
    def test_what_is_written_into_empty_params_stays_there(self, name):
        """One dict for all, and what one request writes another one reads."""
        params = Params()
        getattr(params, name)["leak"] = "x"
        assert getattr(params, name) == {"leak": "x"}
        assert getattr(Params(), name) == {}


class TestAttributesAndItems:
    def test_unknown_attributes_can_be_set(self):
        params = Params()
        params.tenant = "acme"
        params["region"] = "eu"
        assert (params["tenant"], params.region) == ("acme", "eu")

    def test_an_attribute_that_was_never_set_is_explained(self):
        with pytest.raises(AttributeError) as caught:
            _ = Params(tenant="acme").tennant
        assert "params has no 'tennant'; it has query, tenant." in str(caught.value)
        assert "use params.get('tennant')" in str(caught.value)

    def test_hasattr_and_getattr_with_a_default(self):
        assert not hasattr(Params(), "tenant")
        assert getattr(Params(), "tenant", "none") == "none"

    def test_an_attribute_can_be_deleted(self):
        params = Params(tenant="acme", user="ann")
        del params.tenant
        del params.user
        assert "tenant" not in params
        assert params.user is None

    def test_items_have_the_well_known_ones_too(self):
        assert Params()["provider"] is None
        assert Params()["route"] == {}

    @pytest.mark.parametrize("name", ["tenant", "keys", "get", "copy", "__class__", "adopt"])
    def test_an_item_that_was_never_set_is_a_key_error(self, name):
        with pytest.raises(KeyError, match=name):
            Params()[name]

    @pytest.mark.parametrize("name", ["get", "keys", "__class__", "constructor"])
    def test_any_name_can_be_an_item(self, name):
        assert Params({name: 5})[name] == 5
        assert Params({name: 5}).__dict__ == {name: 5, "query": {}}

    def test_get(self):
        params = Params(tenant="acme", zero=0, nothing=None)
        assert params.get("tenant", "x") == "acme"
        assert params.get("zero", 5) == 0
        assert params.get("nothing", 5) == 5
        assert params.get("missing") is None
        assert params.get("missing", 5) == 5
        assert params.get("copy") is None

    def test_contains_tells_what_was_set(self):
        params = Params(tenant="acme")
        assert "tenant" in params
        assert "query" in params
        assert "provider" not in params

    def test_they_unpack_like_a_mapping(self):
        params = Params(query={"a": 1}, tenant="acme")
        assert {**params} == {"query": {"a": 1}, "tenant": "acme"}
        assert dict(params) == {**params}
        assert sorted(params) == ["query", "tenant"]

    def test_copy_changes_what_it_is_given(self):
        params = Params(query={"a": 1}, tenant="acme", user="ann")
        changed = params.copy(query={}, user="bob")
        assert changed == Params(query={}, tenant="acme", user="bob")
        assert params == Params(query={"a": 1}, tenant="acme", user="ann")


class TestComparingAndShowing:
    def test_equal_where_all_is_equal(self):
        assert Params(query={"a": 1}) == Params({"query": {"a": 1}})
        assert Params(query={"a": 1}) != Params(query={"a": 2})
        assert Params(user=1) != Params()

    def test_other_types_decide_for_themselves(self):
        assert Params() != {"query": {}}
        assert Params() == ANY

    def test_they_cannot_be_keys(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(Params())

    def test_params_are_true(self):
        assert Params()

    def test_repr_shows_what_is_set(self):
        assert repr(Params(tenant="acme")) == "Params(tenant='acme', query={})"

    def test_repr_keeps_tokens_out_of_the_log(self):
        params = Params(
            headers={"authorization": "Bearer secret"}, authentication={"accessToken": "secret"}
        )
        assert "secret" not in repr(params)
        assert "headers=..., authentication=..." in repr(params)

    @pytest.mark.parametrize(
        "clone", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), Params.copy]
    )
    def test_copies_and_pickles_are_equal(self, clone):
        params = Params(query={"a": {"b": 1}}, tenant="acme", route={"id": "5"})
        assert clone(params) == params
        assert clone(params) is not params

    def test_a_deep_copy_shares_nothing(self):
        params = Params(query={"a": {"b": 1}})
        copy.deepcopy(params).query["a"]["b"] = 2
        assert params.query == {"a": {"b": 1}}


NAMES = st.text().filter(lambda name: name != "authenticated_by")  # it stays with the params


@given(st.dictionaries(NAMES, st.integers()), st.dictionaries(st.text(), st.integers()))
def test_params_are_what_they_were_made_of(attributes, query):
    """Whatever names a client or a plugin comes up with: none of them breaks the rest."""
    given = {**attributes, "query": query}
    params = Params(given)
    assert {**params} == given
    assert {**Params.copy(params)} == given
    assert all(params[name] == value for name, value in given.items())


class TestHookContext:
    def test_what_it_begins_with(self):
        app, service, params = object(), Handle(), Params()
        context = HookContext(app, service, "get", params, 5)
        assert (context.app, context.service, context.params) == (app, service, params)
        assert (context.path, context.method, context.type) == ("messages", "get", "around")
        assert (context.id, context.data, context.error) == (5, None, None)
        assert (context.result, context.dispatch) == (UNSET, UNSET)
        assert context.http == {}

    @pytest.mark.parametrize(
        ("method", "event"),
        [
            ("find", None),
            ("get", None),
            ("create", "created"),
            ("update", "updated"),
            ("patch", "patched"),
            ("remove", "removed"),
            ("archive", None),
        ],
    )
    def test_the_event_of_its_method(self, method, event):
        assert HookContext(None, Handle(), method, Params()).event == event

    def test_two_contexts_share_nothing(self):
        first = HookContext(None, Handle(), "find", Params())
        first.http["status"] = 202
        first.result = first.dispatch = None
        second = HookContext(None, Handle(), "find", Params())
        assert second.http == {}
        assert (second.result, second.dispatch) == (UNSET, UNSET)

    def test_a_mapping_becomes_params(self):
        context = HookContext(None, Handle(), "find", Params(provider="rest", query={"a": 1}))
        context.params = spread = {**context.params, "user": "ann"}
        assert context.params == Params(provider="rest", query={"a": 1}, user="ann")
        context.params.query["b"] = 2
        assert spread["query"] == {"a": 1}

    def test_params_in_the_place_of_params_stay_themselves(self):
        context = HookContext(None, Handle(), "find", Params())
        context.params = others = Params(user="ann")
        assert context.params is others

    def test_a_query_that_a_schema_has_checked_stays_one(self):
        context = HookContext(None, Handle(), "find", Params())
        checked = ValidatedQuery({"name": {"$regex": "a"}}, ["$regex"], [])
        context.params.query = checked
        context.params = {**context.params, "user": "ann"}
        assert context.params.query == checked
        assert context.params.query.operators == {"$regex"}

    @pytest.mark.parametrize("value", [None, 5, "a"])
    def test_nothing_else_becomes_params(self, value):
        context = HookContext(None, Handle(), "find", Params(provider="rest"))
        with pytest.raises(TypeError, match="params has to be a mapping"):
            context.params = value
        assert context.params.provider == "rest"

    def test_the_query_in_a_mapping_is_a_dict_then(self):
        context = HookContext(None, Handle(), "find", Params())
        context.params = {"query": MappingProxyType({})}
        assert type(context.params.query) is dict

    @pytest.mark.parametrize("value", [{"user": "ann"}, {}, {"query": None, "user": "ann"}])
    def test_a_mapping_without_a_query_would_select_everything(self, value):
        context = HookContext(None, Handle(), "remove", Params(query={"a": 1}))
        with pytest.raises(TypeError, match=r"without a query, .*everything"):
            context.params = value
        assert context.params.query == {"a": 1}

    @pytest.mark.parametrize("value", [{"query": {"a": 1}}, Params(query={"a": 1})])
    def test_no_call_from_outside_becomes_an_internal_one_by_the_way(self, value):
        context = HookContext(None, Handle(), "find", Params(provider="rest"))
        with pytest.raises(TypeError, match="without a provider, "):
            context.params = value
        assert context.params.provider == "rest"
        context.params = {"query": {}, "provider": None}
        assert context.params.provider is None

    @pytest.mark.parametrize("name", ["query", "provider"])
    def test_what_belongs_to_params_is_not_lost_on_the_context(self, name):
        context = HookContext(None, Handle(), "find", Params())
        with pytest.raises(AttributeError, match=rf"write context\.params\.{name} = \.\.\."):
            setattr(context, name, {"a": 1})
        with pytest.raises(AttributeError, match=rf"no '{name}'; write context\.params\.{name}$"):
            getattr(context, name)

    def test_hooks_may_add_attributes(self):
        context = HookContext(None, Handle(), "find", Params())
        context.started = 1.5
        assert context.started == 1.5

    def test_repr_tells_the_call_and_not_its_data(self):
        context = HookContext(None, Handle(), "patch", Params(), 5, {"password": "secret"})
        assert repr(context) == "<HookContext around messages.patch id=5>"
