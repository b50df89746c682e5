"""Facts about the operating system process, by INFO field name: memory, CPU, disk and system."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# None: the C library is not glibc.
_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident_bytes() -> int:
    """Resident memory (VmRSS) of this process in bytes."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back_memory() -> None:
    """Makes the C library return free memory to the system.

    After a burst of writes this is the memory of the rows that had waited for the disk.
    """
    if _trim is not None:
        _trim(0)


def place(address: str) -> str:
    """Where this process runs, for people: a region listens on `address`."""
    return f"{address} on {platform.node() or 'an unnamed host'} (process {os.getpid()})"


def fixed() -> dict[str, str]:
    """The facts that do not change."""
    return {
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "process_id": str(os.getpid()),
        "python_version": platform.python_version(),
        "executable": sys.executable,
        "total_system_memory": str(os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES),
    }


def changing() -> dict[str, str]:
    """The facts that change, read now."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    rss = resident_bytes()
    return {
        "used_memory": str(rss),
        "used_memory_rss": str(rss),
        "used_memory_peak": str(own.ru_maxrss * 1024),
        "used_cpu_sys": f"{own.ru_stime:.6f}",
        "used_cpu_user": f"{own.ru_utime:.6f}",
        "used_cpu_sys_children": f"{children.ru_stime:.6f}",
        "used_cpu_user_children": f"{children.ru_utime:.6f}",
    }


def disk(database: Path) -> dict[str, str]:
    """The size of a database with its write-ahead log, and the free space beside it, in bytes.

    Free is the space that a process without privileges may use. A fact that the system does not
    tell is left out.
    """
    facts: dict[str, str] = {}
    size = 0
    for path in (database, database.with_name(f"{database.name}-wal")):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    facts["crdt_disk_bytes"] = str(size)
    with suppress(OSError):
        system = os.statvfs(database.parent)
        facts["crdt_disk_free_bytes"] = str(system.f_bavail * system.f_frsize)
    return facts
