"""Clients that are measured: each is a process that does as its standard input says.

A line there has the number of calls at once and the seconds; one with the calls per second and the
p99 in milliseconds comes back.
"""
