"""Bugs planted in a copy of the tree, to see whether `anabranch chaos` finds them.

`planted/` has them as patches, in the form that `sim.mutants.planted` describes. The line ``Seeds``
is absent: each bug is tried with several seeds. ``python -m anabranch.chaos.mutants`` runs them.
Only a source tree has this package.

Reading order:

- `__main__`: plants each bug in a copy, and runs chaos there until a judge reports it.
"""
