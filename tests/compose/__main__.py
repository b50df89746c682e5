"""Whether the tests of compose can run here: `python -m tests.compose` exits with 1 if not.

They need a Docker engine that runs, or one that can be installed and started.
"""

from __future__ import annotations

import sys

from tests.compose.engine import running_engine


def main() -> int:
    """Starts an engine if none runs, and stops it again."""
    try:
        with running_engine():
            return 0
    except (AssertionError, OSError) as error:
        print(f"no Docker engine runs here, and none can be started: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
