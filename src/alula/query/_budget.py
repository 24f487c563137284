"""How much work one call may make the process do, since nothing else runs meanwhile.

Conditions times elements can be very many, from one short request to one large record; so can
conditions times records, and fields in ``$sort`` times elements. All of it is counted in one
budget for each call from outside.
"""

from __future__ import annotations

from math import inf
from typing import Final

from alula.errors import BadRequest

__all__ = ["FREE_TESTS", "LONG", "MANY", "MAX_STEPS", "Budget", "Walk"]

MAX_STEPS: Final = 1_000_000
"""How many steps a call from outside may take in memory. A step is one look at one value: it takes
about a quarter of a microsecond, so that all of them take about a quarter of a second."""

LONG: Final = 100
"""Lists whose elements times the tests are no more than this are not counted for the first
`FREE_TESTS` conditions: counting costs, and who stores the records has to reckon with a look at
each."""

FREE_TESTS: Final = 4
"""For so many conditions of a query short lists are not counted; for all others every list is."""

MANY: Final = 50
"""With more conditions than that, each is counted for each record, and so are all lists."""


_TOO_MUCH: Final = (
    "The query has too many conditions for these records and their lists, or too many fields in"
    " $sort; send fewer, or conditions that lead to fewer records"
)


class Budget:
    """The steps that one call may take.

    Args:
        steps: How many; None for any number.

    Attributes:
        left: How many are left.
        free_tests: For how many more conditions short lists are not counted.
    """

    __slots__ = ("free_tests", "left")

    def __init__(self, steps: int | None = None) -> None:
        self.left: float = inf if steps is None else steps
        self.free_tests = FREE_TESTS

    def uncounted(self) -> int:
        """Return how long a list may be that the next condition does not count."""
        self.free_tests -= 1
        return LONG if self.free_tests >= 0 else 0

    def spend(self, steps: int, what: str = "") -> None:
        """Count what is looked at.

        Args:
            steps: How many.
            what: What there is too much of, for the message; conditions or fields to sort by
                where it is left out.

        Raises:
            BadRequest: It is too much.
        """
        self.left -= steps
        if self.left < 0:
            raise BadRequest(
                f"{what} for these records; send fewer, or conditions that lead to fewer records"
                if what
                else _TOO_MUCH
            )


class Walk:
    """One way through the lists of a record, along a dotted name.

    Attributes:
        seen: The lists that were gone through, each with the index of the part.
        steps: How many elements they have.
    """

    __slots__ = ("seen", "steps")

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.steps = 0
