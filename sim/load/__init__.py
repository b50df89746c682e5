"""The load: simulated clients that behave as real ones do.

Each knows only what replies told it, keeps its connection or loses it, gives up, fails over to another region, crashes and forgets. What
it does next follows from its kind, from what it knows, and from the randomness that each step brings along (`sim.plan.Intent`).

Read in this order: `base` (what all clients have in common), `words` (parts of commands), `replies` (what clients read out of replies);
then the kinds: `producers`, `consumers`, `readers`, `trimming`, `administrators`, `transactions`, `synchronous`; and `client`, the table
of kinds.
"""
