"""Entry point of `python -m anabranch`, which runs the command `anabranch`."""

from anabranch.cli.main import main

main()
