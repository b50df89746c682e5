"""Certificates of a cluster: who may speak as which region, and as which client.

Reading order:

- `names`: the name that a region's certificate has.
- `making`: new authorities and certificates, with the package `cryptography`.
- `files`: the files of authorities and certificates, and their modes.
"""
