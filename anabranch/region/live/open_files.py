"""The limit of open files of this process, and the number of clients that it allows.

Each client is an open file. A region whose ``maxclients`` exceeds the limit would fail to accept
clients, peers and HTTP requests, and to open its own files. So the start raises the limit as far as
the system lets it, and lowers ``maxclients`` to what fits, as Redis does.
"""

from __future__ import annotations

import resource
from typing import Final

from anabranch.region.engine.settings import Settings

# Files that are no clients: the database, the log, links in both directions, HTTP requests, and up
# to three for each connection to the port of the other regions that has not said who it is.
RESERVED: Final = 384
# The system may name no limit, or one above what the kernel grants.
_FILES_MAX: Final = 1 << 20


def fit_clients(settings: Settings) -> str:
    """Raises the limit of open files, and lowers ``maxclients`` to what it allows.

    Returns a warning if ``maxclients`` was lowered, or an empty text. `Settings.ceilings` keeps the
    allowed number, above which CONFIG SET refuses.
    """
    files = _raised()
    allowed = max(files - RESERVED, 1)
    settings.ceilings["maxclients"] = allowed
    wanted = settings.integer("maxclients")
    if wanted <= allowed:
        return ""
    settings.set("maxclients", str(allowed))
    return (
        f"maxclients is {allowed} instead of {wanted}: this process may open {files} files,"
        f" {RESERVED} of them reserved; raise the limit (`ulimit -n`, or LimitNOFILE= of systemd)"
        f" to {wanted + RESERVED}"
    )


def _raised() -> int:
    """Raises the soft limit to the hard one; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _FILES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # The kernel grants less than the hard limit says.
        return soft
    return wanted
