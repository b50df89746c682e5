"""The errors that end a command with one line and an exit code."""

from __future__ import annotations


class CliError(Exception):
    """Ends the command with its text and exit code 1: the cluster or the machine is at fault.

    `region_state` is what a table says of a region that could not be asked because of this error.
    """

    exit_code = 1
    region_state = "unreachable"


class UsageError(CliError):
    """Ends the command with exit code 2: an argument or the configuration is wrong."""

    exit_code = 2


class ProblemsTold(CliError):
    """Ends a command whose output tells these problems already, with `--json` as JSON."""


class EndedByError(CliError):
    """Ends `serve` with exit code 70: an error of the region itself. It may be started again."""

    exit_code = 70


class GivenUp(CliError):
    """Ends `serve` with exit code 3: errors have ended it too often at one place of its log."""

    exit_code = 3


class Unreachable(CliError):
    """A region does not answer."""


class Refused(CliError):
    """A region answered with an error."""

    region_state = "refused"


class WrongRegion(CliError):
    """A region has another name or id than the cluster file gives its address."""

    region_state = "other region"


class NoRegion(CliError):
    """A server speaks the Redis protocol and is no region of anabranch."""

    region_state = "no region"


class WrongPassword(Refused):
    """Regions ask for a password, or refuse the one that they were given.

    `who` names each of them, such as ``us at 127.0.0.1:7001``; `was_given`: a password was.
    """

    region_state = "no access"

    def __init__(self, who: list[str], was_given: bool) -> None:
        self.who = who
        self.was_given = was_given
        is_one = len(who) == 1
        refuses = "refuses" if is_one else "refuse"
        asks = "asks" if is_one else "ask"
        does = f"{refuses} this password" if was_given else f"{asks} for a password"
        super().__init__(
            f"{' and '.join(filter(None, [', '.join(who[:-1]), who[-1]]))} {does}: give the right"
            " one with --password, --password-file FILE, REDISCLI_AUTH or ANABRANCH_REQUIREPASS"
        )

    @classmethod
    def of_all(cls, errors: list[WrongPassword]) -> WrongPassword:
        """One error for several regions, at least one."""
        return cls([who for error in errors for who in error.who], errors[0].was_given)
