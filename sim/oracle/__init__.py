"""The naive state of a run, computed from what its regions have committed.

Reading order:

- `arguments`: a naive parser of command words.
- `log`: all effects of a run by dot, read from the committed blocks.
- `state`: the state at a version vector, computed by definition.
- `ledger`: the effects of a run and facts about its regions, which several judges share.
- `judge`: the base class of the judges that share one ledger.
"""
