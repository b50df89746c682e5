"""Runs scenarios without the command line of anabranch.

`python -m anabranch.sim.scenario [--at HOST:PORT …] PATH…`
"""

from __future__ import annotations

import argparse
import sys

from anabranch.sim.scenario import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.scenario",
        description="Runs scenario files in virtual time, or against live regions.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of them")
    parser.add_argument("--live", action="store_true", help="against regions that it starts")
    parser.add_argument(
        "--at",
        action="append",
        metavar="HOST:PORT",
        help="a region of an existing, empty cluster; name them all",
    )
    given = parser.parse_args()
    sys.exit(main(given.paths, given.at, given.live))
