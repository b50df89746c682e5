"""The history of one key, and the reasons for its state: facts first, then words or a drawing.

Reading order:

- `evidence`: what the logs of several regions tell together.
- `delivery`: why an entry is delivered, or not.
- `entry`: what became of an entry.
- `groups`: what became of the groups.
- `explanation`: all facts of `anabranch explain`.
- `as_json`: the facts as JSON.
- `wording`: names, times and events as words, for `anabranch log`, too.
- `sentences`: the facts as sentences.
- `steps`: the events of several regions in an order that no cause contradicts.
- `phrases`: points and arrows of a drawing in words.
- `endings`: the fate of each entry, and the last state of the key in each region.
- `timeline`: the history of a key as a timeline (`study.diagram`), for `anabranch log --svg`.
"""
