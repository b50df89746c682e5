"""The command line of Rocket Rides: `python -m examples.rocket_rides`.

Without the name of a part, it performs a whole run. A part is one process of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import redis

from examples.rocket_rides import parts
from examples.rocket_rides.database import DatabaseError
from examples.rocket_rides.fleet import ProcessFailed
from examples.rocket_rides.load import LoadError
from examples.rocket_rides.ride_log import LogError


def main(arguments: Sequence[str]) -> int:
    """Runs a part, or everything; returns the exit code."""
    try:
        if arguments and arguments[0] in parts.NAMES:
            return parts.main(arguments)
        # Imported here: the parts do not need rich, and crashed ones start often.
        from examples.rocket_rides import whole_run

        return whole_run.main(arguments)
    except (LogError, DatabaseError, LoadError, ProcessFailed, redis.RedisError) as error:
        # A region that does not answer, or asks for a password, too.
        print(f"rocket rides: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
