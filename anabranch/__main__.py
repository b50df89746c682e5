"""Entry point of the command `anabranch` and of `python -m anabranch`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command; Ctrl-C ends it with code 130, also while its modules are imported."""
    try:
        from anabranch.hidden_arguments import hide

        hide()
        from anabranch.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
