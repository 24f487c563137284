"""The suite as a whole: all rules that an adapter keeps, in one class to derive from."""

from __future__ import annotations

from alula.testing._rules.pages import PageRules
from alula.testing._rules.queries import QueryRules
from alula.testing._rules.reading import ReadingRules
from alula.testing._rules.safety import SafetyRules
from alula.testing._rules.selecting import SelectRules
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
    """What every adapter keeps, as tests for pytest.

    Derive from it in a class whose name pytest collects, and define `make_service`::

        class TestMyService(AdapterSuite):
            async def make_service(self, **options):
                return MyService(**options)

    Each test runs twice: on the adapter itself, and through the handle of an `App`. The tests are
    coroutines: run them with anyio's plugin or with pytest-asyncio, by their automatic mode or by
    a mark on your class.

    What a store can not do is declared in `unsupported`, with the reason; such tests are then
    expected to fail, and it is an error if they pass.
    """

    async def test_declares_features_that_there_are(self) -> None:
        """`unsupported` names nothing but features of the suite."""
        unknown = sorted(set(self.unsupported) - set(FEATURES))
        # A suite of tests asserts.
        assert not unknown, f"`unsupported` has {unknown}; there are {sorted(FEATURES)}"  # noqa: S101
