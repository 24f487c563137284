"""Events that reach those who may see them: transports, connections, and several processes."""

from alula.realtime._bus import Bus, BusEvent, MongoBus, RedisBus

__all__ = ["Bus", "BusEvent", "MongoBus", "RedisBus"]
