"""The options of the Spark source, parsed and checked, and those that the sink shares.

Spark hands over options as texts, and their names without regard to case.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Optional

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.offsets import Start, parse_start
from anabranch.pipeline.progress import SINK_PREFIX
from anabranch.pipeline.resp import encoded
from anabranch.region.engine.glob import Glob
from anabranch.region.option_values import ConfigError, parse_address

# Name → meaning, as docs/pipeline.md shows it. The sink has these, too.
ENDPOINTS: Final = {
    "endpoints": "Client addresses of regions: `us=HOST:PORT,eu=HOST:PORT`. Names are optional."
}
ACCESS: Final = {
    "username": "The user for AUTH. Default: none.",
    "passwordFile": "A file with the password in its first line, on driver and executors.",
}
OPTIONS: Final = {
    **ENDPOINTS,
    "streams": "Names of streams, or globs such as `orders:*`, separated by commas.",
    "readRegion": "The name of the endpoint that is read while it answers. Default: the first.",
    "startingOffsets": "`earliest` (default), `latest` (streaming only), or JSON.",
    "endingOffsets": "Batch only: `latest` (default), or JSON.",
    "maxEntriesPerTrigger": "Streaming only: most entries of one micro-batch. Default: no limit.",
    "minPartitions": "At least about so many partitions. Default: one for 32 MiB of a region log.",
    "fetchSize": "Bytes of one request of a task, 4096 to 4194304. Default: 1048576.",
    "failOnDataLoss": "`true` (default): fail if entries were trimmed, or a stream removed, before "
    "they were read.",
    "fieldsFormat": "The column `fields` as `array` (default), `map`, `json`, or `raw`: as "
    "`array`, with names as BINARY.",
    "mode": "A field that does not fit its typed column: `PERMISSIVE` (default) makes it null, "
    "`FAILFAST` fails.",
    "pushFilters": "Batch only: `once` skips ranges that filters exclude, for a DataFrame that one"
    " query uses. Default: `false`.",
    "timeoutSeconds": "How long a task waits for a region that answers and holds its range. "
    "Default: 60.",
    **ACCESS,
}
_SPARK_OWN: Final = frozenset({"path", "paths"})
_STEP_S: Final = 20.0
# More digits than any number that an option can have, and how much of a wrong value is shown.
_DIGITS_MAX: Final = 20
_SHOWN_MAX: Final = 100
_GLOB: Final = frozenset("*?[")
FORMATS: Final = ("array", "map", "json", "raw")
MODES: Final = ("PERMISSIVE", "FAILFAST")


class Endpoint:
    """The client address of a region; `name` is empty if the user gave none."""

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name: Final = name
        self.host: Final = host
        self.port: Final = port

    def __str__(self) -> str:
        return f"{self.name or 'the region'} at {self.host}:{self.port}"


class RegionOptions:
    """The options that source and sink share: regions, password, patience.

    `table` has the name and the meaning of every option, `region_option` is the name of the option
    that says which endpoint comes first. `spark_own` are options that Spark itself understands and
    hands over with the others. Raises OptionError, whose message says what is right.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        table: Mapping[str, str],
        region_option: str,
        spark_own: frozenset[str] = _SPARK_OWN,
    ) -> None:
        self._given: Final = {name.lower(): value for name, value in given.items()}
        self._table: Final = table
        _check_names(given, table, spark_own)
        self.endpoints: Final = self._endpoints(region_option)
        self.timeout_s: Final = float(self._number("timeoutSeconds", 60, 1, 86_400))
        # Longest wait for one step on a socket.
        self.step_s = min(_STEP_S, self.timeout_s)
        self.username: Final = self._text("username", "")
        self.password_file: Final = self._text("passwordFile", "")
        if self.username and not self.password_file:
            raise OptionError("username is given without passwordFile")

    # -- kinds of values

    def _text(self, name: str, default: str) -> str:
        return self._given.get(name.lower(), default)

    def _needed(self, name: str) -> str:
        value = self._text(name, "").strip()
        if not value:
            raise OptionError(f"the option {name} is missing. {self._table[name]}")
        return value

    def _number(self, name: str, default: int, minimum: int, maximum: int) -> int:
        text = self._given.get(name.lower())
        if text is None:
            return default
        digits = text.strip()
        if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
            raise OptionError(f"{name} must be a whole number, not '{text[:_SHOWN_MAX]}'")
        value = int(digits)
        if not minimum <= value <= maximum:
            raise OptionError(f"{name} must be between {minimum} and {maximum}, not {value}")
        return value

    def _flag(self, name: str, default: bool) -> bool:
        text = self._text(name, str(default)).strip().lower()
        if text not in ("true", "false"):
            raise OptionError(f"{name} must be true or false, not '{text}'")
        return text == "true"

    def _choice(self, name: str, choices: tuple[str, ...]) -> str:
        text = self._text(name, choices[0]).strip()
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise OptionError(f"{name} must be one of {', '.join(choices)}, not '{text}'")

    # -- regions

    def _endpoints(self, region_option: str) -> list[Endpoint]:
        """The endpoints, the one that `region_option` names first."""
        found: list[Endpoint] = []
        given = self._needed("endpoints")
        if "@" in given:
            # No message shows any of it: a password may have any character.
            raise OptionError(
                "endpoints has an address with a user or a password before '@', which is not shown "
                "here: write NAME=HOST:PORT, and give username and passwordFile"
            )
        for part in given.split(","):
            name, equals, address = part.strip().rpartition("=")
            if equals and not name:
                raise OptionError(f"endpoints: '{part}' has no name before '='")
            try:
                at = parse_address(address, "endpoints")
            except ConfigError as error:
                raise OptionError(str(error)) from None
            if not at.port:
                raise OptionError(f"endpoints: '{part}' has the port 0; no region answers there")
            found.append(Endpoint(name, at.host, at.port))
        names = [one.name for one in found if one.name]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"endpoints: two addresses have the name {name}")
        wanted = self._text(region_option, "").strip()
        if wanted and wanted not in names:
            known = ", ".join(names) or "none: write NAME=HOST:PORT"
            raise OptionError(
                f"{region_option}: no endpoint has the name {wanted}; there are {known}"
            )
        return sorted(found, key=lambda one: bool(wanted) and one.name != wanted)

    def password(self) -> str:
        """The first line of `passwordFile`; empty without the option."""
        if not self.password_file:
            return ""
        try:
            text = Path(self.password_file).read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise OptionError(
                f"passwordFile: cannot read {self.password_file} here: {error.strerror}"
            ) from None
        password = text.partition("\n")[0].removesuffix("\r")
        if not password:
            raise OptionError(f"passwordFile: the first line of {self.password_file} is empty")
        return password


