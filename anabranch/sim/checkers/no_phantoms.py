"""Invariant 2: no entry without an attempted add; none from an add that definitely failed.

Clients put a unique token into every add. Each entry that a region commits, and each that it
shows at the end, must bear the token and all fields of an XADD that was sent to this region, or
to the one that a RENAME copied from, and was not refused.
"""

from __future__ import annotations

from anabranch.region.engine.replies import Reply
from anabranch.sim.arguments import add_request
from anabranch.sim.checkers.ledger import LedgerJudge, answers, is_refused
from anabranch.sim.history import Committed, End, Operation, Setup, Words
from anabranch.sim.logged import Add


class Attempts:
    """All XADDs with one token. `taken`: (region, key) → how many of them were not refused."""

    def __init__(self, fields: list[bytes]) -> None:
        self.fields = fields
        self.taken: dict[tuple[int, bytes], int] = {}


class NoPhantoms(LedgerJudge):
    """Judges commits, so an entry is judged before another region can have it."""

    name = "no_phantoms"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._attempts: dict[bytes, Attempts] = {}
        # Keys that a RENAME named as its destination.
        self._renamed: set[bytes] = set()

    def executed(self, operation: Operation) -> None:
        """Notes each attempted add, and whether it was refused."""
        super().executed(operation)
        for words, reply in answers(operation):
            self._attempt(operation.region, words, reply)

    def _attempt(self, region: int, words: Words, reply: Reply) -> None:
        name = words[0].upper()
        if name in (b"RENAME", b"RENAMENX"):
            if len(words) > 2:
                self._renamed.add(words[2])
        elif name == b"XADD":
            try:
                fields = add_request(words).fields
            except IndexError:
                return
            token = Add(0, 0, b"", 0, fields).token()
            attempts = self._attempts.setdefault(token, Attempts(fields))
            if not is_refused(reply):
                where = (region, words[1])
                attempts.taken[where] = attempts.taken.get(where, 0) + 1

    def committed(self, event: Committed) -> None:
        """Each committed add was attempted."""
        super().committed(event)
        for add in self.ledger.fresh:
            if isinstance(add, Add):
                why = self._phantom(add.fields, add.token(), add.region, add.key)
                if why:
                    self.fail(
                        event.at_ms,
                        event.region,
                        f"committed {add.shown_id.decode()} of {add.key.decode()}: {why}",
                    )

    def _phantom(self, fields: list[bytes], token: bytes, region: int, key: bytes) -> str:
        """The reason why the entry must not exist; empty if it may."""
        attempts = self._attempts.get(token)
        if attempts is None:
            return f"no client added the token {token!r}"
        if attempts.fields != fields:
            return f"it has the fields {fields}; the add had {attempts.fields}"
        if not attempts.taken:
            return f"every add of {token!r} was refused"
        if (region, key) not in attempts.taken and key not in self._renamed:
            return f"{token!r} was never added there: {sorted(attempts.taken)}"
        return ""

    def finish(self, end: End) -> None:
        """Each entry that a region shows was attempted by a client."""
        for region in sorted(end.shown):
            for key in self.setup.keys:
                reply = self.setup.ask(region, (b"XRANGE", key, b"-", b"+"))
                for item in reply if isinstance(reply, list) else []:
                    assert (
                        isinstance(item, list)
                        and isinstance(item[0], bytes)
                        and isinstance(item[1], list)
                    )
                    fields = [field for field in item[1] if isinstance(field, bytes)]
                    attempts = self._attempts.get(Add(0, 0, b"", 0, fields).token())
                    if attempts is None or attempts.fields != fields or not attempts.taken:
                        self.fail(
                            end.at_ms,
                            region,
                            f"shows {item[0].decode()} of {key.decode()} with {fields}, "
                            "which no client added",
                        )
