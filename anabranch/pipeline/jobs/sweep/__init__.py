"""`anabranch pipeline sweep`: the simulator's seeds on executors.

Reading order:

- `seed_rows`: results of simulated seeds as rows of a table.
- `report`: the report of a sweep.
- `job`: simulated seeds on the executors.
"""
