"""The alerts and the dashboard of deploy/, in a real Prometheus that watches real regions.

Reading order:

- `prometheus`: a Prometheus server as a process, with the deployed rules at a faster pace.
- `made_up`: a region whose figures a test sets.
- `world`: three regions and the Prometheus that scrapes them.
- `conditions`: the condition of each alert, produced and mended.
- `conftest`: the fixtures.
- `test_rules`: promtool accepts the rules; their pace is changed, and nothing else.
- `test_alerts_fire`: each alert fires in its condition, and is silent before and after.
- `test_dashboard_queries`: each query of the dashboard has an answer.
"""
