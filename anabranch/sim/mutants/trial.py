"""A scenario file under another rule: a patch is applied to a copy of the tree, and the file runs.

The patch is a planted bug, or a simpler rule of the book (`docs/learn/simpler/`).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.planted import plant, pull_out, read
from anabranch.sim.mutants.tree import environment, python

# Prints the mismatches of a scenario file that is run in virtual time.
_PROGRAM: Final = """
import sys
from pathlib import Path
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.virtual import run_virtually
mismatches, _ = run_virtually(load(Path(sys.argv[1])))
print(*mismatches, sep="\\n")
"""


def differences(patch: Path, scenario: Path, tree: Path) -> str:
    """The expectations of a scenario file that fail with a patch, judges included.

    `tree` is a copy of the source tree (`tree.copy_tree`). It is the same before and after. Each
    mismatch has three lines: file, line, time and command; the expected reply; the reply. The
    result is empty if the file passes. Raises ValueError if the head of the patch is not complete,
    and RuntimeError if the patch does not fit, or if the file cannot be run.
    """
    bug = read(patch.resolve())
    plant(bug, tree)
    try:
        ended = subprocess.run(
            [python(), "-P", "-c", _PROGRAM, str(scenario)],
            cwd=tree,
            env=environment(tree),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        pull_out(bug, tree)
    if ended.returncode:
        raise RuntimeError(f"{scenario.name} cannot be run with {patch.name}:\n{ended.stderr}")
    return ended.stdout.replace(str(scenario), scenario.name).strip()
