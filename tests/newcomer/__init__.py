"""What a newcomer does: the blocks of README.md and docs/, pasted in order on a fresh cluster.

Reading order:

- `pages`: the blocks of a page.
- `table`: what becomes of each block: run here, tried by another test, or left out for a reason.
- `test_table`: the table names every block.
- `test_newcomer_live`: the blocks that are run.
"""
