"""Rules of the house that no other tool holds: sizes, who may set a field, names in docs, the order of rooms."""
