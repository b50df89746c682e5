"""What the commands of jobs share: options, the regions, a session, and the printed report.

PySpark is imported only when a job runs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, RegionAddress, find
from anabranch.cli.errors import CliError, Unreachable, UsageError
from anabranch.cli.files import checked_json, placed
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.passwords import find_password
from anabranch.cli.signatures import as_command, option, own_options
from anabranch.cli.terminal import table
from anabranch.escapes import one_line
from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.session import LOCAL, is_local, open_session, readable
from anabranch.whole_file import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.pipeline.jobs.progress import Bar

MasterOption = Annotated[
    str, typer.Option("--master", metavar="URL", help="Spark's master, such as spark://HOST:7077.")
]
ConfOption = Annotated[
    Optional[list[str]],
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; any number of them."),
]
JsonOption = Annotated[
    Optional[Path], typer.Option("--json", metavar="FILE", help="File for the report, as JSON.")
]
ParquetOption = Annotated[
    Optional[str],
    typer.Option(
        "--parquet", metavar="DIR", help="Directory for the rows of the report, as Parquet."
    ),
]
StreamsOption = Annotated[
    str,
    typer.Option(
        "--streams", metavar="NAME,…", help="Streams: names or globs, separated by commas."
    ),
]
PasswordFileOption = Annotated[
    Optional[Path],
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File with the password of the regions, as a line; executors read it, too.",
    ),
]
# A job with its options: takes a session, the regions as `regions_of` gives them, and a bar.
Work = Callable[["SparkSession", dict[str, str], "Bar"], Report]

# Jobs whose next run goes on where an interrupted one ended.
_GOING_ON: Final = frozenset({"archive", "restore"})

_REGIONS: Final = (
    option("cluster", ClusterOption),
    option("at", AtOption),
    option("password", PasswordOption),
    option("password_file", PasswordFileOption),
)
_SPARK: Final = (
    option("master", MasterOption, LOCAL),
    option("conf", ConfOption),
    option("json_file", JsonOption),
)


def takes_regions(
    *, regions_before: str = "", spark_before: str = ""
) -> Callable[[Callable[..., Work]], Callable[..., None]]:
    """Makes a command of a function that checks the options of a job and returns its work.

    The command has the options of the function, and those that say where regions are, how Spark is
    started, and where the report goes. It runs the work in a session, and prints the report.

    Args:
        regions_before: The parameter before which the help lists the options of the regions; empty:
            they stand after those of the function.
        spark_before: The same for the options of Spark and of the report, which else stand last.
    """

    def decorated(command: Callable[..., Work]) -> Callable[..., None]:
        def run(
            cluster: Path | None,
            at: list[str] | None,
            password: str | None,
            password_file: Path | None,
            master: str,
            conf: list[str] | None,
            json_file: Path | None,
            **own: Any,
        ) -> None:
            checked_json(json_file)
            # A signal stops Spark, and removes the files with its settings and the password.
            end_as_after_ctrl_c()
            work = command(**own)
            with regions_of(cluster, at, password, password_file, master) as regions:
                perform(
                    command.__name__,
                    master,
                    conf,
                    json_file,
                    lambda session, bar: work(session, regions, bar),
                )

        options = _inserted(own_options(command), _REGIONS, regions_before)
        return as_command(run, command, _inserted(options, _SPARK, spark_before))

    return decorated


def _inserted(
    options: list[Parameter], more: tuple[Parameter, ...], before: str
) -> list[Parameter]:
    """Options with others before the one of that name, or at the end."""
    at = [one.name for one in options].index(before) if before else len(options)
    return [*options[:at], *more, *options[at:]]


@contextmanager
def regions_of(
    cluster: Path | None,
    at: list[str] | None,
    password: str | None,
    password_file: Path | None,
    master: str,
) -> Iterator[dict[str, str]]:
    """The options `endpoints` and `passwordFile` of the source for the regions that are named.

    A password that does not come from a file is in a file of its own while the `with` lasts.

    Raises:
        CliError: No region answers, or the password is wrong.
        UsageError: Executors on other machines could not read the password.
    """
    secret = find_password(password, password_file, os.environ, cluster, at)
    places = find(cluster, at, secret, some_down=True)
    _check_password(places, secret)
    endpoints = ",".join(f"{one.known_name}={one.resp}".lstrip("=") for one in places)
    options = {"endpoints": endpoints}
    if not secret:
        yield options
    elif password_file is not None:
        yield {**options, "passwordFile": str(password_file.absolute())}
    elif not is_local(master):
        raise UsageError(
            "executors on other machines need the password as a file: give --password-file with a "
            "path that is the same on all machines"
        )
    else:
        with tempfile.TemporaryDirectory(prefix="anabranch-password-") as folder:
            path = Path(folder) / "password"
            path.touch(mode=0o600)
            path.write_bytes(os.fsencode(secret) + b"\n")
            yield {**options, "passwordFile": str(path)}


def _check_password(places: list[RegionAddress], secret: str | None) -> None:
    """Asks the first region that answers, before Spark is started; CliError if it refuses.

    If no region answers, the job says so, which may wait for one.
    """
    for place in places:
        try:
            with place.client(secret) as client:
                client.ping()
            return
        except Unreachable:
            continue


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """The settings of ``--conf``; UsageError for one that is not ``NAME=VALUE``."""
    found: dict[str, str] = {}
    for one in conf or []:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--conf: '{one}' is not NAME=VALUE")
        found[name.strip()] = value
    return found


def perform(
    job: str,
    master: str,
    conf: list[str] | None,
    json_file: Path | None,
    work: Callable[[SparkSession, Bar], Report],
) -> None:
    """Runs a job in a session of its own, and prints its report; code 1 if it did not pass.

    Raises:
        CliError: The job cannot go on; the error is a line for people.
        UsageError: An option of the job is wrong.
        KeyboardInterrupt: A signal has interrupted the job; a line on stderr says so.
    """
    settings = settings_of(conf)
    try:
        with open_session(job, master, settings) as session:
            # Imported here: rich takes long to import.
            from anabranch.pipeline.jobs.progress import Bar

            with Bar(session) as bar:
                report = work(session, bar)
    except OptionError as error:
        raise UsageError(str(error)) from None
    except PipelineError as error:
        raise CliError(str(error)) from None
    except (CliError, OSError, typer.Exit):
        raise
    except Exception as error:
        if not _is_of_spark(error):
            raise
        raise CliError(readable(error)) from None
    except KeyboardInterrupt:
        advice = "; run it again, and it goes on where it ended" if job in _GOING_ON else ""
        print(f"anabranch: the job {job} was interrupted{advice}", file=sys.stderr)
        raise
    _print(report)
    if json_file is not None:
        with placed(json_file):
            write_whole(json_file, (json.dumps(report.facts, indent=1) + "\n").encode())
    if not report.passed:
        raise typer.Exit(1)


def _is_of_spark(error: Exception) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def _print(report: Report) -> None:
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    print("\n".join(report.lines))
    for one in report.tables:
        print(f"\n{one.title}")
        # Names of streams and groups may hold newlines.
        rows = [[one_line(cell) for cell in row] for row in one.rows]
        print("\n".join(table(one.heads, rows, one.right, width)))


def directory(option: str, text: str) -> Path:
    """The directory that an option names; UsageError if it is no path of a file system."""
    if "://" in text:
        raise UsageError(
            f"{option}: {text} is a URL; give a directory that is mounted on all machines of Spark "
            "at the same path"
        )
    return Path(text).absolute()
