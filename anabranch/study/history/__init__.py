"""The history of one key, and the reasons for its state: facts first, then words or a drawing.

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
- `steps`: the events of several regions in an order that no cause contradicts.
- `phrases`: points and arrows of a drawing in words.
- `endings`: the fate of each entry, and the last state of the key in each region.
- `timeline`: the history of a key as a timeline (`study.diagram`), for `anabranch log --svg`.
"""
