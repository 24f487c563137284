"""Serves applications with processes, for `alula serve` and `alula dev`.

The first process opens the socket and watches its worker processes; it never imports the
application. The workers share the socket: connections that the system has accepted wait in it,
whichever worker ends.
"""
