"""What only the process knows of itself, under INFO's field names: memory, CPU, network, sync, the log on disk."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from typing import Any, Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # None: another C library


def resident_bytes() -> int:
    """VmRSS of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back_memory() -> None:
    """Lets the C library return to the system what is free: after a burst of writes, that is what had waited for the disk."""
    if _trim is not None:
        _trim(0)


def fixed() -> dict[str, str]:
    """What does not change."""
    return {
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "process_id": str(os.getpid()),
        "python_version": platform.python_version(),
        "executable": sys.executable,
        "total_system_memory": str(os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES),
    }


def changing() -> dict[str, str]:
    """What is read anew now and then."""
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
