"""The lines that a user types into a recorder: commands to regions, cut, heal, sync, wait."""

from __future__ import annotations

import re
import time
from typing import Final

from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.sim.scenario.cells import words_of
from anabranch.sim.scenario.refusals import Refused
from anabranch.sim.scenario.session import Blocked, Session

HELP: Final = """\
us> XADD orders * item book    a command to region us
us 2> XREAD BLOCK 0 ...        the same, by client 2: for MULTI, WATCH and reads that wait
us 2> hang up                  client 2 closes its connection
sync [us eu]                   the regions become level; links are closed otherwise
cut us eu, heal [us eu]        links that stay closed in a sync, too
wait 300 ms                    lets time pass
quit                           ends the recording"""

# Clients at ports have this label and higher ones.
FIRST_PORT_LABEL: Final = 100
_COMMAND: Final = re.compile(r"(?P<region>[\w-]+)(?:\s+(?P<client>\d+))?\s*>\s*(?P<rest>.+)")
_WAIT: Final = re.compile(r"wait\s+(\d+)\s*(ms|s)", re.IGNORECASE)


class Prompt:
    """Performs typed lines; `done` once the user has quit."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._ids: Final = {name: one for one, name in session.names.items()}
        self.done = False
        # The clients of this prompt; others belong to ports.
        self._clients: Final = {0}

    def perform(self, line: str) -> str:
        """Performs one line and returns the text to show.

        Raises:
            Refused: The line is wrong, or a scenario cannot hold it.
        """
        line = line.strip()
        if not line or line.startswith("#"):
            return ""
        command = _COMMAND.fullmatch(line)
        if command is not None:
            return self._command(command["region"], int(command["client"] or 0), command["rest"])
        pause = _WAIT.fullmatch(line)
        if pause is not None:
            time.sleep(int(pause[1]) * (1 if pause[2].lower() == "s" else 0.001))
            return ""
        word, *names = line.replace(",", " ").split()
        if word.lower() in ("quit", "exit"):
            self.done = True
            return ""
        if word.lower() in ("help", "?"):
            return HELP
        if word.lower() == "wait":
            raise Refused("a time has a unit: `wait 300 ms` or `wait 2 s`")
        regions = [self._region(name) for name in names]
        if word.lower() == "sync":
            self._session.sync(regions)
        elif word.lower() == "cut":
            self._session.cut(regions)
        elif word.lower() == "heal":
            self._session.heal(regions)
        else:
            raise Refused(f"a line is `us> COMMAND`, sync, cut, heal, wait or quit, not: {line}")
        return "\n".join(["OK", *self.answers()])

    def answers(self) -> list[str]:
        """The answers to commands that waited, as lines."""
        self._session.poll()
        return [
            f"{self._who(region, client)} {shown(self._session.take_answer(region, client))}"
            for region, client in self._session.answers()
            if client in self._clients
        ]

    def _who(self, region: int, client: int) -> str:
        label = f" {client}" if client else ""
        return f"{self._session.names[region]}{label}>"

    def _region(self, name: str) -> int:
        if name not in self._ids:
            raise Refused(f"no region '{name}' here; there are {', '.join(self._ids)}")
        return self._ids[name]

    def _command(self, name: str, client: int, rest: str) -> str:
        region = self._region(name)
        if client >= FIRST_PORT_LABEL:
            raise Refused(f"a client here has a label up to {FIRST_PORT_LABEL - 1}")
        self._clients.add(client)
        if rest.strip().lower() == "hang up":
            self._session.hang_up(region, client)
            return ""
        try:
            words = words_of(rest)
        except ValueError as error:
            raise Refused(str(error)) from None
        reply = self._session.command(region, client, words)
        text = "(blocked)" if isinstance(reply, Blocked) else shown(reply)
        return "\n".join([text, *self.answers()])


def shown(reply: DecodedReply, indent: str = "") -> str:
    """A reply as redis-cli shows it, about."""
    if reply is None:
        return "(nil)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if isinstance(reply, ErrorText):
        return f"(error) {ascii(reply.text)[1:-1]}"
    if isinstance(reply, bytes):
        return ascii(reply)[2:-1]
    if not reply:
        return "(empty array)"
    lines = [f"{number}) {shown(one, indent + '   ')}" for number, one in enumerate(reply, 1)]
    return f"\n{indent}".join(lines)
