"""Related records where the store cannot join: one find for a page, and the same as one for each.

What a batch returns is used only if it is certain to be what one find for each record returns.
"""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from alula import UNSET, App
from alula.adapters import _related
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to, has_many
from alula.errors import BadRequest, Conflict, Forbidden, GeneralError
from alula.outgoing import public_part
from alula.schema import hidden, resolve, resolve_external

PAGE = 50
POSTS = [{"id": n, "authorId": n % 7} for n in range(PAGE)]
COMMENTS = [{"id": n, "postId": n % PAGE, "text": f"comment {n}"} for n in range(3 * PAGE)]
QUERY = {"$include": ["comments"]}


class Counted(MemoryService):
    """Counts the calls of its store."""

    finds = gets = 0

    async def _find(self, *given):
        self.finds += 1
        return await super()._find(*given)

    async def _get(self, *given):
        self.gets += 1
        return await super()._get(*given)


async def blog(comments=COMMENTS, posts=POSTS, limit=20, sort=None, **options):
    """Return an application of posts with comments."""
    app = App()
    relations = {
        "comments": has_many("comments", "postId", limit=limit, sort=sort),
        "author": belongs_to("users", "authorId"),
    }
    app.use("posts", Counted(posts, relations=relations, paginate={"default": PAGE}))
    app.use("users", Counted([{"id": n} for n in range(7)]))
    relations = {"post": belongs_to("posts", "postId")}
    app.use("comments", Counted(comments, relations=relations, **options))
    return await app.setup()


async def included(app, query=QUERY, **params):
    """Return the ids of the comments of each post, and how many finds they took."""
    comments = app.service("comments").service
    before = comments.finds
    page = await app.service("posts").find(query=query, **params)
    assert page["total"] >= len(page["data"])
    return [[each["id"] for each in post["comments"]] for post in page["data"]], (
        comments.finds - before
    )


async def one_by_one(app, query=QUERY, **params):
    """Return the same by one find for each post."""
    with patch.object(_related, "_MAX_PARENTS", 1):
        return await included(app, query, **params)


# -- how many finds it takes -----------------------------------------------------------------------


async def test_a_page_takes_two_finds():
    app = await blog(sort={"id": -1})
    found, finds = await included(app)
    assert found[3] == [3 + 2 * PAGE, 3 + PAGE, 3]
    assert (app.service("posts").service.finds, finds) == (1, 1)
    assert await one_by_one(app) == (found, PAGE)


async def test_a_page_takes_one_find_for_all_records_that_it_refers_to():
    app = await blog()
    page = await app.service("posts").find(query={"$include": ["author"]})
    assert [post["author"]["id"] for post in page["data"]] == [n % 7 for n in range(PAGE)]
    posts, users = (app.service(name).service for name in ("posts", "users"))
    assert (posts.finds, users.finds, users.gets) == (1, 1, 0)


async def test_inner_levels_are_batches_too():
    app = await blog()
    query = {"$include": ["comments.post.comments"], "$limit": 20}
    page = await app.service("posts").find(query=query)
    inner = page["data"][0]["comments"][0]["post"]["comments"]
    assert [comment["id"] for comment in inner] == [0, PAGE, 2 * PAGE]
    # One for each level: the posts of the comments are found together.
    assert app.service("comments").service.finds == 2


async def test_one_record_takes_a_find_of_its_own():
    app = await blog()
    found, finds = await included(app, {**QUERY, "id": 7})
    assert (found, finds) == ([[7, 7 + PAGE, 7 + 2 * PAGE]], 1)
    assert await included(app, {**QUERY, "id": 99}) == ([], 0)


async def test_many_records_take_several_batches():
    posts = [{"id": n} for n in range(230)]
    app = await blog([{"id": n, "postId": n} for n in range(230)], posts, limit=3)
    found, finds = await included(app, {**QUERY, "$limit": 300})
    assert found == [[n] for n in range(230)]
    assert finds == 3
    app = await blog([{"id": n, "postId": n} for n in range(PAGE)], limit=100)
    assert (await included(app))[1] == 5  # a batch returns 1,000 records at most
    app = await blog([{"id": n, "postId": n} for n in range(PAGE)], limit=1000)
    assert (await included(app))[1] == PAGE


