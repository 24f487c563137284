"""Params that nobody knows are refused: a filter among them would select everything."""

import json

import pytest

from alula import App, HookContext, Params
from alula._json_encoding import dumps
from alula.adapters.memory import MemoryService
from alula.client import create_client, create_sync_client
from alula.hooks._composition import _warn_of_param

TASKS = {1: {"id": 1, "done": True}, 2: {"id": 2, "done": False}}


def tasks():
    return MemoryService(store={task["id"]: dict(task) for task in TASKS.values()}, multi=True)


class Blocking:
    """The services of a synchronous client, whose calls are awaited here like the others."""

    def __init__(self, service):
        self.service = service

    def __getattr__(self, name):
        async def call(*args, **given):
            return getattr(self.service, name)(*args, **given)

        return call


@pytest.fixture(params=["app", "client", "sync client", "adapter"])
def service(request):
    """Tasks, however they are called."""
    store = tasks()
    if request.param == "adapter":
        return store
    if request.param == "sync client":
        return Blocking(create_sync_client().use("tasks", store).service("tasks"))
    app = App() if request.param == "app" else create_client()
    return app.use("tasks", store).service("tasks")


BY_HAND = [
    {"user": 1},
    {"route": "a"},
    {"done": True},
    {"qurey": {"done": True}},
    {"$limit": 1},
    {"query": {}, "done": True},
]


@pytest.mark.parametrize("given", BY_HAND)
class TestASlipInAMapping:
    async def test_selects_nothing(self, service, given):
        with pytest.raises(TypeError, match=r"query={"):
            await service.find(given)
        with pytest.raises(TypeError, match=r"query={"):
            await service.get(1, given)

    async def test_changes_nothing(self, service, given):
        for change in (
            service.patch(None, {"done": "changed"}, given),
            service.remove(None, given),
            service.update(1, {"done": "changed"}, given),
            service.create({"id": 3}, given),
        ):
            with pytest.raises(TypeError, match=r"query={"):
                await change
        assert await service.find() == list(TASKS.values())


@pytest.fixture(params=["app", "client", "sync client"])
def handle(request):
    """The same without the adapter itself, which takes no keywords."""
    if request.param == "sync client":
        return Blocking(create_sync_client().use("tasks", tasks()).service("tasks"))
    app = App() if request.param == "app" else create_client()
    return app.use("tasks", tasks()).service("tasks")


KEYWORDS = [{"done": True}, {"qurey": {"done": True}}, {"where": {"done": True}}, {"limit": 1}]


@pytest.mark.parametrize("given", KEYWORDS)
async def test_a_slip_in_a_keyword_touches_nothing(handle, given):
    for call in (
        handle.find(**given),
        handle.get(1, **given),
        handle.create({"id": 3}, **given),
        handle.update(1, {"done": "changed"}, **given),
        handle.patch(None, {"done": "changed"}, **given),
        handle.remove(None, **given),
        handle.call("remove", **given),
        handle.find(Params(**given)),
        handle.find(Params(given)),
        handle.find(Params(Params(query={}), **given)),
        handle.remove(None, Params(**given).copy(query={})),
        handle.remove(None, {**Params(**given)}),
    ):
        with pytest.raises(TypeError, match=r"query={"):
            await call
    assert await handle.find() == list(TASKS.values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"done": True},
            "tasks.find(...) was given 'done', which is not the name of a param; to select records,"
            " give a query as query={...}, here query={'done': ...};"
            " if a hook or a service reads it, declare it once: Params.declare('done')",
        ),
        ({"qurey": {}}, "did you mean query={...}?"),
        ({"paginat": False}, "did you mean paginate?"),
        ({"where": {}}, "the param that selects records is query: query={...}"),
        ({"limit": 5, "done": 1}, "query={'$limit': ..., 'done': ...}"),
        ({"$limit": 5}, "query={'$limit': ...}"),
    ],
)
async def test_the_message_shows_what_to_write(given, message):
    service = App().use("tasks", tasks()).service("tasks")
    with pytest.raises(TypeError) as caught:
        await service.find(given)
    assert message in str(caught.value)


async def test_of_a_client_it_knows_what_belongs_to_the_connection():
    service = create_client().use("tasks", tasks()).service("tasks")
    with pytest.raises(TypeError, match=r"write connection=\{'timeout': \.\.\.\}"):
        await service.find(timeout=5)
    with pytest.raises(TypeError, match=r"write connection=\{'signal': \.\.\.\}"):
        [task async for task in service.iterate(params={"signal": None})]
    assert await service.find(connection={"timeout": 5}) == list(TASKS.values())


async def test_a_query_selects(handle):
    done = [TASKS[1]]
    assert await handle.find(query={"done": True}) == done
    assert await handle.find({"query": {"done": True}}) == done
    assert await handle.find(Params(query={"done": True})) == done
    assert await handle.find({"query": {}}, query={"done": True}) == done
    assert await handle.find(Params(query={}), query={"done": True}, provider=None) == done
    assert await handle.remove(None, query={"done": True}) == done
    assert await handle.remove(None) == [TASKS[2]]


@pytest.mark.parametrize("query", ["", b"", "done", 5, [1]])
async def test_a_query_that_is_not_a_mapping_selects_nothing(handle, query):
    for call in (handle.find(query=query), handle.remove(None, {"query": query})):
        with pytest.raises(TypeError, match=r"params\.query has to be a mapping"):
            await call
    assert await handle.find() == list(TASKS.values())


