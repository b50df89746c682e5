"""Which rules of SEMANTICS a run has exercised, and which conflicts it has met: what makes a clean sweep worth something.

Read in this order: `table` (every rule, and what counts as exercising it), `past` (every effect, and what its region had applied before
it), `conflicts` (effects that met without having seen each other), `commands` (what clients asked and were answered), `inside` (what only a
look into a region tells), `witness` (the observer that does all this).
"""
