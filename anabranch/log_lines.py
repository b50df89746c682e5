"""The lines of a log on stderr: text for people, or one JSON object each for programs.

    {"time": "2026-05-17T09:30:00.123Z", "level": "INFO", "logger": "anabranch.region",
     "region": "us", "event": "link_up", "peer": "eu", "life": 7, "text": "the link from eu is up"}

A line of an event has its name and its fields (docs/operations-watch.md); other lines have neither.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Optional

from anabranch.sync.session.events import LoggedEvent

FORMATS: Final = ("text", "json")


class JsonLines(logging.Formatter):
    """Makes a JSON object of each record. `region` is the name of the region, if one logs."""

    def __init__(self, region: Optional[str]) -> None:
        super().__init__()
        self._region: Final = region

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
        }
        if self._region is not None:
            line["region"] = self._region
        event = record.__dict__.get("event")
        if isinstance(event, LoggedEvent):
            line["event"] = event.name
            for name, value in event.fields.items():
                line.setdefault(name, value if isinstance(value, int) else str(value))
            line["text"] = event.text
        else:
            line["text"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(format_name: str, region: Optional[str], level: int = logging.INFO) -> None:
    """Sends all lines to stderr, in one of `FORMATS`. `region`: see `JsonLines`."""
    handler = logging.StreamHandler(sys.stderr)
    if format_name == "json":
        handler.setFormatter(JsonLines(region))
    else:
        shown = "" if region is None else f"{region} "
        handler.setFormatter(
            logging.Formatter(f"%(asctime)s {shown}%(levelname)s %(name)s: %(message)s")
        )
    logging.basicConfig(level=level, handlers=[handler])
