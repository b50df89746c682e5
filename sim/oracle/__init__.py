"""The naive oracle: the state that a region must hold, and the replies and effects of its commands.

The oracle computes from the committed blocks and the clients' commands alone, by definition and
without any optimisation.

Reading order:

- `verdicts`: the two exceptions by which a judge reports a wrong step or one it cannot decide.
- `log`: all effects of a run by dot, read from the committed blocks.
- `state`: the state at a version vector, computed by definition.
- `arguments`: a naive parser of command words.
- `record`: facts about the whole run, and the route from a finding to its judge.
- `pending`: the PEL entries that a trim with ACKED must leave, as far as they are certain.
- `watches`: the change counts of watched keys at their WATCH.
- `follower`: one region, its steps in order, and the naive state beside them.
- `reads`: the required replies of reading commands, and the errors that a state justifies.
- `adds`: the required effects and replies of XADD and of trimming.
- `writes`: the required effects and replies of all other writing commands.
- `watching`: the rule that decides whether a transaction under WATCH runs.
- `own_effects`: the effects that a region may issue without a command.
- `oracle`: all regions of a run together; it takes the events and judges the steps.
- `looking`: reading commands sent to a live region and compared with the naive state.
- `judge`: the base class of the judges that share one oracle.
"""
