"""`anabranch judge`: the tapes of regions, replayed beside a naive engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.printing import JsonOption, print_json

if TYPE_CHECKING:
    from anabranch.sim.tapes.judging import Judge

TapesArgument = Annotated[
    list[Path], typer.Argument(help="Tapes, or folders of tapes, of any regions.", metavar="TAPES")
]


def judge(tapes: TapesArgument, json: JsonOption = False) -> None:
    """Replay the tapes of regions beside a naive engine; tell the first wrong reply or effect.

    A region writes tapes with the setting crdt-tape-max-bytes. Give the tapes of all regions: a
    snapshot that a region joined can only be judged with the tapes of the region that sent it.
    """
    # Imported here, because no other command needs the twin.
    from anabranch.sim.tapes.judging import Judge
    from anabranch.sim.tapes.reading import TapeError
    from anabranch.sim.tapes.writing import tape_files

    for path in tapes:
        if not path.exists():
            raise UsageError(f"there is no {path}")
    given = [one for path in tapes for one in (tape_files(path) if path.is_dir() else [path])]
    # A tape that is named twice, or with its folder, is judged once.
    files = list({one.resolve(): one for one in given}.values())
    if not files:
        raise UsageError(f"no tapes in {', '.join(str(path) for path in tapes)}")
    try:
        replayed = Judge(files)
        replayed.run()
    except TapeError as error:
        raise CliError(str(error)) from None
    if json:
        print_json(_as_json(replayed))
    else:
        _tell(replayed)
    if replayed.wrong is not None:
        raise typer.Exit(1)


def _tell(replayed: Judge) -> None:
    """Prints the verdict for people."""
    for one in replayed.replays:
        parts = f" in {one.parts} parts" if one.parts > 1 else ""
        print(f"{one.name}: {one.calls} calls judged{parts}")
        for note in one.notes:
            print(f"  not followed after {note}")
    wrong = replayed.wrong
    if wrong is not None:
        print(f"\n{wrong.region} at {wrong.at_ms} ms: {wrong.text}")
        if wrong.story:
            print("before it:")
        for line in wrong.story:
            print(f"  {line}")


def _as_json(replayed: Judge) -> dict[str, Any]:
    """The verdict for programs. `wrong`: the first wrong reply or effect, or null."""
    wrong = replayed.wrong
    return {
        "regions": [
            {
                "region": one.name,
                "calls": one.calls,
                "parts": one.parts,
                "not_followed_after": list(one.notes),
            }
            for one in replayed.replays
        ],
        "wrong": wrong
        and {
            "region": wrong.region,
            "at_ms": wrong.at_ms,
            "text": wrong.text,
            "before": list(wrong.story),
        },
        "problems": [] if wrong is None else [f"{wrong.region} at {wrong.at_ms} ms: {wrong.text}"],
    }
