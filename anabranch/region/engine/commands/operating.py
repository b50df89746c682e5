"""Commands for the operator of a region: INFO, TIME, DEBUG and SHUTDOWN."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, help_reply, option_error
from anabranch.region.engine.commands.info import info_text
from anabranch.region.engine.loopback import is_loopback
from anabranch.region.engine.replies import NO_REPLY, OK, CommandError, Reply, VerbatimText, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command

NO_DEBUG: Final = (
    'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can '
    "run it from a local connection, otherwise you need to set this option in the configuration "
    "file, and then restart the server."
)
# The longest DEBUG SLEEP.
SLEEP_S_MAX: Final = 60


def info(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """INFO [section …]: the text of the given sections, or of the default ones."""
    return VerbatimText(info_text(state, [shown(name).lower() for name in argv[1:]]))


def time(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """TIME: seconds since 1970, and microseconds within the second, in steps of 1000.

    The clock is the engine's, which never runs back (S10.2).
    """
    return [b"%d" % (state.clock.now_ms // 1000), b"%d" % (state.clock.now_ms % 1000 * 1000)]


def debug(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """DEBUG SLEEP seconds: stops the region for that time, at most `SLEEP_S_MAX` seconds."""
    allowed = state.settings.text("enable-debug-command")
    if allowed != "yes" and (allowed == "no" or not is_loopback(session.address)):
        raise CommandError(NO_DEBUG)
    subcommand = argv[1].upper()
    if subcommand == b"SLEEP" and len(argv) == 3:
        state.outbox.sleep_ms = _milliseconds(argv[2])
        return OK
    if subcommand == b"HELP" and len(argv) == 2:
        return help_reply(
            "DEBUG", ["SLEEP <seconds>", "    Stop the region for that time, 60 seconds at most."]
        )
    raise option_error(argv)


def _milliseconds(text: bytes) -> int:
    """Parses seconds, with or without a decimal fraction; returns ms. Raises `CommandError`."""
    whole, _, fraction = text.partition(b".")
    if not (whole or fraction) or not (whole + fraction).isdigit() or len(whole) > 9:
        raise CommandError("ERR value is not a valid float")
    milliseconds = int(whole or b"0") * 1000 + int((fraction + b"000")[:3])
    if milliseconds > SLEEP_S_MAX * 1000:
        raise CommandError(f"ERR DEBUG SLEEP takes at most {SLEEP_S_MAX} seconds")
    return milliseconds


def shutdown(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]: closes the connection without a reply.

    ABORT always fails: a shutdown begins at once, so there is never one to abort. While commits
    fail, SHUTDOWN is refused without NOSAVE or FORCE, as in Redis, because writes would be lost.
    """
    words = {word.upper() for word in argv[1:]}
    if (
        not words <= {b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"}
        or {b"SAVE", b"NOSAVE"} <= words
    ):
        raise CommandError(SYNTAX_ERROR)
    if b"ABORT" in words:
        raise CommandError(SYNTAX_ERROR if len(words) > 1 else "ERR No shutdown in progress.")
    may_lose = bool(words & {b"NOSAVE", b"FORCE"})
    if state.disk.error and not may_lose:
        raise CommandError(
            f"ERR Errors trying to SHUTDOWN: writes are not on disk ({state.disk.error})."
            " SHUTDOWN NOSAVE ends the region without them."
        )
    state.outbox.shutdown_may_lose = may_lose
    state.outbox.shutdown_requested = True
    session.closing = True
    return NO_REPLY


COMMANDS: Final = [
    Command(
        "info",
        -1,
        "loading stale",
        info,
        "Returns facts and figures about the region.",
        categories="@dangerous",
        reply="text",
        group="server",
        since="1.0.0",
        syntax="[section [section ...]]",
        shows_data=False,
    ),
    Command(
        "time",
        1,
        "loading stale fast",
        time,
        "Returns the time as seconds and microseconds since 1970.",
        reply="array",
        group="server",
        since="2.6.0",
        shows_data=False,
    ),
    Command(
        "debug",
        -2,
        "admin noscript loading stale",
        debug,
        "DEBUG SLEEP: stops the region for some seconds.",
        reply="simple string",
        group="server",
        since="1.0.0",
        syntax="SLEEP seconds",
        shows_data=False,
    ),
    Command(
        "shutdown",
        -1,
        "admin noscript loading stale no_multi allow_busy",
        shutdown,
        "Writes everything to disk and ends the region.",
        reply="nothing",
        group="server",
        since="1.0.0",
        syntax="[NOSAVE | SAVE] [NOW] [FORCE] | ABORT",
        in_multi=IS_REFUSED,
    ),
]
