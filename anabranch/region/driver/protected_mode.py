"""Protected mode, as in Redis: without a password, only clients over loopback are served."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.loopback import is_loopback
from anabranch.region.engine.settings import Settings

# It has the code and the first sentences of Redis's text, by which clients and people know it.
DENIED: Final = (
    b"DENIED anabranch is running in protected mode because protected mode is enabled and no"
    b" password is set for the default user. In this mode connections are only accepted from the"
    b" loopback interface. If you want to connect from external computers, do one of the following:"
    b" 1) Set a password, with --requirepass-file FILE at the start of the region, or with 'CONFIG"
    b" SET requirepass' from the machine on which it runs. 2) Disable protected mode with"
    b" --protected-mode no, or with 'CONFIG SET protected-mode no', if only trusted machines reach"
    b" this port: without a password they all may read and change the data."
)


def is_denied(settings: Settings, address: str) -> bool:
    """Whether a client that connects from `address` is refused."""
    return (
        settings.text("protected-mode") == "yes"
        and settings.text("requirepass") == ""
        and not is_loopback(address)
    )
