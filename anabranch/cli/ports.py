"""Whether a port is free, and which process holds it if not."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from anabranch.region.option_values import Address


def listen_error(address: Address) -> str:
    """Empty if a socket can listen on this address, otherwise the reason.

    The reason names the process that holds the port, if that process is visible.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
            probe.listen(1)
        except socket.gaierror as error:
            return f"{address.host} is no address of this machine ({error.strerror})"
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {address.port} is taken{_holder(address.port)}"
            if error.errno == errno.EACCES:
                return f"port {address.port} needs more rights; take one above 1023"
            return f"cannot listen on {address}: {error.strerror}"
    return ""


def _holder(port: int) -> str:
    inodes = {
        inode for table in ("/proc/net/tcp", "/proc/net/tcp6") for inode in _listening(table, port)
    }
    for process in Path("/proc").iterdir() if inodes else ():
        if not process.name.isdigit():
            continue
        try:
            links = {os.readlink(descriptor) for descriptor in (process / "fd").iterdir()}
            if any(f"socket:[{inode}]" in links for inode in inodes):
                command = (
                    (process / "cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode(errors="replace")
                    .strip()
                )
                return f" by process {process.name} ({command[:60]})"
        except OSError:
            continue
    return ""


def _listening(table: str, port: int) -> list[str]:
    try:
        rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port]
