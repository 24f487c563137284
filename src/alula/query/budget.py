"""How much of long lists one query may look at, since nothing else runs meanwhile.

Conditions times elements can be very many, from one short request to one large record.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

from alula.errors import BadRequest
from alula.query.compare import is_number
from alula.query.criteria import And, Or, Where

__all__ = ["LONG", "Budget", "Walk", "weight_of"]

LONG: Final = 1000
"""Lists whose elements times the tests are no more than this are not counted: counting costs."""


class Budget:
    """The elements of long lists that one query may look at.

    Args:
        steps: How many; None for any number.
    """

    __slots__ = ("left",)

    def __init__(self, steps: int | None = None) -> None:
        self.left: float = inf if steps is None else steps

    def spend(self, steps: int) -> None:
        """Count what is looked at.

        Raises:
            BadRequest: It is too much.
        """
        self.left -= steps
        if self.left < 0:
            raise BadRequest(
                "The query has too many conditions for the long lists of these records; send"
                " fewer, or conditions that lead to fewer records"
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
