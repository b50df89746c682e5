"""What strangers and wrong peers may not do. The names of the tests bear the number of a threat.

| number | threat |
|---|---|
| T5 | a stranger at the port of the other regions says something false |
| T6 | a member does, or its clock is wrong |
| T8 | a stranger takes the places or the links of others |
"""
