"""The errors of a cluster on this machine."""


class ClusterError(Exception):
    """A cluster does not do what it must: a region died, a link did not open, no answer came."""


class ConnectionFailed(Exception):
    """A connection cannot be made, broke or timed out, or the peer sent bytes that are no RESP."""
