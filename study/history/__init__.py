"""The history of one key, and the reasons for its state: facts first, then sentences.

Reading order:

- `events`: what one region tells, as values.
- `evidence`: what the logs of several regions tell together.
- `entry`: what became of an entry.
- `groups`: what became of the groups.
- `delivery`: why an entry is delivered, or not.
- `deadlines`: which deadline is in force.
- `explanation`: all facts of `anabranch explain`.
- `wording`: names, times and effects as words.
- `sentences`: the facts as sentences.
- `story`: the events of a key as a story, for `anabranch log`.
"""
