"""``$include``: related records of other services, with the permissions of the caller."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from alula import App, Params
from alula.adapters import _related
from alula.adapters._related import Inclusion
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.relations import add_related, belongs_to, has_many
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    GeneralError,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    Timeout,
    TooManyRequests,
    Unavailable,
)
from alula.outgoing import RedactedRecord, public_part
from alula.schema import hidden, resolve, resolve_external, with_schema

USERS = [{"id": 1, "name": "Ada", "password": "secret"}, {"id": 2, "name": "Bob", "password": "x"}]
POSTS = [
    {"id": 1, "text": "one", "authorId": 1},
    {"id": 2, "text": "two", "authorId": 2},
    {"id": 3, "text": "three", "authorId": 1},
    {"id": 4, "text": "four", "authorId": 9},
    {"id": 5, "text": "five"},
]
COMMENTS = [{"id": n, "postId": n % 2 + 1, "userId": n % 2 + 1} for n in range(1, 8)]


class Counted(MemoryService):
    """Counts the calls of its store."""

    finds = gets = 0

    async def _find(self, *given):
        self.finds += 1
        return await super()._find(*given)

    async def _get(self, *given):
        self.gets += 1
        return await super()._get(*given)


@pytest.fixture
async def app():
    app = App()
    app.use("users", Counted(USERS))
    relations = {
        "author": belongs_to("users", "authorId", filter=["name"]),
        "comments": has_many("comments", "postId", limit=3, sort={"id": -1}),
    }
    app.use(
        "posts",
        MemoryService(
            POSTS, relations=relations, paginate={"default": 10}, operators=["$not", "$eq"]
        ),
    )
    app.use("comments", MemoryService(COMMENTS, relations={"user": belongs_to("users", "userId")}))
    app.service("users").hooks(around={"all": [resolve_external(resolve({"password": hidden}))]})
    await app.setup()
    return app


async def test_one_record_of_another_service_is_added(app):
    post = await app.service("posts").get(1, query={"$include": ["author"]})
    assert post["author"]["name"] == "Ada"
    assert "author" not in await app.service("posts").get(1)


async def test_a_page_keeps_its_total_and_asks_once(app):
    page = await app.service("posts").find(query={"$include": "author", "$limit": 4})
    assert page["total"] == 5
    assert [post["author"] and post["author"]["name"] for post in page["data"]] == [
        "Ada", "Bob", "Ada", None,
    ]  # fmt: skip
    users = app.service("users").service
    assert (users.finds, users.gets) == (1, 0)


async def test_a_record_without_a_key_has_nothing(app):
    assert (await app.service("posts").get(5, query={"$include": ["author"]}))["author"] is None


async def test_records_that_refer_to_this_one_are_limited_and_sorted(app):
    post = await app.service("posts").get(1, query={"$include": ["comments"]})
    assert [comment["id"] for comment in post["comments"]] == [6, 4, 2]


async def test_dots_lead_on(app):
    query = {"$include": ["comments.user", "author"]}
    post = await app.service("posts").get(2, query=query)
    assert [comment["user"]["name"] for comment in post["comments"]] == ["Bob"] * 3
    assert post["author"]["name"] == "Bob"


async def test_the_key_is_read_though_it_is_not_selected(app):
    query = {"$include": ["author"], "$select": ["text"]}
    post = await app.service("posts").get(1, query=query)
    assert post == {"id": 1, "text": "one", "author": post["author"]}
    assert post["author"]["name"] == "Ada"


async def test_the_other_service_redacts(app):
    post = await app.service("posts").get(1, query={"$include": ["author"]}, provider="rest")
    assert public_part(post)["author"] == {"id": 1, "name": "Ada"}


@pytest.mark.parametrize("shape", ["as it is", "plain page", "fewer"])
async def test_so_does_a_hook_that_sets_what_clients_get(app, shape):
    def without_ids(record):
        return {name: record[name] for name in record if name != "postId"}

    async def hide(context):
        view = [without_ids(record) for record in context.result]
        if shape == "plain page":
            view = {"total": 0, "data": view}
        context.dispatch = view[:1] if shape == "fewer" else view

    async def hide_user(context):
        context.dispatch = [{"name": user["name"]} for user in context.result]

    app.service("users").hooks(after={"find": [hide_user]})
    app.service("comments").hooks(after={"find": [hide]})
    query = {"$include": ["author", "comments"]}
    post = await app.service("posts").get(1, query=query, provider="rest")
    assert post["author"]["password"] == "secret"
    public = public_part(post)
    assert public["author"] == {"name": "Ada"}
    assert len(public["comments"]) == (1 if shape == "fewer" else 3)
    assert all("postId" not in comment for comment in public["comments"])


async def test_what_a_hook_puts_in_place_of_a_record_is_not_added(app):
    async def hide(context):
        context.result = ["Ada"]

    app.service("users").hooks(after={"find": [hide]})
    post = await app.service("posts").get(1, query={"$include": ["author"]})
    assert post["author"] is None


async def test_what_a_key_cannot_be_refers_to_nothing(app):
    await app.service("posts").create({"id": 9, "authorId": [1]})
    page = await app.service("posts").find(query={"$include": ["author"], "id": {"$in": [1, 9]}})
    assert [post["author"] and post["author"]["name"] for post in page["data"]] == ["Ada", None]


@pytest.mark.parametrize("stranger", [True, 1.0])
async def test_a_key_means_the_same_beside_one_that_equals_it_in_python(app, stranger):
    posts, query = app.service("posts"), {"$include": ["author"], "text": {"$in": ["s", "one"]}}
    await posts.create({"id": 0, "text": "s", "authorId": stranger}, provider="rest")
    for order in (1, -1):  # of the two, the first one came to the lookup
        page = await posts.find(query={**query, "$sort": {"id": order}})
        names = {post["id"]: post["author"] and post["author"]["name"] for post in page["data"]}
        assert names == {0: None, 1: "Ada"}


async def test_a_hidden_key_is_asked_for_once_beside_the_same_key_that_is_not_hidden(app):
    asked = []

    @app.service("users").before("find")
    def note(context):
        asked.append(context.params.query["id"])

    records = [
        RedactedRecord({"id": 1, "authorId": 2}, public={"id": 1}),
        {"id": 2, "authorId": 2},
    ]
    relation = belongs_to("users", "authorId")
    inclusion = Inclusion(app.service("users"), "author", relation.key, Params(), {})
    await add_related(inclusion, relation, records, "id")
    assert asked == [{"$in": [2]}]
    assert [record["author"]["name"] for record in records] == ["Bob", "Bob"]


async def test_nor_does_a_boolean_sort_as_the_id_that_it_equals_in_python(app):
    posts = app.service("posts")
    await posts.create({"id": 0, "text": "s", "authorId": True}, provider="rest")
    page = await posts.find(query={"$sort": {"author.name": 1, "id": 1}})
    assert [post["id"] for post in page["data"]] == [0, 4, 5, 1, 3, 2]


async def test_clients_cannot_cause_any_number_of_calls(app, monkeypatch):
    monkeypatch.setattr(_related, "_MAX_CALLS", 4)
    posts = app.service("posts")
    query = {"$include": ["comments.user"], "id": {"$in": [1, 2]}}
    # Two for the comments, and one for the user of each post's comments.
    await posts.find(query=query, provider="rest")
    query = {"$include": ["comments.user", "author"], "id": {"$in": [1, 2]}}
    with pytest.raises(BadRequest, match="too many records"):
        await posts.find(query=query, provider="rest")
    await posts.find(query=query)
    assert len(await posts.get(1, query={"$include": ["author"]}, provider="rest")) == 4


REFUSALS = [Forbidden("no"), NotAuthenticated("no"), NotFound("no"), MethodNotAllowed("no")]


async def test_what_the_caller_may_not_find_is_null(app):
    async def only_own(context):
        assert context.params.provider == "rest"
        context.params.query["id"] = context.params.user["id"]

    app.service("users").hooks(before={"find": [only_own]})
    page = await app.service("posts").find(
        query={"$include": ["author"]}, provider="rest", user={"id": 1}
    )
    assert [post["author"] and post["author"]["id"] for post in page["data"]] == [
        1, None, 1, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_caller_whom_the_other_service_refuses_gets_nothing(app, refusal):
    async def refuse(context):
        raise refusal

    app.service("users").hooks(before={"find": [refuse]})
    app.service("comments").hooks(before={"find": [refuse]})
    query = {"$include": ["author", "comments"], "id": 1}
    page = await app.service("posts").find(query=query, provider="rest")
    assert (page["data"][0]["author"], page["data"][0]["comments"]) == (None, [])


@pytest.mark.parametrize("name", ["author", "comments"])
@pytest.mark.parametrize("error", [BadRequest("broken", {"id": 5}), Conflict("broken")])
async def test_what_the_framework_asked_wrongly_is_a_fault_of_the_server(app, name, error):
    async def fails(context):
        raise error

    for service in ("users", "comments"):
        app.service(service).hooks(before={"find": [fails]})
    with pytest.raises(
        GeneralError, match=f"^'{name}' could not be read from service '(users|comments)'$"
    ) as caught:
        await app.service("posts").find(query={"$include": [name]}, provider="rest")
    assert (caught.value.code, caught.value.data, caught.value.__cause__) == (500, None, error)


async def test_what_a_client_asks_the_other_service_to_include_is_its_own_mistake(app):
    with pytest.raises(
        BadRequest, match=r"'comments' could not be read from .*'nobody' is not one"
    ):
        await app.service("posts").find(query={"$include": ["comments.nobody"]})


@pytest.mark.parametrize("error", [Timeout("slow"), TooManyRequests("slow"), Unavailable("away")])
async def test_a_service_that_is_slow_or_away_is_told_as_such(app, error):
    async def fails(context):
        raise error

    app.service("users").hooks(before={"find": [fails]})
    with pytest.raises(type(error)) as caught:
        await app.service("posts").find(query={"$include": ["author"]})
    assert "'author' could not be read from" in caught.value.__notes__[0]


async def test_a_value_for_a_related_property_that_is_not_valid_is_the_clients_mistake(app):
    async def fails(context):
        raise BadRequest("broken")

    app.service("users").hooks(before={"find": [fails]})
    with pytest.raises(BadRequest, match=r"what meets 'name' could not be read from .*: broken"):
        await app.service("posts").find(query={"author.name": "Ada"})
    with pytest.raises(GeneralError, match="'name' to sort by could not be read from"):
        await app.service("posts").find(query={"$sort": {"author.name": 1}})


@pytest.mark.parametrize("value", ["nobody", ["author", 5], {"a": 1}, ["comments.user.x.y"]])
async def test_what_is_not_a_relation_is_refused(app, value):
    with pytest.raises(BadRequest, match=r"Invalid value for \$include"):
        await app.service("posts").find(query={"$include": value})


async def test_a_service_without_relations_does_not_know_it(app):
    with pytest.raises(BadRequest, match=r"\$include"):
        await app.service("users").find(query={"$include": ["posts"]})


@pytest.mark.parametrize("method", ["update", "patch", "remove"])
async def test_what_becomes_an_event_includes_nothing(app, method):
    data = () if method == "remove" else ({"text": "x"},)
    with pytest.raises(BadRequest, match=r"\$include is for find and get"):
        await getattr(app.service("posts"), method)(1, *data, query={"$include": ["author"]})


async def test_it_needs_an_application():
    posts = MemoryService(POSTS, relations={"author": belongs_to("users", "authorId")})
    with pytest.raises(RuntimeError, match=r"app\.setup\(\)"):
        await posts.get(1, {"query": {"$include": ["author"]}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: belongs_to("", "key"),
        lambda: belongs_to("users", 5),
        lambda: belongs_to("users", ""),
        lambda: has_many("users", ""),
        lambda: belongs_to(None, "key"),
        lambda: belongs_to("users", "key", filter="name"),
        lambda: has_many("users", "key", limit=0),
        lambda: MemoryService(relations={"author": "users"}),
        lambda: MemoryService(relations={"a.b": belongs_to("users", "key")}),
    ],
)
def test_a_relation_that_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError, match=r"give|cannot"):
        make()


@pytest.mark.parametrize(
    ("name", "relation", "instead"),
    [
        ("author", belongs_to("users"), "belongs_to('users', 'authorId')"),
        ("comments", has_many("comments"), "has_many('comments', '…Id')"),
    ],
)
def test_a_store_without_foreign_keys_needs_the_key(name, relation, instead):
    with pytest.raises(ValueError, match="no foreign keys to read it from") as raised:
        MemoryService(relations={name: relation})
    assert str(raised.value).startswith(f"relations: '{name}' has no key")
    assert str(raised.value).endswith(f"; name the property: {instead}")
    with pytest.raises(ValueError, match="'authorId'"):
        MongoDBService(None, relations={"author": belongs_to("users")})


async def test_a_missing_record_is_missing_all_the_same(app):
    with pytest.raises(NotFound):
        await app.service("posts").get(77, query={"$include": ["author"]})


def test_adapters_take_relations():
    assert "relations" in AdapterService.__init__.__annotations__


# -- queries that name properties of related records -----------------------------------------------


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"author.name": "Ada"}, [1, 3]),
        ({"author.name": {"$in": ["Ada", "Bob"]}, "id": {"$gt": 1}}, [2, 3]),
        ({"author.name": {"$ne": "Ada"}}, [2, 4, 5]),
        ({"author.name": {"$nin": ["Ada"]}, "text": "two"}, [2]),
        ({"$or": [{"author.name": "Bob"}, {"text": "five"}]}, [2, 5]),
        ({"author.name": {"$gt": "Ada", "$lt": "Z"}}, [2]),
        ({"author.name": "Nobody"}, []),
        ({"author.name": None}, [4, 5]),
        ({"author.name": {"$ne": None}}, [1, 2, 3]),
        # A record without a related one has null in place of its properties.
        ({"author.name": {"$in": ["Ada", None]}}, [1, 3, 4, 5]),
        ({"author.name": {"$nin": ["Ada", None]}}, [2]),
        ({"author.name": {"$lte": None}}, [4, 5]),
        ({"author.name": {"$gte": None, "$ne": "Ada"}}, [4, 5]),
        ({"author.name": {"$lt": None}}, []),
        ({"author.name": {"$not": {"$eq": "Ada"}}}, [2, 4, 5]),
        ({"author.name": {"$not": {"$gt": "A", "$lt": "B"}}}, [2, 4, 5]),
        ({"author.name": {"$not": {"$ne": None}}}, [4, 5]),
        ({"author.name": {"$not": {"$nin": ["Ada", None]}}}, [1, 3, 4, 5]),
        ({"author.name": {"$not": {"$not": {"$gt": "A", "$lt": "B"}}}}, [1, 3]),
    ],
)
async def test_a_query_tests_a_related_record(app, query, ids):
    page = await app.service("posts").find(query=query)
    assert [post["id"] for post in page["data"]] == ids
    assert page["total"] == len(ids)


async def test_so_does_a_call_for_one_record(app):
    posts = app.service("posts")
    query = {"author.name": "Ada"}
    assert (await posts.get(1, query=query))["text"] == "one"
    for method, data in (("get", ()), ("patch", ({},)), ("update", ({},)), ("remove", ())):
        with pytest.raises(NotFound):
            await getattr(posts, method)(2, *data, query=query)


async def test_a_property_that_was_not_opened_is_one_of_the_record_itself(app):
    assert (await app.service("posts").find(query={"author.password": "secret"}))["data"] == []


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"$sort": {"author.name": 1}}, [4, 5, 1, 3, 2]),
        ({"$sort": {"author.name": -1, "id": -1}}, [2, 3, 1, 5, 4]),
        ({"$sort": {"author.name": 1, "text": 1}, "$limit": 2, "$skip": 1}, [4, 1]),
        ({"$sort": {"author.name": 1}, "$skip": 7}, []),
        ({"$sort": {"author.name": 1}, "$limit": 0}, []),
        ({"$sort": {"text": -1, "author.name": 1}, "id": {"$lt": 4}}, [2, 3, 1]),
        ({"$sort": {"author.name": 1}, "author.name": {"$ne": None}}, [1, 3, 2]),
    ],
)
async def test_an_order_names_a_related_record(app, query, ids):
    page = await app.service("posts").find(query=query)
    assert [post["id"] for post in page["data"]] == ids
    without_range = {name: query[name] for name in query.keys() - {"$limit", "$skip"}}
    assert page["total"] == (await app.service("posts").find(query=without_range))["total"]


async def test_such_an_order_goes_with_select_and_include(app):
    posts, query = app.service("posts"), {"$sort": {"author.name": -1}, "$limit": 2}
    page = await posts.find(query={**query, "$select": ["text"], "$include": ["author"]})
    assert page["data"][0].keys() == {"id", "text", "author"}
    assert [post["author"]["name"] for post in page["data"]] == ["Bob", "Ada"]
    page = await posts.find(query={**query, "$select": ["text"]})
    assert page["data"] == [{"id": 2, "text": "two"}, {"id": 1, "text": "one"}]


async def test_a_list_of_such_an_order_has_no_limit(app):
    posts = await app.service("posts").find(query={"$sort": {"author.name": 1}}, paginate=False)
    assert [post["id"] for post in posts] == [4, 5, 1, 3, 2]


async def test_a_key_that_is_not_an_id_sorts_as_none(app):
    await app.service("posts").patch(1, {"authorId": [1]})
    page = await app.service("posts").find(query={"$sort": {"author.name": 1, "id": -1}})
    assert [post["id"] for post in page["data"]] == [5, 4, 1, 3, 2]


async def test_a_record_that_is_gone_meanwhile_is_left_out(app):
    posts = app.service("posts")

    async def remove(context):
        await posts.remove(3)

    app.service("users").hooks(before={"find": [remove]})
    page = await posts.find(query={"$sort": {"author.name": 1}})
    assert [post["id"] for post in page["data"]] == [4, 5, 1, 2]


async def test_many_keys_are_looked_up_in_parts(app, monkeypatch):
    monkeypatch.setattr("alula.adapters._related._MOST_IDS", 1)
    page = await app.service("posts").find(query={"$sort": {"author.name": 1}})
    assert [post["id"] for post in page["data"]] == [4, 5, 1, 3, 2]


async def test_too_many_records_are_not_sorted(app, monkeypatch):
    query = {"$sort": {"author.name": 1}}
    monkeypatch.setattr("alula.adapters.relations._MOST_SORTED", 5)
    assert (await app.service("posts").find(query=query))["total"] == 5
    monkeypatch.setattr("alula.adapters.relations._MOST_SORTED", 4)
    with pytest.raises(BadRequest, match="More than 4 records would be sorted"):
        await app.service("posts").find(query=query)


async def test_changes_have_no_such_order(app):
    posts, query = app.service("posts"), {"$sort": {"author.name": 1}}
    assert (await posts.get(1, query=query))["text"] == "one"  # where an order means nothing
    with pytest.raises(BadRequest, match="are for find"):
        await posts.patch(1, {"text": "x"}, query=query)


async def test_too_many_related_records_are_refused(app, monkeypatch):
    monkeypatch.setattr("alula.adapters._related._MOST_IDS", 1)
    with pytest.raises(BadRequest, match="More than 1 records of 'users'"):
        await app.service("posts").find(query={"author.name": {"$gt": ""}})


async def test_too_many_tests_of_related_records_are_refused_before_any_runs(app):
    def test(number):
        return {"author.name": {"$not": {"$gt": f"{number}", "$lt": "z"}}}

    asked = []
    app.service("users").hooks(before={"find": [asked.append]})
    posts = app.service("posts")
    query = {"$or": [{"$and": [test(number)]} for number in range(50)], "text": {"$ne": "x"}}
    assert (await posts.find(query=query))["total"] == 2
    assert len(asked) == 100
    query["$or"].append({"author.name": "Ada"})
    for call in (posts.find(query=query), posts.get(1, query=query), posts.remove(1, query=query)):
        with pytest.raises(BadRequest, match="has 101 conditions, and 100 are allowed"):
            await call
    assert len(asked) == 100


# -- with schemas ----------------------------------------------------------------------------------


class Post(BaseModel):
    id: int | None = None
    text: str
    authorId: int | None = None  # noqa: N815  # the name on the wire


@pytest.fixture
async def checked(app):
    relations = {"author": belongs_to("users", "authorId", filter=["name"])}
    service = MemoryService(POSTS, relations=relations)
    app.use("checked", with_schema(service, Post))
    return app.service("checked")


@pytest.mark.parametrize("provider", [None, "rest"])
async def test_a_schema_of_the_records_needs_no_word_of_relations(checked, provider):
    query = {"$include": ["author"], "author.name": "Ada", "id": {"$lt": "3"}}
    posts = await checked.find(query=query, provider=provider)
    assert [(post["id"], post["author"]["name"]) for post in posts] == [(1, "Ada")]
    query = {"$include": ["author"], "$sort": {"id": "-1"}, "$limit": "1"}
    (post,) = await checked.find(query=query, provider=provider)
    assert (post["id"], post["author"]) == (5, None)
    query = {"$sort": {"author.name": "-1", "id": "1"}, "$limit": "2"}
    assert [post["id"] for post in await checked.find(query=query, provider=provider)] == [2, 1]
    query = {"$sort": {"author.name": "-1"}, "$limit": "1"}
    assert [post["id"] for post in await checked.find(query=query, provider=provider)] == [2]


@pytest.mark.parametrize(
    "query",
    [
        {"author.password": "x"},
        {"$include": ["nobody"]},
        {"$sort": {"author.password": 1}},
        {"$sort": {"nothing": 1}, "$include": ["author"]},
    ],
)
async def test_and_it_refuses_what_it_refused_before(checked, query):
    with pytest.raises(BadRequest):
        await checked.find(query=query, provider="rest")


async def test_a_relation_to_a_service_that_is_missing_is_an_error_at_the_start():
    app = App().use("user", MemoryService())
    app.use("posts", MemoryService(relations={"author": belongs_to("users", "authorId")}))
    with pytest.raises(LookupError, match="no service at 'users'; did you mean 'user'"):
        await app.setup()
    await MemoryService(relations={"author": belongs_to("users", "authorId")}).setup(None, "posts")
