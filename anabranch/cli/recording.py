"""`anabranch scenario record`: turns what is done on a live cluster into a scenario file."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.simulate import need_simulator
from anabranch.cli.terminal import harmless
from anabranch.whole_file import write_whole

if TYPE_CHECKING:
    from anabranch.sim.scenario.prompt import Prompt
    from anabranch.sim.scenario.session import Session

_PROMPT: Final = "record> "


def record(
    out: Annotated[
        Path, typer.Argument(metavar="OUT.md", help="The file to write.", show_default=False)
    ],
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="The heading of the file.")
    ] = "A recorded session",
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Record what is done on a live, empty cluster as a scenario file.

    Clients use the addresses of the regions, whose effect logs tell what they did. Lines are typed
    (or piped) here: `us> XADD orders * item book`, `cut us eu`, `heal`, `sync`, `quit`; `help`
    lists them. While it records, links are closed, and `sync` makes the regions level, as in
    scenarios. In the end the file is run in virtual time: exit code 1 if its replies differ there.
    """
    need_simulator()
    if out.exists() and not force:
        raise UsageError(f"{out} exists; --force writes over it")
    if not out.parent.is_dir():
        raise UsageError(f"there is no directory {out.parent}")
    _try_file(out)
    end_as_after_ctrl_c()
    from anabranch.cluster.errors import ClusterError
    from anabranch.sim.scenario.live import LiveCluster
    from anabranch.sim.scenario.prompt import Prompt
    from anabranch.sim.scenario.running import discover
    from anabranch.sim.scenario.session import Session

    try:
        addresses = [place.resp for place in find(cluster, at, password)]
        session = Session(LiveCluster(discover(addresses, password)), title)
    except ClusterError as error:
        raise CliError(str(error)) from None
    problems: list[str] = []
    try:
        with suppress(KeyboardInterrupt):
            _read_lines(Prompt(session))
        session.conclude()
    except ClusterError as error:
        problems.append(f"the recording ended early: {error}")
    finally:
        _finish(session, out, problems)
    _check(out)
    if problems:
        raise typer.Exit(1)


def _try_file(out: Path) -> None:
    """Raises UsageError if the file cannot be written; a recording is not to find that out."""
    existed = out.exists()
    try:
        out.open("ab").close()
        if not existed:
            out.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None


def _read_lines(prompt: Prompt) -> None:
    from anabranch.sim.scenario.session import Refused

    is_terminal = sys.stdin.isatty()
    while not prompt.done:
        if is_terminal:
            print(_PROMPT, end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        try:
            text = prompt.perform(line)
        except Refused as error:
            print(f"not recorded: {harmless(str(error))}", file=sys.stderr, flush=True)
            continue
        if text:
            print(harmless(text), flush=True)


def _finish(session: Session, out: Path, problems: list[str]) -> None:
    """Opens the links again, and writes the file.

    Tells the problems of the session, and adds what could not be restored. CliError if the file
    cannot be written; the recording is on stdout then.
    """
    from anabranch.cluster.errors import ClusterError

    text = session.text()
    try:
        session.close()
    except ClusterError as error:
        problems.append(
            f"links or settings were not restored: {error}. `anabranch link heal` opens the"
            " links once these regions can be reached"
        )
    for problem in problems:
        print(harmless(problem), file=sys.stderr)
    try:
        write_whole(out, text.encode())
    except OSError as error:
        print(text)
        raise CliError(f"cannot write {out}: {error.strerror}; the recording is above") from None
    for note in session.notes:
        print(f"note: {harmless(note)}", file=sys.stderr)


def _check(out: Path) -> None:
    """Runs the file in virtual time; ends with exit code 1 if it fails."""
    from anabranch.sim.scenario.running import Outcome, run_virtually

    outcomes: list[Outcome] = []
    failed = run_virtually([out], outcomes.append)
    if failed:
        print(f"{out} is written, but does not pass in virtual time:", file=sys.stderr)
        print("\n".join(harmless(str(one)) for one in outcomes), file=sys.stderr)
        raise typer.Exit(1)
    print(f"{out} passes in virtual time: anabranch scenario run {out}")
