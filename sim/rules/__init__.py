"""Counts which rules of SEMANTICS a run exercised and which conflicts it met.

A sweep without violations proves little about a rule that no run exercised; these counts show it.

Reading order:

- `table`: every rule, and the event that counts as exercising it.
- `causal_past`: every committed effect, with the vector that its region had applied before it.
- `conflicts`: effects of two regions of which neither had seen the other.
- `commands`: the rules that commands and their replies show.
- `internals`: the rules that show only inside a region's engine.
- `witness`: the observer that feeds all of these and holds the counters.
"""