async def test_records_with_more_than_the_limit_are_completed_by_further_batches():
    popular = [{"id": 1000 + n, "postId": 5} for n in range(400)]
    app = await blog([*COMMENTS, *popular], limit=3, sort={"id": -1})
    found, finds = await included(app)
    assert found[5] == [1399, 1398, 1397]
    assert (found, PAGE) == await one_by_one(app)
    assert finds == 2
    # All have more: each batch completes those that come first.
    app = await blog([{"id": n, "postId": n % PAGE} for n in range(20 * PAGE)], limit=3)
    found, finds = await included(app)
    assert (found, PAGE) == await one_by_one(app)
    assert finds < 5
    # None of the batches completes more than one.
    mean = [{"id": n, "postId": n // 200} for n in range(200 * PAGE)]
    app = await blog(mean, limit=3)
    found, finds = await included(app)
    assert (found, PAGE) == await one_by_one(app)
    assert finds == 3 + PAGE - 3


async def test_pages_of_the_other_service_bound_what_is_added():
    app = await blog(limit=3, paginate={"default": 1, "max": 2})
    found, finds = await included(app)
    assert found[4] == [4, 4 + PAGE]
    assert finds == 1
    assert (found, PAGE) == await one_by_one(app)


async def test_stores_that_share_finds_and_other_objects_get_one_for_each():
    class Comments:
        finds = 0
        shares_finds = False

        async def find(self, params):
            self.finds += 1
            return [each for each in COMMENTS if each["postId"] == params.query["postId"]]

    app = await blog()
    await app.unuse("comments")
    app.use("comments", Comments())
    assert (await included(app))[1] == PAGE
    app = await blog()
    app.service("comments").service.shares_finds = True
    assert (await included(app))[1] == PAGE


# -- permissions, redaction and bounds -------------------------------------------------------------


async def test_the_hooks_of_the_other_service_decide():
    async def only_own(context):
        assert context.params.provider == "rest"
        context.params.query["id"] = {"$lt": context.params.user["id"]}

    app = await blog()
    app.service("comments").hooks(before=[only_own])
    found, finds = await included(app, provider="rest", user={"id": 60})
    assert found == [[n, n + PAGE] if n + PAGE < 60 else [n] for n in range(PAGE)]
    assert finds == 1


@pytest.mark.parametrize("how", ["resolver", "dispatch"])
async def test_what_it_hides_stays_hidden(how):
    async def dispatch(context):
        context.dispatch = [{"id": record["id"]} for record in context.result]

    app = await blog()
    if how == "resolver":
        hides = {"text": hidden, "postId": lambda: UNSET}
        app.service("comments").hooks(around={"all": [resolve_external(resolve(hides))]})
    else:
        app.service("comments").hooks(after=[dispatch])
    page = await app.service("posts").find(query=QUERY, provider="rest")
    assert app.service("comments").service.finds == 1
    assert page["data"][1]["comments"][0]["text"] == "comment 1"
    assert public_part(page["data"][1]["comments"]) == [{"id": n} for n in (1, 51, 101)]


async def test_a_batch_counts_as_the_calls_that_it_replaces(monkeypatch):
    app = await blog()
    monkeypatch.setattr(_related, "_MAX_CALLS", PAGE)
    assert (await included(app, provider="rest"))[1] == 1
    monkeypatch.setattr(_related, "_MAX_CALLS", PAGE - 1)
    with pytest.raises(BadRequest, match="at most 49 lookups are allowed"):
        await included(app, provider="rest")
    assert (await included(app))[1] == 1  # internal calls have no bound


async def test_one_that_is_not_used_counts_for_nothing(monkeypatch):
    async def fewer(context):
        context.result = context.result[:1]

    app = await blog()
    query = {"$include": ["comments.post"]}
    monkeypatch.setattr(_related, "_MAX_CALLS", 2 * PAGE)
    await app.service("posts").find(query=query, provider="rest")
    app.service("comments").hooks(after=[fewer])
    await app.service("posts").find(query=query, provider="rest")
    monkeypatch.setattr(_related, "_MAX_CALLS", 2 * PAGE - 1)
    with pytest.raises(BadRequest, match="too many records"):
        await app.service("posts").find(query=query, provider="rest")


# -- hooks that a list of all would meet in another way --------------------------------------------


async def limits(context):
    context.params.query["$limit"] = 2


async def skips(context):
    context.params.query["$skip"] = 1


async def selects(context):
    context.params.query["$select"] = ["text"]


async def pages(context):
    context.params.paginate = {"default": 2, "max": 2}


async def forbids_lists(context):
    if not isinstance(context.params.query["postId"], int):
        raise Forbidden("one at a time")


async def fails_with_lists(context):
    assert context.params.query["postId"] in range(PAGE)


async def has_no_unlimited_find(context):
    if context.params.paginate is False:
        raise BadRequest("no")


async def keeps_one(context):
    context.result = context.result[:1]


async def keeps_one_in_place(context):
    del context.result[1:]


async def sorts(context):
    context.result.sort(key=lambda record: -record["id"])


async def removes_the_key(context):
    context.result = [{"id": record["id"]} for record in context.result]


async def removes_the_id(context):
    context.result = [{"of": record["postId"]} for record in context.result]


async def shows_one(context):
    context.dispatch = context.result[:1]


async def shows_something_else(context):
    context.dispatch = {"data": context.result[:1]}


@pytest.mark.parametrize(
    "hook", [limits, skips, selects, pages, forbids_lists, fails_with_lists, has_no_unlimited_find]
)
async def test_a_hook_before_that_a_list_meets_in_another_way(hook):
    app = await blog(limit=4)
    app.service("comments").hooks(before=[hook])
    found, finds = await included(app)
    assert (found, PAGE) == await one_by_one(app)
    assert finds in (PAGE, PAGE + 1)
    assert all(found)


@pytest.mark.parametrize(
    "hook", [keeps_one, keeps_one_in_place, sorts, removes_the_key, shows_one, shows_something_else]
)
async def test_a_hook_after_does_too(hook):
    app = await blog(limit=2)
    app.service("comments").hooks(after=[hook])
    found, finds = await included(app)
    assert (found, PAGE) == await one_by_one(app)
    assert finds == PAGE + 1
    assert all(found)


async def test_records_without_an_id_come_from_one_find_for_each():
    app = await blog(limit=2)
    app.service("comments").hooks(after=[removes_the_id])
    page = await app.service("posts").find(query=QUERY)
    assert [post["comments"] for post in page["data"]] == [[{"of": n}] * 2 for n in range(PAGE)]


@pytest.mark.parametrize("result", ["nothing", {"total": 0}, [1, 2]])
async def test_a_hook_that_puts_something_else_in_place_of_a_list(result):
    async def replace(context):
        context.result = result

    app = await blog()
    app.service("comments").hooks(before=[replace])
    page = await app.service("posts").find(query=QUERY)
    assert [post["comments"] for post in page["data"]] == [result] * PAGE
    assert app.service("comments").service.finds == 0


async def test_params_of_the_driver_that_a_hook_sets_count_too():
    async def limit(context):
        context.params.docdb = {"limit": 1}

    async def aggregate(context):
        context.params.pipeline = []

    app = await blog()
    app.service("comments").hooks(before=[limit])
    assert (await included(app))[1] == PAGE + 1
    app = await blog()
    app.service("comments").hooks(before=[aggregate])
    assert (await included(app))[1] == 1  # an empty pipeline has no effect


async def test_errors_of_both_are_those_of_one_find_for_each():
    async def fails(context):
        raise Conflict("broken")

    app = await blog()
    app.service("comments").hooks(before=[fails])
    with pytest.raises(GeneralError, match="'comments' could not be read from service 'comments'"):
        await included(app)


# -- keys ------------------------------------------------------------------------------------------


async def test_a_key_may_be_a_list():
    comments = [{"id": 1, "postId": [1, 2]}, {"id": 2, "postId": [2, 99]}, {"id": 3, "postId": []}]
    app = await blog(comments)
    found, finds = await included(app)
    assert found[:4] == [[], [1], [1, 2], []]
    assert finds == 1


@pytest.mark.parametrize("key", [1.0, [1, "2"], [1, [2]], [1, None]])
async def test_values_that_may_be_equal_for_the_store_alone(key):
    app = await blog([*COMMENTS, {"id": 999, "postId": key}])
    found, finds = await included(app)
    assert (found, PAGE) == await one_by_one(app)
    assert found[1] == [1, 51, 101, 999]
    assert finds == PAGE + 1


async def test_text_is_compared_by_the_store():
    posts = [{"id": name} for name in "abc"]
    comments = [{"id": n, "postId": [name, "z"]} for n, name in enumerate("abab")]
    app = await blog(comments, posts)
    assert await included(app) == ([[0, 2], [1, 3], []], 4)
    app = await blog([{"id": n, "postId": [name]} for n, name in enumerate("abab")], posts)
    assert await included(app) == ([[0, 2], [1, 3], []], 1)


async def test_a_key_below_another_property():
    app = App()
    relations = {"comments": has_many("comments", "of.post")}
    app.use("posts", MemoryService(POSTS, relations=relations))
    app.use("comments", Counted([{"id": n, "of": {"post": n}} for n in range(PAGE)]))
    await app.setup()
    posts = await app.service("posts").find(query=QUERY)
    assert [post["comments"][0]["id"] for post in posts] == [*range(PAGE)]


async def test_ids_that_are_objects_are_found_one_by_one():
    class Posts(MemoryService):
        async def _find(self, query, params, options):
            return [{"id": {"n": 1}}, {"id": {"n": 2}}, {"text": "without an id"}], None

    app = await blog([{"id": n, "postId": {"n": n}} for n in (1, 2)])
    await app.unuse("posts")
    app.use("posts", Posts(relations={"comments": has_many("comments", "postId")}))
    posts = await app.service("posts").find(query=QUERY)
    assert [[each["id"] for each in post["comments"]] for post in posts[:2]] == [[1], [2]]
    assert posts[2] == {"text": "without an id"}


# -- any records -----------------------------------------------------------------------------------

IDS = st.integers(0, 5)
KEYS = st.one_of(
    IDS, IDS, st.none(), st.lists(st.one_of(IDS, st.just("1"), st.just(True)), max_size=3),
    st.sampled_from(["1", 1.0, True, 9, {"a": 1}]),
)  # fmt: skip
COMMENT = st.fixed_dictionaries({"rank": st.integers(0, 2)}, optional={"postId": KEYS})
SORTS = st.sampled_from([None, {"rank": 1}, {"rank": -1}, {"rank": 1, "id": -1}, {"id": -1}])


@given(
    st.lists(IDS, unique=True, max_size=6), st.lists(COMMENT, max_size=25),
    st.integers(1, 4), SORTS, st.sampled_from([2, 3, 100]),
    st.sampled_from([None, {"default": 1}, {"default": 2, "max": 2}]),
)  # fmt: skip
def test_batches_give_what_one_find_for_each_gives(posts, comments, limit, sort, size, paginate):
    async def compare():
        records = [{"id": number, **comment} for number, comment in enumerate(comments)]
        posts_ = [{"id": number} for number in posts]
        app = await blog(records, posts_, limit, sort, paginate=paginate)
        with patch.object(_related, "_MAX_PARENTS", size):
            found, finds = await included(app)
        assert (found, len(posts)) == await one_by_one(app)
        order = {"$sort": sort} if sort else {}
        for number, ids in zip(posts, found, strict=True):
            query = {"postId": number, "$limit": limit, **order}
            result = await app.service("comments").find(query=query)
            records = result if paginate is None else result["data"]
            assert ids == [record["id"] for record in records]
        event(f"fewer finds: {finds < len(posts)}")

    asyncio.run(compare())
