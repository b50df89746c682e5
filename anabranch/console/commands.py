"""The command table of a region: what completes a command line, and what a reader may run."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from anabranch.console.regions import Region, text
from anabranch.console.view import JsonObject

READ_ONLY_FLAG: Final = "readonly"


class CommandTable:
    """The commands of one region, from COMMAND and COMMAND DOCS."""

    def __init__(self, described: list[Any], documented: dict[str, Any]) -> None:
        # Name in lower case, subcommands as ``xinfo|stream`` → its flags.
        self._flags: Final[dict[str, set[str]]] = {}
        self._containers: Final[set[str]] = set()
        self.docs: Final[list[JsonObject]] = []
        for row in described:
            self._take(row)
        for name, docs in sorted(documented.items()):
            self._document(name, docs)

    def _take(self, row: list[Any]) -> None:
        name, flags, subcommands = str(row[0]).lower(), row[2], row[9]
        self._flags[name] = {str(flag) for flag in flags}
        if subcommands:
            self._containers.add(name)
        for inner in subcommands:
            self._take(inner)

    def _document(self, name: str, docs: dict[str, Any]) -> None:
        for inner, inner_docs in sorted(docs.get("subcommands", {}).items()):
            self._document(inner, inner_docs)
        if name.lower() in self._containers and "syntax" not in docs:
            return
        self.docs.append(
            {
                "name": name.upper().replace("|", " "),
                "syntax": docs.get("syntax", ""),
                "summary": docs.get("summary", ""),
                "reads": READ_ONLY_FLAG in self._flags.get(name.lower(), set()),
            }
        )

    def only_reads(self, words: list[bytes]) -> bool:
        """Whether the table says of a command line that it only reads.

        A command that the table does not have, or whose subcommand it does not have, does not.
        """
        name = words[0].decode("ascii", "replace").lower()
        if name in self._containers:
            if len(words) < 2:
                return False
            name += "|" + words[1].decode("ascii", "replace").lower()
        return READ_ONLY_FLAG in self._flags.get(name, set())


async def table_of(region: Region) -> CommandTable:
    """Asks a region for its table. Raises RegionDown or Refused."""
    described = await region.line.ask("COMMAND")
    documented = await region.line.ask("COMMAND", "DOCS")
    return CommandTable(text(described), text(documented))


class CommandTables:
    """The tables of all regions, asked for once; a region that was upgraded is asked anew."""

    def __init__(self) -> None:
        self._tables: Final[dict[int, tuple[str, CommandTable]]] = {}
        self._lock: Final = asyncio.Lock()

    async def of(self, region: Region, life: str) -> CommandTable:
        """The table of a region in the life with this number. Raises RegionDown or Refused."""
        async with self._lock:
            known = self._tables.get(id(region))
            if known is None or known[0] != life:
                known = self._tables[id(region)] = (life, await table_of(region))
            return known[1]
