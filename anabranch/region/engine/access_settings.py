"""The settings that say who may use a region, and how much clients may hold together."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.setting import Setting

ACCESS: Final[list[Setting]] = [
    Setting(
        "maxmemory-clients",
        0,
        "Most bytes of the input, the unsent replies and the queued commands of all clients. Above "
        "it clients that hold the most are disconnected, except after CLIENT NO-EVICT ON; 0: no "
        "limit. Less than 128kb counts as 128kb.",
        is_bytes=True,
    ),
    Setting("requirepass", "", "Password that AUTH must give; empty: none."),
    Setting(
        "protected-mode",
        "yes",
        "While requirepass is empty, refuse clients that do not connect over loopback (yes), or "
        "serve all (no).",
        choices=["yes", "no"],
    ),
    Setting(
        "acllog-max-len",
        128,
        "Most entries of ACL LOG, which has the wrong passwords. Above this the oldest entries go.",
        maximum=100_000,
    ),
    Setting(
        "enable-debug-command",
        "no",
        "Who may use DEBUG, which can stop the region for a while: nobody (no), clients that are "
        "connected over loopback (local), or all (yes).",
        choices=["no", "yes", "local"],
        mutable=False,
    ),
]
