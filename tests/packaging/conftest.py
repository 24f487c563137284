"""The fixtures of what a release uploads."""

from tests.packaging.built import dist, wheel

__all__ = ["dist", "wheel"]
