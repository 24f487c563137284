"""The rules that every adapter keeps, as tests; `AdapterSuite` is all of them in one class."""

from __future__ import annotations

from alula.testing._rules.queries import QueryRules, SelectRules
from alula.testing._rules.reading import PageRules, ReadingRules
from alula.testing._rules.safety import SafetyRules
from alula.testing._rules.several import SeveralRules
from alula.testing._rules.subject import FEATURES
from alula.testing._rules.writing import WritingRules

__all__ = ["AdapterSuite"]


class AdapterSuite(
    ReadingRules,
    WritingRules,
    SeveralRules,
    QueryRules,
    SelectRules,
    PageRules,
    SafetyRules,
):
    """The rules of every adapter, as tests for pytest.

    Subclass it in a class that pytest collects, and implement `make_service`::

        class TestMyService(AdapterSuite):
            async def make_service(self, **options):
                return MyService(**options)

    Each test runs twice: on the adapter itself, and through the handle of an `App`. The tests are
    coroutines: run them with the plugin of anyio or with pytest-asyncio, in automatic mode or with
    a mark on your class.

    Declare in `unsupported` what a store cannot do, with the reason. Those tests are then expected
    to fail, and it is an error if they pass.
    """

    async def test_declares_features_that_there_are(self) -> None:
        """`unsupported` names only features of the suite."""
        unknown = sorted(set(self.unsupported) - set(FEATURES))
        assert not unknown, f"`unsupported` has {unknown}; there are {sorted(FEATURES)}"  # noqa: S101  # a test
