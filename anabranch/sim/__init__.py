"""Tests of anabranch from outside: scenario files, and a deterministic simulator with judges.

The simulator runs the real engine, sync and storage on simulated time, network and disks.

Reading order:

- `plan`: a run as a value: regions, settings, clients and faults.
- `draw`: the plan that a seed draws.
- `asked_faults`: faults that a plan has only if they are asked for.
- `unrolled`: the commands of a batch one by one, with the reply to each.
- `replies`: readers of replies, for clients and judges.
- `load`: the simulated clients.
- `world`: real regions on simulated time, network and disks.
- `calls`: calls at an engine's door as values, with what the region issued in each.
- `rules`: the rules of the semantics, and the counts of those that a run exercises.
- `history`: the events of a run that judges receive, and the base class of the judges.
- `arguments`: a naive parser of command words.
- `logged`: all effects of a run by dot, read from the committed blocks.
- `twin`: a naive twin of every region, which judges replies and effects.
- `checkers`: the judges, one file for each invariant.
- `tapes`: the calls of live regions in files, and their judgement by the twin.
- `timeline`: a run as a timeline, for drawings.
- `run`: one seed, from the first start to the verdict.
- `seeds`: the seeds that failed once, and the seeds that a commit chooses.
- `sweep`: many seeds in several processes.
- `tally`: the sums over many seeds, and the closing table.
- `shrink`: a failing plan reduced by delta debugging.
- `script`: a run as a fixed list of commands, recorded from a plan.
- `story`: a failure reduced and written as a scenario file.
- `replay_words`: the words in which a run is told.
- `replay`: a run printed for people.
- `simulate`: a sweep with progress, table and stories, as the command line runs it.
- `hashes`: prints the trace hashes of seeds.
- `ci`: the seeds that CI runs for each commit.
- `scenario`: Markdown tables of commands and replies, run in virtual time or live.
- `mutants`: bugs put in on purpose, to measure whether the tests find them.
"""
