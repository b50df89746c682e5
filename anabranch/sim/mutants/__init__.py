"""Bugs put in on purpose, to measure whether the simulator and the tests find them.

`planted/` has bugs written by hand, as patches. Mechanical mutants are small changes of one line.
`python -m anabranch.sim.mutants` is the command.

Reading order:

- `tree`: copies of the source tree, to be mutated.
- `planted`: reads and applies the patches of planted bugs.
- `compiled`: compiles a copy.
- `seeds`: runs seeds of the simulator in a process of a copy, and reports the first violation.
- `run`: planted bugs against the simulator.
- `trial`: a scenario file in a copy of the tree with a patch.
- `operators`: mechanical mutants of a module, made by cosmic-ray.
- `equivalent`: the mutants that do not change the program, judged by hand.
- `suite`: judges a mutant by the unit and property tests that run its function.
- `mechanical`: a sample of mechanical mutants against tests and simulator.
- `__main__`: the command line.
"""
