"""What would be lost, and what delivered again, if a region vanished now.

Reading order:

- `telling`: what regions tell, as values.
- `survivors`: a key as the other regions hold it once they have exchanged what they have.
- `survey`: everything that was asked.
- `asking`: asks the regions.
- `losses`: what would be lost of a key.
- `deliveries`: what a group would deliver again.
- `answer`: the facts of `anabranch whatif region-lost`.
- `sentences`: the facts as sentences.
"""
