"""Names of streams for jobs that read a list of them which they found before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.options import is_glob
from anabranch.pipeline.resp import encoded

_SPECIAL: Final = frozenset("\\*?[]")


def exact(name: str) -> str:
    """The value of the option `streams` that reads a stream with any name.

    A comma, or a space at an end, becomes a `?`, because the option cannot hold it. So the streams
    "a,b" and "a;b" are read both if one is.
    """
    if not is_glob(name) and "," not in name and name.strip() == name:
        return name
    body = name.strip()
    lead = len(name) - len(name.lstrip())
    found = []
    for at, character in enumerate(name):
        if character == "," or not lead <= at < lead + len(body):
            found.append("?" * len(encoded(character)))
        else:
            found.append(f"\\{character}" if character in _SPECIAL else character)
    return "".join(found)


def raw_reading(regions: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """The options of the source that read streams of any names, with fields as they are.

    `regions` are the options that say where regions are.
    """
    return {**regions, "streams": ",".join(map(exact, names)), "fieldsFormat": "raw"}


def check_text(names: list[str]) -> None:
    """Raises OptionError if Spark cannot hold a name as a text."""
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise OptionError(
                f"the name of the stream {encoded(name)!r} is not UTF-8, and a table of Spark "
                "holds names as text: name the other streams with --streams, or RENAME this one"
            ) from None
        if not name:
            raise OptionError(
                "there is a stream whose name is empty, which --streams cannot name: give the "
                "names of the others, or RENAME this one"
            )
