"""Files that are replaced as a whole, so that a failure leaves the former contents."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Final

# The directory, or a mount on the file itself, allows no other file under this name.
_IN_PLACE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
_DEVICES: Final = Path("/dev")


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under another name, beside its place, and renames it.

    The file keeps its permissions, and a symbolic link stays one. Devices, pipes, and files in
    directories that take no other file are written in place.

    Args:
        path: The file, whose directory exists.
        content: All its bytes.

    Raises:
        OSError: The file cannot be written. Unless it was written in place, it is as it was.
    """
    if _DEVICES in path.absolute().parents or (path.exists() and not path.is_file()):
        path.write_bytes(content)
        return
    place = path.resolve()
    fresh = place.with_name(f"{place.name}.partial")
    try:
        fresh.write_bytes(content)
        if place.exists():
            shutil.copymode(place, fresh)
        fresh.replace(place)
    except OSError as error:
        if error.errno not in _IN_PLACE:
            raise
        place.write_bytes(content)
    finally:
        # A directory that takes no file holds none.
        if fresh.exists():
            fresh.unlink()
