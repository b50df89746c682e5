"""Tools for people who study a cluster: they show what happened, and why.

Reading order:

- `replies`: the replies of regions as values.
- `history`: the history of a key, and the reasons for its state, as facts and as sentences.
- `whatif`: what would be lost, and what delivered again, if a region vanished now.
- `diagram`: space-time diagrams of what happened in the regions, as SVG.
"""
