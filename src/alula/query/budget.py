"""How much one query may look at, since nothing else runs meanwhile.

Conditions times elements can be very many, from one short request to one large record; so can
conditions times records.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

from alula.errors import BadRequest
from alula.query.compare import is_number
from alula.query.criteria import And, Or, Where

__all__ = ["LONG", "MANY", "Budget", "Walk", "weight_of"]

LONG: Final = 1000
"""Lists whose elements times the tests are no more than this are not counted: counting costs."""

MANY: Final = 50
"""With more conditions than that, each is counted for each record, and so are all lists."""

_NO_CRITERIA: Final = And(())


class Budget:
    """The elements of long lists that one query may look at, and records where it is long itself.

    Args:
        steps: How many; None for any number.
        criteria: What the query says.

    Attributes:
        conditions: What each record costs; 0 where that is not counted.
        uncounted: Lists whose elements times the tests are no more than this are not counted.
    """

    __slots__ = ("conditions", "left", "uncounted")

    def __init__(self, steps: int | None = None, criteria: And = _NO_CRITERIA) -> None:
        self.left: float = inf if steps is None else steps
        conditions = 0 if steps is None else _tests_in(criteria)
        self.conditions = conditions if conditions > MANY else 0
        self.uncounted = 0 if self.conditions else LONG

    def spend(self, steps: int) -> None:
        """Count what is looked at.

        Raises:
            BadRequest: It is too much.
        """
        self.left -= steps
        if self.left < 0:
            raise BadRequest(
                "The query has too many conditions for these records and their lists; send fewer,"
                " or conditions that lead to fewer records"
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


def weight_of(name: str, wanted: Any) -> int:
    """Return how many tests of one element an operator stands for."""
    if name == "$in":  # strings and numbers are one look, whatever their number
        return 1 + sum(not (isinstance(item, str) or is_number(item)) for item in wanted)
    return _tests_in(wanted) if name == "$elemMatch" else 1


def _tests_in(wanted: Any) -> int:
    if isinstance(wanted, And | Or):
        return sum(map(_tests_in, wanted.parts))
    tests = wanted.tests if isinstance(wanted, Where) else wanted
    return sum(weight_of(name, value) for name, value in tests)
