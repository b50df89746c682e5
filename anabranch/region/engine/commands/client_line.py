"""The line of CLIENT LIST about a connection, which ACL LOG shows, too."""

from __future__ import annotations

from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState


def describe(state: EngineState, session: Session) -> str:
    """A session as a line of CLIENT LIST.

    Fields that only Redis can fill (file descriptor, memory) are -1 or 0.
    """
    flags = (
        ("b" if session.waiting else "")
        + ("x" if session.transaction.queued is not None else "")
        + ("e" if session.no_evict else "")
    )
    flags += ("T" if session.no_touch else "") + ("c" if session.closing else "")
    queued = -1 if session.transaction.queued is None else len(session.transaction.queued)
    parts = [
        f"id={session.session_id}",
        f"addr={session.address}",
        f"laddr={session.local_address}",
        "fd=-1",
        f"name={session.name.decode('latin-1')}",
        f"age={max(0, state.clock.now_ms - session.connected_ms) // 1000}",
        f"idle={max(0, state.clock.now_ms - session.active_ms) // 1000}",
        f"flags={flags or 'N'}",
        "db=0 sub=0 psub=0 ssub=0",
        f"multi={queued}",
        f"watch={len(session.transaction.watched)}",
        f"qbuf={session.query_bytes}",
        "qbuf-free=0 argv-mem=0",
        f"multi-mem={session.transaction.queued_bytes}",
        "rbs=0 rbp=0 obl=0 oll=0",
        f"omem={session.output_bytes}",
        f"tot-mem={session.query_bytes + session.output_bytes + session.transaction.queued_bytes}",
        "events=r",
        f"cmd={session.last_command.decode('latin-1').lower() or 'NULL'}",
        "user=default redir=-1",
        f"resp={session.protocol}",
        f"lib-name={session.library_name.decode('latin-1')}",
        f"lib-ver={session.library_version.decode('latin-1')}",
    ]
    return " ".join(parts)
