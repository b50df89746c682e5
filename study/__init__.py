"""Tools for people who study a cluster: they show what happened, and why.

Reading order:

- `diagram`: space-time diagrams of what happened in the regions, as SVG.
"""
