"""Pages: what find answers where `paginate` is on, for the service or for one call."""
# ruff: noqa: S101  # tests assert

from __future__ import annotations

from typing import Any

import pytest

from alula.errors import BadRequest
from alula.testing._rules.subject import Make, Rules, names, seeded

__all__ = ["PageRules"]

BY_NAME = {"$sort": {"name": 1}}
SIZES = {"default": 1, "max": 2}


class PageRules(Rules):
    """What holds for pages."""

    async def test_a_page_has_four_parts(self, make: Make) -> None:
        """A page has the number of all matching records, the limit, the skip and its records."""
        people = await seeded(make, paginate=SIZES)
        page = await people.find(BY_NAME)
        assert {**page, "data": names(page["data"])} == {
            "total": 3,
            "limit": 1,
            "skip": 0,
            "data": ["Ada"],
        }

    @pytest.mark.parametrize(
        ("query", "total", "limit", "skip", "data"),
        [
            ({"$limit": 2}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$limit": 1}, 3, 1, 0, ["Ada"]),
            ({"$limit": 4}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$limit": "4"}, 3, 2, 0, ["Ada", "Bela"]),
            ({"$skip": 1}, 3, 1, 1, ["Bela"]),
            ({"$skip": 2, "$limit": 2}, 3, 2, 2, ["Cleo"]),
            ({"$skip": 3}, 3, 1, 3, []),
            ({"$skip": "1000"}, 3, 1, 1000, []),
            ({"age": {"$lt": 30}}, 2, 1, 0, ["Bela"]),
            ({"age": {"$lt": 30}, "$skip": 1}, 2, 1, 1, ["Cleo"]),
            ({"name": "Nobody"}, 0, 1, 0, []),
            ({"$limit": 0}, 3, 0, 0, []),
            ({"$limit": 0, "age": {"$lt": 30}}, 2, 0, 0, []),
            ({"$limit": 0, "$skip": 2}, 3, 0, 2, []),
        ],
    )
    async def test_the_query_moves_the_page(
        self, make: Make, query: Any, total: int, limit: int, skip: int, data: list[str]
    ) -> None:
        """$limit up to the maximum, $skip and criteria say what is on it; 0 counts only."""
        people = await seeded(make, paginate=SIZES)
        page = await people.find({**BY_NAME, **query})
        assert (page["total"], page["limit"], page["skip"]) == (total, limit, skip)
        assert names(page["data"]) == data

    @pytest.mark.parametrize("off", [None, False, {}])
    async def test_without_pages_find_answers_a_list(self, make: Make, off: Any) -> None:
        """None, False and an empty mapping stand for no pages; $limit and $skip still work."""
        people = await seeded(make, paginate=off)
        assert names(await people.find(BY_NAME)) == ["Ada", "Bela", "Cleo"]
        assert names(await people.find({**BY_NAME, "$limit": 2})) == ["Ada", "Bela"]
        assert names(await people.find({**BY_NAME, "$skip": 1})) == ["Bela", "Cleo"]
        assert names(await people.find({**BY_NAME, "$skip": 1, "$limit": 1})) == ["Bela"]
        assert names(await people.find({**BY_NAME, "age": {"$lt": 30}, "$skip": 1})) == ["Cleo"]
        assert await people.find({"$limit": 0}) == []

    async def test_one_of_the_sizes_is_enough(self, make: Make) -> None:
        """Without a default a page has the maximum; without a maximum it has what is asked."""
        people = await seeded(make, paginate={"max": 2})
        assert (await people.find())["limit"] == 2
        assert (await people.find({"$limit": 9}))["limit"] == 2
        people = await seeded(make, paginate={"default": 2})
        assert (await people.find())["limit"] == 2
        assert len((await people.find({"$limit": 9}))["data"]) == 3

    async def test_pages_for_one_call(self, make: Make) -> None:
        """`params.paginate` has other sizes, or none, of which the next call knows nothing."""
        people = await seeded(make, paginate=SIZES)
        assert (await people.find(paginate={"default": 3}))["limit"] == 3
        assert len((await people.find(paginate={"default": 3}))["data"]) == 3
        assert len(await people.find(paginate=False)) == 3
        assert len(await people.find(paginate={})) == 3
        assert (await people.find(paginate=None))["limit"] == 1
        assert (await people.find())["limit"] == 1
        people = await seeded(make)
        assert (await people.find(paginate=SIZES))["total"] == 3

    async def test_pages_of_the_adapter_for_one_call(self, make: Make) -> None:
        """`params.adapter` has `paginate`, too, and comes before `params.paginate`."""
        people = await seeded(make)
        page = await people.find(adapter={"paginate": {"default": 3}})
        assert (page["limit"], page["skip"], page["total"]) == (3, 0, 3)
        page = await people.find(adapter={"paginate": SIZES}, paginate=False)
        assert page["limit"] == 1
        people = await seeded(make, paginate=SIZES)
        assert len(await people.find(adapter={"paginate": False})) == 3

    @pytest.mark.parametrize("off", [False, {}])
    async def test_a_query_can_not_turn_pages_off(self, make: Make, off: Any) -> None:
        """What is in the query is a query, whatever it is called."""
        people = await seeded(make, paginate=SIZES)
        assert "total" in await people.find({"paginate": off})
        with pytest.raises(BadRequest):
            await people.find({"$paginate": off})

    async def test_pages_are_for_find_only(self, make: Make) -> None:
        """The other methods answer records, whatever the pages are."""
        people = await seeded(make, paginate=SIZES)
        record = (await people.all())[0]
        assert await people.get(record[people.id]) == record
        assert await people.remove(record[people.id]) == record