class TestWhatHooksAdd:
    """Attributes are free, and stay with params wherever these are handed on."""

    @pytest.fixture
    def app(self):
        app = App()
        app.use("tasks", tasks()).use("log", MemoryService())
        app.service("tasks").hooks(before=[self.add_tenant])
        app.service("log").hooks(before=[self.look])
        self.seen = []
        return app

    def add_tenant(self, context: HookContext) -> None:
        context.params.tenant = "acme"

    def look(self, context: HookContext) -> None:
        self.seen.append((context.params.get("tenant"), context.params.query))

    @pytest.mark.parametrize(
        "hand_on",
        [
            lambda params: {**params, "query": {"id": 1}},
            lambda params: dict(params, query={"id": 1}),
            lambda params: Params({**params}, query={"id": 1}),
            lambda params: Params(params, query={"id": 1}),
            lambda params: params.copy(query={"id": 1}),
            lambda params: {**dict(**params), "query": {"id": 1}},
            lambda params: {name: params[name] for name in params} | {"query": {"id": 1}},
            lambda params: {**params, "tenant": "acme", "query": {"id": 1}},
            lambda params: params.copy(tenant="acme", query={"id": 1}),
        ],
    )
    async def test_they_can_be_handed_on(self, app, hand_on):
        async def log(context):
            await app.service("log").find(hand_on(context.params))

        app.service("tasks").hooks(before=[log])
        await app.service("tasks").find()
        assert self.seen == [("acme", {"id": 1})]

    async def test_they_can_be_handed_on_as_keywords(self, app):
        async def log(context):
            await app.service("log").find(**context.params)

        app.service("tasks").hooks(before=[log])
        await app.service("tasks").find(query={"id": 1})
        assert self.seen == [("acme", {"id": 1})]

    async def test_a_slip_beside_them_is_noticed(self, app):
        async def log(context):
            await app.service("log").find({**context.params, "done": True})

        app.service("tasks").hooks(before=[log])
        with pytest.raises(TypeError, match="'done', which is not the name"):
            await app.service("tasks").find()

    async def test_a_mapping_in_the_place_of_params_may_add_names(self, app):
        def replace(context):
            context.params = {**context.params, "region": "eu"}
            context.params = Params(context.params, step=1)

        async def log(context):
            await app.service("log").find(context.params)
            assert (context.params.region, context.params.step) == ("eu", 1)

        app.service("tasks").hooks(before=[replace, log])
        await app.service("tasks").find()
        assert self.seen == [("acme", {})]

    async def test_what_is_given_to_the_adapter_itself_is_looked_at_too(self, app):
        adapter = app.service("tasks").service
        for params in (Params(qurey={"done": True}), {"qurey": {"done": True}}):
            with pytest.raises(TypeError, match=r"did you mean query=\{\.\.\.\}"):
                await adapter.remove(None, params)
            with pytest.raises(TypeError, match=r"did you mean query=\{\.\.\.\}"):
                await adapter.find(params)

    @pytest.mark.parametrize("method", ["find", "remove"])
    async def test_a_query_that_a_hook_lost_selects_nothing(self, app, method):
        def lose(context):
            context.params.query = None

        tasks = app.service("tasks").hooks(before=[lose])
        with pytest.raises(TypeError, match=r"params\.query is None"):
            await (tasks.find() if method == "find" else tasks.remove(None))
        with pytest.raises(TypeError, match=r"params\.query is None"):
            await tasks.get(1)

    async def test_but_not_without_a_query(self, app):
        def replace(context):
            context.params = {"done": True}

        app.service("tasks").hooks(before=[replace])
        with pytest.raises(TypeError, match=r"set .* as context\.params\.query = \{\.\.\.\}"):
            await app.service("tasks").remove(None)

    def test_a_mapping_of_them_is_a_plain_one_for_everybody_else(self):
        params = Params(query={"a": 1})
        params.tenant = "acme"
        spread = {**params}
        assert spread == {"query": {"a": 1}, "tenant": "acme"}
        assert json.loads(dumps(spread)) == spread
        assert json.dumps(spread) == '{"query": {"a": 1}, "tenant": "acme"}'
        assert all(type(name) is str for name in Params(spread).__dict__)


class TestDeclaring:
    async def test_a_declared_name_is_taken(self, handle):
        with pytest.raises(TypeError, match=r"declare it once: Params\.declare\('declared_once'\)"):
            await handle.find(declared_once=1)
        try:
            Params.declare("declared_once", "declared_once")
            assert await handle.find(declared_once=1, query={"id": 1}) == [TASKS[1]]
            assert await handle.find({"declared_once": 1, "query": {"id": 1}}) == [TASKS[1]]
        finally:
            from alula import _context as context

            context.DECLARED_NAMES.discard("declared_once")

    @pytest.mark.parametrize("name", ["", "$limit"])
    def test_what_belongs_in_a_query_cannot_be_declared(self, name):
        with pytest.raises(ValueError, match="cannot be the name"):
            Params.declare(name)

    @pytest.mark.parametrize("name", [5, None, ["tenant"]])
    def test_names_are_strings(self, name):
        with pytest.raises(TypeError, match=r'Params\.declare\("tenant"\)'):
            Params.declare(name)


class TestASlipInAHook:
    @pytest.fixture
    def handle(self):
        def slip(context):
            context.params.qurey = {"id": 1}
            context.params.tenant = "acme"

        app = App(debug=True).use("tasks", tasks())
        return app.service("tasks").hooks(before=[slip])

    async def test_is_logged_once_in_debug(self, handle, caplog):
        _warn_of_param.cache_clear()
        await handle.find()
        await handle.find()
        assert [record.getMessage() for record in caplog.records] == [
            "a hook has set params.qurey; did you mean 'query'? If not, declare it:"
            " Params.declare('qurey')"
        ]

    async def test_costs_nothing_otherwise(self, handle, caplog):
        _warn_of_param.cache_clear()
        handle.app.debug = False
        handle.compose_hooks()
        await handle.find()
        assert caplog.text == ""
