"""`anabranch chaos`: plans, judges on made-up histories, the report, and short real runs.

Reading order:

- `made_up`: histories and final states without any region.
- `test_plan`: the plan is a function of the seed.
- `test_judges`: each judge is silent on a sound history and reports each planted violation.
- `test_clients`: the outcomes of requests, and failing over.
- `test_report`: the picture and the page.
- `test_planted`: the bugs planted for chaos apply.
- `test_faults_live`: every kind of fault strikes real regions, and ends.
- `test_chaos_live`: short runs of real regions.
"""
