"""The data that every server holds: 1,000 small records, the same in Python and in JavaScript."""

COUNT = 1000
KEY = "64b0000000000000{:08x}"
"""The id of a record in MongoDB; ``load/*.lua`` makes the same ones."""


def records() -> list[dict[str, object]]:
    """Return the records; ``createdAt`` is a permutation, so that sorting has work to do."""
    return [
        {
            "text": f"message {n}",
            "room": f"room {n % 7}",
            "read": n % 2 == 0,
            "createdAt": 1_700_000_000_000 + (n * 7919) % COUNT,
        }
        for n in range(COUNT)
    ]
