"""A simulated run as a timeline (`study.diagram`), for drawings.

The facts come from the regions: which step moved a vector and which peer had sent the blocks, what
the blocks hold, which entries a region holds after each step, and which links carry nothing. No
fact is guessed from a reply.

Reading order:

- `replies`: replies in short.
- `effects`: an effect in words, and whether it removes an entry.
- `links`: the intervals in which regions do not hear each other, or stand still.
- `entries`: the entries that each region holds, and what became of them.
- `commands`: the points of clients' commands.
- `recorder`: the record of a run, and the timeline that it makes.
- `files`: the files of drawings.
"""
