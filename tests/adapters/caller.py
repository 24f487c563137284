"""What a service reads of the params of a call."""

from __future__ import annotations

from alula import Params

_OF_ADAPTERS = {"query", "adapter", "paginate", "pipeline", "docdb", "sql", "collation"}


async def names_of_caller(service, id):
    """Return which params a `get` reads besides the query and those of adapters.

    It also checks that the params stay as they are.
    """
    params = Watched()
    await service.get(id, params)
    names = params.names
    assert dict(params.__dict__) == {"query": {}, "names": names}
    return {name for name in names if name not in _OF_ADAPTERS and not name.startswith("__")}


class Values(dict):
    """The attributes of params, which write down what is read of them."""

    def get(self, name, default=None):
        self["names"].add(name)
        return super().get(name, default)

    def __contains__(self, name):
        self["names"].add(name)
        return super().__contains__(name)


class Watched(Params):
    """Params that write down which of their attributes are read."""

    def __init__(self):
        object.__setattr__(self, "__dict__", Values(query={}, names=set()))

    def __getattribute__(self, name):
        if name not in {"__dict__", "names"}:
            self.names.add(name)
        return super().__getattribute__(name)
