"""Conduit, the blog of RealWorld: an HTTP interface that others have defined, on Alula."""
