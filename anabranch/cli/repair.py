"""`anabranch repair`: rebuilds a region from the others, or from one of them (S13.7).

Both ways move the database of a stopped region aside and leave the recovery to its next start.
Nothing is deleted: the former files stay in a directory beside the new database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named
from anabranch.cli.client import RegionClient
from anabranch.cli.data import (
    DirectoryArgument,
    count,
    described,
    of_a_region,
    run_inspect,
    waiting,
)
from anabranch.cli.diff import Difference
from anabranch.cli.diverged import compared
from anabranch.cli.errors import CliError, Unreachable, UsageError
from anabranch.cli.printing import SureJsonOption, YesOption, print_json, require_yes
from anabranch.cli.serve import locked
from anabranch.cli.terminal import width, wrapped
from anabranch.plural import counted
from anabranch.region.engine.errors import StorageError
from anabranch.region.live import inspection
from anabranch.region.live.damaged_log import Salvaged
from anabranch.region.live.inspection import Inspection
from anabranch.region.live.stored_identity import read_identity

_ALL: Final = "all"
# How long a region may take to stop.
_STOP_S: Final = 60.0
_POLL_S: Final = 0.05


def repair(
    directory: DirectoryArgument,
    what: Annotated[
        Optional[str],
        typer.Argument(
            metavar=_ALL, help="What to rebuild from the region of --from.", show_default=False
        ),
    ] = None,
    source: Annotated[
        Optional[str],
        typer.Option(
            "--from",
            metavar="NAME",
            help="Rebuild a region that has diverged from this one, and show what is replaced.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    json: SureJsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Rebuild a region whose data directory is damaged: the next start gets all from the others.

    Writes that no other region has come back from the damaged log, up to the first damaged one.
    The damaged files are moved aside, not deleted, and must not be put back.

    With --from, the region runs, and holds other data than NAME with the same effects (`anabranch
    diff`). The command shows what is replaced, stops the region, and moves its files aside. The
    next start takes the state of NAME. Writes that no other region has come back, too.
    """
    require_yes(json, yes)
    if source is None:
        if what is not None:
            raise UsageError(f"--from NAME says from which region {what} is rebuilt")
        _of_damaged(directory, yes, json)
        return
    if what != _ALL:
        raise UsageError(_not_all(directory, what, source))
    identity = read_identity(of_a_region(directory))
    if identity is None:
        raise CliError(f"{directory} holds no region yet")
    places = find(cluster, at, password)
    wrong, right = named(places, identity.name), named(places, source)
    if wrong is right:
        raise UsageError(f"{directory} holds the data of {wrong.name}: name another region")
    with wrong.client(password) as one, right.client(password) as other:
        _Rebuilding(directory, one, other, right.region_id).run(yes, json)


def _not_all(directory: Path, what: Optional[str], source: str) -> str:
    """Why a command names nothing that can be rebuilt."""
    right = f"`anabranch repair {directory} {_ALL} --from {source}` rebuilds the region"
    if what is None:
        return f"say what is rebuilt: {right}"
    return (
        "a single key cannot be rebuilt: the effect log of the region would not say where its"
        f" state comes from; {right}, and shows each key that differs"
    )


# -- damaged files


def _of_damaged(directory: Path, yes: bool, json: bool) -> None:
    """Rebuilds a region whose files are damaged from all others."""
    with locked(of_a_region(directory)):
        found = run_inspect(directory)
        if not found.findings:
            if json:
                print_json(_damage_as_json(found, None, None))
                return
            print(f"{directory} is sound, nothing to repair: {described(found)}")
            if found.repaired is not None:
                print(waiting(found.repaired))
            return
        if not json:
            print("\n  ".join([f"{directory} is damaged:", *found.findings]))
        if len(found.members) == 1:
            raise CliError(
                f"{found.name} is the only region of its cluster that is not lost, so nothing can"
                " be rebuilt from others; put a backup back with `anabranch restore`"
            )
        if not yes:
            text = "Writes that no other region has are lost, as far as they are damaged. Rebuild?"
            typer.confirm(text, abort=True)
        aside, salvaged = _set_aside(directory)
    if json:
        print_json(_damage_as_json(found, aside, salvaged))
        return
    print(
        f"{_salvage_described(salvaged)}\n"
        f"The damaged files are in {aside}. Never put them back.\n"
        "Start the region as usual: it recovers from the other regions before it takes writes."
        " Its log says what it could not save. Delete these files when it serves again."
    )


def _damage_as_json(
    found: Inspection, aside: Optional[Path], salvaged: Optional[Salvaged]
) -> dict[str, Any]:
    return {
        "region": found.name,
        "cluster": found.cluster,
        "problems": found.findings,
        "waits_for_start": aside is not None or found.repaired is not None,
        "moved_to": None if aside is None else str(aside),
        "kept": _salvage_as_json(salvaged),
    }


