"""What studies anabranch from outside: scenarios, and a deterministic simulator that attacks the real engine, sync and storage.

Read in this order:

1. `plan`: a run as a value. `draw`: a plan from a seed. `load`: the clients. `world`: real regions on simulated time, network and disks.
2. `history`: what judges see. `oracle`: naive definitions of what must be there. `checkers`: the judges, a file for each invariant.
   `rules`: which rules of the semantics a run exercises.
3. `run`: one seed, from the first start to the verdict. `sweep`, `tally`, `simulate`: many seeds, in processes, and what they came to.
   `replay`: a run for people. `script`, `shrink`, `story`: a failure made small, and written down as a scenario file. `ci`: what every
   change is attacked with.
4. `scenario`: Markdown tables of commands and replies, in virtual time or live. `mutants`: is a bug that is planted found?
"""
