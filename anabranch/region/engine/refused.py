"""Commands of Redis that a region refuses with a reason, though they are not in its table.

Dispatch looks here for a name that the command table does not have. Clients take an error that
begins with "ERR unknown command" for an old server, and NOSCRIPT for a script that is not loaded
yet, and send another form of the command, again and again. These texts begin with neither.
"""

from __future__ import annotations

from typing import Final

_SCRIPTS: Final = "EVAL EVAL_RO EVALSHA EVALSHA_RO FCALL FCALL_RO FUNCTION SCRIPT"
_PUB_SUB: Final = (
    "PSUBSCRIBE PUBLISH PUBSUB PUNSUBSCRIBE SPUBLISH SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE"
)
_CLUSTER: Final = "ASKING CLUSTER READONLY READWRITE"

# (text, the commands that get it); `{}` stands for the name of the command.
_REASONS: Final = (
    ("ERR scripts are not served: {}", _SCRIPTS),
    ("ERR pub/sub is not served: {}", _PUB_SUB),
    ("ERR a feed of the commands of all clients is not served: {}", "MONITOR"),
    # This text is Redis's own.
    ("ERR This instance has cluster support disabled", _CLUSTER),
)

REFUSED: Final[dict[bytes, str]] = {
    name.encode(): text.format(name) for text, names in _REASONS for name in names.split()
}
"""Name of the command in upper case → text of the error."""
