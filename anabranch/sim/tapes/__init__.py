"""Tapes: the calls of live regions in files, and their judgement by the twin.

Reading order:

- `passwords`: tapes hold no passwords.
- `values`: replies, effects and calls as bytes.
- `base`: the state of a region at the beginning of a tape.
- `writing`: a live region writes its tapes.
- `reading`: the frames of tapes.
- `judging`: the tapes of several regions, replayed through the twin.
"""
