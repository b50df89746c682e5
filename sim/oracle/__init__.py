"""The naive oracle: what every region must hold at its vector, and what every command must have answered and replicated.

Read in this order: `log` (all effects by dot, from the committed blocks), `state` (the state at a vector, by definition), `words` (commands
read naively), `follower` (one region: its steps in order, the state beside them), then what a step must be: `reads`, `adds`, `writes` for
commands, `own` for what a region issues by itself; `oracle` (all regions together), `judge` (the base of the judges that share it).
"""
