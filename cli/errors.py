"""What went wrong, for people: one line, and an exit code."""

from __future__ import annotations


class CliError(Exception):
    """Ends the command with its text and exit code 1: the world is not as the command needs it."""

    exit_code = 1


class UsageError(CliError):
    """Ends the command with exit code 2: what was typed, or configured, is wrong."""

    exit_code = 2


class Unreachable(CliError):
    """A region does not answer."""


class Refused(CliError):
    """A region answered with an error."""
