"""Applications as processes: `alula serve` and `alula dev`.

One process, which never loads the application, opens the socket and looks after the others, the
workers. They share the socket: what the system has accepted waits in it, whichever worker ends.
"""
