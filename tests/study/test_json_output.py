"""The JSON of `explain`, `log` and `whatif` on a fixed history stays as it was, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.cli.client import text
from anabranch.cli.explain import log_as_json
from anabranch.region.engine.replies import Reply, ReplyLater
from anabranch.study.history.as_json import as_json
from anabranch.study.history.explanation import explain
from anabranch.study.replies.histories import ExplainedHistory, KeyHistory
from anabranch.study.whatif.answer import answer
from anabranch.study.whatif.as_json import as_json as answer_as_json
from anabranch.study.whatif.asking import Bounds, Words, survey
from tests.storage.region import late_reply
from tests.study.test_explanation import NAMES, Cluster
from tests.support.engines import execute
from tests.support.replies import plain

EXPECTED = Path(__file__).parent / "json_output"
# A key, a group and a consumer whose names need escapes.
KEY, GROUP, CONSUMER = "k\\\x01é", "g\n", "c\t"


class Asked(Cluster):
    """Three regions with a fixed history, and their replies with bytes, as clients get them."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = [self.call("us", "XADD", KEY, "*", "f", f"v\r{number}") for number in range(6)]
        self.call("us", "XGROUP", "CREATE", KEY, GROUP, "0")
        self.call("us", "XGROUP", "CREATE", KEY, "later", "$")
        self.sync("us", "eu")
        self.sync("us", "ap")
        self.call("eu", "XADD", KEY, "IDMP", "p\x02", "i", "*", "f", "w")
        self.call("us", "XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", "4", "STREAMS", KEY, ">")
        self.call("us", "XACK", KEY, GROUP, *self.ids[:2])
        self.call("us", "XCLAIM", KEY, GROUP, "other", "0", self.ids[2])
        self.tick("us")
        self.call("ap", "XDEL", KEY, self.ids[3])
        self.call("ap", "XTRIM", KEY, "MAXLEN", "=", "3")
        self.call("ap", "XGROUP", "DESTROY", KEY, "later")
        self.call("ap", "PEXPIREAT", KEY, "2000000")
        self.call("ap", "PERSIST", KEY)
        self.sync("ap", "us")
        self.call("us", "XGROUP", "SETID", KEY, GROUP, "0")
        self.call("us", "XGROUP", "DELCONSUMER", KEY, GROUP, "other")
        self.call("us", "XSETID", KEY, "5000000-0")
        self.call("us", "XCFGSET", KEY, "IDMP-DURATION", "60", "IDMP-MAXSIZE", "10")
        self.call("eu", "XADD", "other", "*", "f", "v")
        self.call("eu", "RENAME", "other", KEY)
        self.call("eu", "XGROUP", "CREATE", KEY, GROUP, "$")
        self.call("eu", "PEXPIREAT", KEY, "3000000")
        self.sync("us", "ap")

    def raw(self, name: str, *words: bytes | str | int) -> Any:
        """The reply to a command, with bytes."""
        region = self.regions[name]
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply: Reply = execute(region.engine, region.session, argv, self.now_ms(name))
        region.commit_all()
        return plain(late_reply(region) if isinstance(reply, ReplyLater) else reply)

    def ask(self, region: int, commands: Sequence[Words]) -> list[Any]:
        """The replies of a region, as `anabranch whatif` asks."""
        return [self._told(NAMES[region], words) for words in commands]

    def _told(self, name: str, words: Words) -> Any:
        if words == ("CRDT.VECTOR",):
            vector = self.regions[name].engine.disk_vector
            return [number for pair in vector.items() for number in pair]
        return self.raw(name, *words)


def check(name: str, facts: Any) -> None:
    """The JSON of the facts is that of the file."""
    path = EXPECTED / f"{name}.json"
    assert json.dumps(facts, indent=1, default=as_json) + "\n" == path.read_text("utf-8")


def test_explanations() -> None:
    cluster = Asked()
    for asked, entry_id in (("us", ""), ("us", cluster.ids[3]), ("eu", cluster.ids[2])):
        words = ["CRDT.EXPLAIN", KEY, *([entry_id] if entry_id else [])]
        histories = {name: ExplainedHistory(cluster.raw(name, *words)) for name in ("us", "eu")}
        others = [one for name, one in histories.items() if name != asked]
        facts = explain(histories[asked], others, ["ap"], NAMES)
        check(f"explain_{asked}_{entry_id or 'key'}", facts)


def test_logs() -> None:
    cluster = Asked()
    for name in NAMES.values():
        reply = cluster.raw(name, "CRDT.HISTORY", KEY)
        facts = log_as_json(KeyHistory(reply), text(reply)["events"], NAMES)
        check(f"log_{name}", facts)


def test_what_if() -> None:
    cluster = Asked()
    for lost, name in NAMES.items():
        others = [one for one in NAMES if one != lost]
        found = survey(cluster.ask, lost, True, others, Bounds())
        check(f"whatif_{name}", answer_as_json(answer(found, others, NAMES, 10)))
