"""`anabranch pipeline JOB`: the jobs on Spark. Each command checks its options and calls its job.

Reading order:

- `common`: options, regions, session and report of all jobs.
- `audit`: `anabranch pipeline audit`.
- `lag`: `anabranch pipeline lag`.
"""

from __future__ import annotations

from typing import Final

import typer

from anabranch.cli.pipeline.audit import audit
from anabranch.cli.pipeline.lag import lag

app: Final = typer.Typer(help="Jobs on Spark over the streams of a cluster.", no_args_is_help=True)
app.command()(audit)
app.command()(lag)