class SourceOptions(RegionOptions):
    """The options of one source. Raises OptionError, whose message says what is right."""

    def __init__(self, given: Mapping[str, str], is_streaming: bool) -> None:
        super().__init__(given, OPTIONS, "readRegion")
        self._check_use(is_streaming)
        self.streams: Final = [one.strip() for one in self._needed("streams").split(",")]
        if not all(self.streams):
            raise OptionError("streams: an empty name; separate names of streams by commas")
        self.start: Final[Start] = parse_start(
            "startingOffsets", self._text("startingOffsets", "earliest")
        )
        self.end: Final[Start] = parse_start("endingOffsets", self._text("endingOffsets", "latest"))
        self.entries_max: Final = self._number("maxEntriesPerTrigger", 0, 1, (1 << 63) - 2)
        self.partitions_min: Final = self._number("minPartitions", 1, 1, 1_000_000)
        self.fetch_bytes: Final = self._number("fetchSize", 1 << 20, 1 << 12, 4 << 20)
        self.fail_on_loss: Final = self._flag("failOnDataLoss", True)
        self.pushes_filters: Final = self._pushes_filters()
        self.fields_format: Final = self._choice("fieldsFormat", FORMATS)
        self.fails_fast: Final = self._choice("mode", MODES) == "FAILFAST"

    def _pushes_filters(self) -> bool:
        if self._text("pushFilters", "").strip().lower() == "true":
            raise OptionError(
                "pushFilters must be false or once, not 'true': Spark keeps the ranges that the"
                " filters of one query leave, and later queries of the same DataFrame would miss"
                " rows. With once, load a DataFrame for each query"
            )
        return self._choice("pushFilters", ("false", "once")) == "once"

    def _check_use(self, is_streaming: bool) -> None:
        """Refuses options that have no effect in this kind of query."""
        batch_only, streaming_only = ("endingOffsets", "pushFilters"), ("maxEntriesPerTrigger",)
        for name in batch_only if is_streaming else streaming_only:
            if name.lower() in self._given:
                kind = "streaming" if is_streaming else "batch"
                raise OptionError(f"{name} has no effect in a {kind} query; leave it out")
        if not is_streaming and self._given.get("startingoffsets", "").strip() == "latest":
            raise OptionError(
                "startingOffsets: a batch query that starts at latest reads nothing; "
                "give earliest or JSON"
            )

        if not is_streaming and self._given.get("endingoffsets", "").strip() == "earliest":
            raise OptionError(
                "endingOffsets: a batch query that ends at earliest reads nothing; "
                "give latest or JSON"
            )

    def names_stream(self, stream: str) -> bool:
        """Whether the option `streams` names a stream.

        A glob names the streams of sinks only if it begins with their prefix: they are trimmed all
        the time.
        """
        is_of_sink = stream.startswith(SINK_PREFIX)
        return any(
            Glob(name.encode(), False).matches(encoded(stream))
            and (not is_of_sink or name.startswith(SINK_PREFIX))
            if is_glob(name)
            else name == stream
            for name in self.streams
        )


def is_glob(name: str) -> bool:
    """Whether a name in `streams` is a pattern."""
    return any(character in _GLOB for character in name)


def _check_names(
    given: Mapping[str, str], table: Mapping[str, str], spark_own: frozenset[str]
) -> None:
    known = {name.lower(): name for name in table}
    for name in given:
        if name.lower() in known or name.lower() in spark_own:
            continue
        near: Optional[str] = next(iter(difflib.get_close_matches(name.lower(), known, n=1)), None)
        advice = f"; did you mean {known[near]}?" if near else "."
        raise OptionError(
            f"there is no option '{name}'{advice} The options are {', '.join(sorted(table))}"
        )
