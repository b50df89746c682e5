"""`anabranch pipeline JOB`: the jobs on Spark. Each command checks its options and calls its job.

Reading order:

- `common`: options, regions, session and report of all jobs.
- `audit`: `anabranch pipeline audit`.
- `lag`: `anabranch pipeline lag`.
- `archive`: `anabranch pipeline archive` and `anabranch pipeline restore`.
- `totals`: `anabranch pipeline totals`.
- `sweep`: `anabranch pipeline sweep`.
"""

from __future__ import annotations

from typing import Final

import typer

from anabranch.cli.pipeline.archive import archive, restore
from anabranch.cli.pipeline.audit import audit
from anabranch.cli.pipeline.lag import lag
from anabranch.cli.pipeline.sweep import sweep
from anabranch.cli.pipeline.totals import totals
from anabranch.cli.usage import Command

app: Final = typer.Typer(help="Jobs on Spark over the streams of a cluster.", no_args_is_help=True)
app.command("audit", cls=Command)(audit)
app.command("lag", cls=Command)(lag)
app.command("archive", cls=Command)(archive)
app.command("restore", cls=Command)(restore)
app.command("totals", cls=Command)(totals)
app.command("sweep", cls=Command)(sweep)