def _salvage_as_json(salvaged: Optional[Salvaged]) -> Optional[dict[str, int]]:
    if salvaged is None:
        return None
    return {
        "blocks": salvaged.blocks,
        "blocks_of_former_repair": salvaged.carried,
        "own_effects_up_to": salvaged.last,
        "unreadable_blocks": salvaged.unreadable,
    }


def _salvage_described(salvaged: Optional[Salvaged]) -> str:
    if salvaged is None:
        return "The identity of the region is damaged, so nothing of its log is kept."
    carried = f" and {salvaged.carried:,} that a former repair had kept" if salvaged.carried else ""
    return (
        f"{count(salvaged.blocks, 'sound block')} of its effect log{carried}"
        f" {'is' if salvaged.blocks + salvaged.carried == 1 else 'are'} kept, with effects of its"
        " own up to"
        f" {salvaged.last:,}; {count(salvaged.unreadable, 'block')} of the log cannot be read."
    )


# -- divergence


class _Rebuilding:
    """The rebuild of one region, `wrong`, from another one, `right`, whose id is `right_id`."""

    def __init__(
        self, directory: Path, wrong: RegionClient, right: RegionClient, right_id: int
    ) -> None:
        self._directory: Final = directory
        self._wrong: Final = wrong
        self._right: Final = right
        self._right_id: Final = right_id

    def run(self, yes: bool, json: bool) -> None:
        """Compares, shows, asks, stops the region, and moves its files aside."""
        self._require_in_use()
        found = compared(self._wrong, self._right)
        pending = int(self._wrong.info("everything").get("crdt_pending_entries", "0"))
        aside: Optional[Path] = None
        if not json:
            print("\n".join(wrapped(self._before(found, pending), width())), flush=True)
        if not found.is_equal:
            if not yes:
                text = f"Replace all data of {self._wrong.name} by those of {self._right.name}?"
                typer.confirm(text, abort=True)
            self._stop()
            with _locked_soon(self._directory):
                aside, _ = _set_aside(self._directory, self._right_id)
        if json:
            print_json(
                {
                    "region": self._wrong.name,
                    "from": self._right.name,
                    "equal": found.is_equal,
                    "replaced": found.as_json(None),
                    "pending_entries": pending,
                    "waits_for_start": aside is not None,
                    "moved_to": None if aside is None else str(aside),
                    "problems": found.lines(),
                }
            )
        elif aside is not None:
            print("\n".join(wrapped(self._after(aside), width())))

    def _require_in_use(self) -> None:
        """Raises CliError if the region that answers does not run with the directory."""
        try:
            with locked(self._directory):
                pass
        except CliError:
            return
        raise CliError(
            f"{self._wrong.name} does not run with {self._directory}: start it with that, so that"
            f" its data can be compared with those of {self._right.name}"
        )

    def _before(self, found: Difference, pending: int) -> list[str]:
        wrong, right = self._wrong.name, self._right.name
        if found.is_equal:
            return [f"{wrong} and {right} hold the same: nothing to repair"]
        lines = [f"{wrong} and {right} have applied the same effects, and hold different data:"]
        lines += [f"  {line}" for line in found.lines()]
        lines.append(
            f"All data of {wrong} would be replaced by those of {right}. `anabranch export {wrong}"
            f" FILE` saves first the entries that only {wrong} holds."
        )
        lines.append(
            f"Groups of {wrong} would deliver again what is not acknowledged everywhere:"
            f" {counted(pending, 'entry is', 'entries are')} pending there."
        )
        return lines

    def _after(self, aside: Path) -> list[str]:
        wrong, right = self._wrong.name, self._right.name
        start = (
            f"Start {wrong} as usual: it takes the state of {right} before it takes writes. Then"
            f" `anabranch diff {wrong} {right}` tells whether the two are equal. Keep the former"
            " files for a report of this fault of anabranch."
        )
        stopped = f"{wrong} has stopped. Its former files are in {aside}. Never put them back."
        return [stopped, start]

    def _stop(self) -> None:
        try:
            self._wrong.call("SHUTDOWN")
        except Unreachable:
            pass  # A region that stops closes the connection.


@contextmanager
def _locked_soon(directory: Path) -> Iterator[None]:
    """Locks the directory of a region that stops; CliError if it does not stop soon."""
    deadline = time.monotonic() + _STOP_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(directory))
                break
            except CliError as error:
                if time.monotonic() > deadline:
                    raise CliError(
                        f"{error}\nNothing was changed. If something starts the region again, stop"
                        " that first"
                    ) from None
            time.sleep(_POLL_S)
        yield


def _set_aside(directory: Path, source: int = 0) -> tuple[Path, Optional[Salvaged]]:
    try:
        return inspection.set_aside(directory, source)
    except StorageError as error:
        raise CliError(str(error)) from None
