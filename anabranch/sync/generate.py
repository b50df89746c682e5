"""Writes sync/wire/sync_pb2.py and sync_pb2.pyi from proto/.

The build runs this module as a script, so it imports no other module of anabranch.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SCHEMA = Path("anabranch", "sync", "v1", "sync.proto")
_PROTO = _HERE.parents[1] / "proto"
_SOURCE = _PROTO / _SCHEMA
_TARGET = _HERE / "wire"


def generate() -> list[Path]:
    """Generates the modules and returns the files written; RuntimeError when protoc fails."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as scratch:
        arguments = [
            "protoc",
            f"-I{_PROTO}",
            f"--python_out={scratch}",
            f"--pyi_out={scratch}",
            str(_SOURCE),
        ]
        if protoc.main(arguments) != 0:
            raise RuntimeError(f"protoc refused {_SOURCE}")
        written = []
        for path in sorted(Path(scratch).rglob("sync_pb2.py*")):
            target = _TARGET / path.name
            target.write_bytes(path.read_bytes())
            written.append(target)
    return written


def is_current() -> bool:
    """Whether the generated module exists and is not older than its source."""
    module = _TARGET / "sync_pb2.py"
    # An installed package has no source: its modules were written when it was built.
    return module.exists() and (
        not _SOURCE.exists() or module.stat().st_mtime >= _SOURCE.stat().st_mtime
    )


if __name__ == "__main__":
    for file in generate():
        print(f"wrote {file}", file=sys.stderr)
