"""What would be lost, and what delivered again, if a region vanished now.

Reading order:

- `survivors`: a key as the other regions hold it once they have exchanged what they have.
- `survey`: everything that was asked.
- `delivered`: the deliveries that a log tells under groups that were destroyed.
- `asking`: asks the regions.
- `losses`: what would be lost of a key.
- `deliveries`: what a group would deliver again.
- `answer`: the facts of `anabranch whatif region-lost`.
- `as_json`: the facts as JSON.
- `sentences`: the facts as sentences.
"""
