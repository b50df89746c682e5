"""Storage (S13): what a start finds on the disk is what the last commit left there, whenever the process stopped.

`direct` (the real Database without threads), `dump` (all state as plain values), `histories` (a small cluster, and a crash after every
transaction); then the tests.
"""
