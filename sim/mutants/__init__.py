"""Bugs put in on purpose, to see them found: planted ones (`planted/`, `run`), and mechanical mutants (`operators`, `mechanical`).

`tree` copies what a mutated run needs; `python -m sim.mutants` is the command.
"""
