"""Live lists: what `find` answers a caller, and every change of it. No transport is known here."""

from alula._live._groups import ListMessage, LiveList
from alula._live._lists import LiveLists, live_lists_of

__all__ = ["ListMessage", "LiveList", "LiveLists", "live_lists_of"]
