"""The scenario runner, on a fake cluster that replies from a script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from anabranch.cluster.errors import ClusterError
from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.sim.plan import Fault, Link
from anabranch.sim.scenario.cluster import Ticket
from anabranch.sim.scenario.expectation import Bindings, ShownRow, matches
from anabranch.sim.scenario.model import Scenario
from anabranch.sim.scenario.parser import parse
from anabranch.sim.scenario.runner import run_scenario
from anabranch.sim.scenario.shape import shape


class Scripted:
    """A fake cluster.

    `replies` holds, for each (region, command line), the replies to give one after the other. A
    reply b"never" is not given. `vectors` holds the results of successive calls of `vectors`; after
    them, and without them, all regions have equal vectors. `log` holds the calls, `found` the
    findings of the judges.
    """

    def __init__(
        self,
        replies: dict[tuple[int, str], list[DecodedReply]],
        vectors: list[dict[int, dict[int, int]]] | None = None,
    ) -> None:
        self.replies = replies
        self.later_vectors = vectors or []
        self.log: list[str] = []
        self.open: set[Link] = set()
        self.out: list[tuple[Ticket, DecodedReply]] = []
        self.down: set[int] = set()
        self.found: list[tuple[str, str]] = []

    def prepare(self, scenario: Scenario) -> None:
        self.log.append("prepare")

    def post(
        self, region: int, client: int, commands: Sequence[Sequence[bytes]], at_once: bool
    ) -> list[Ticket]:
        return [self._post(region, client, argv) for argv in commands]

    def _post(self, region: int, client: int, argv: Sequence[bytes]) -> Ticket:
        line = b" ".join(argv).decode()
        self.log.append(f"{region}: {line}" if not client else f"{region}/{client}: {line}")
        if (region, line) not in self.replies:
            raise ClusterError(f"no answer to {line}")
        ticket = Ticket()
        if region in self.down:
            ticket.refuse()
        else:
            self.out.append((ticket, self.replies[region, line].pop(0)))
        return ticket

    def settle(self, ticket: Ticket) -> None:
        for one, reply in self.out:
            if one is ticket and reply != b"never":
                one.computed(reply)
                one.answered()

    def is_blocked(self, ticket: Ticket) -> bool:
        return True

    def gather(self, wanted: Sequence[Ticket]) -> None:
        for ticket in wanted:
            self.log.append("awaits")
            self.settle(ticket)

    def hang_up(self, region: int, client: int) -> None:
        self.log.append(f"{region}/{client} hangs up")
        for ticket, _ in self.out:
            ticket.lose()

    def strike(self, fault: Fault) -> None:
        self.log.append(f"{fault.kind} {fault.regions} {fault.duration_ms} {fault.draw}")

    def open_links(self, links: Iterable[Link], waits: bool) -> None:
        self.open |= set(links)
        self.log.append(f"open {sorted(self.open)}")

    def close_links(self, links: Iterable[Link]) -> None:
        self.open -= set(links)

    def sync(self, regions: Sequence[int]) -> bool:
        self.log.append(f"sync {list(regions)}")
        return True

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        found = (
            self.later_vectors.pop(0) if self.later_vectors else {1: {1: 1}, 2: {1: 1}, 3: {1: 1}}
        )
        return {region: found[region] for region in regions}

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        return {region: {0: "up"} for region in regions}

    def sleep(self, duration_ms: int) -> None:
        self.log.append(f"sleep {duration_ms}")

    def until(self, at_ms: int) -> None:
        self.log.append(f"until {at_ms}")

    def conclude(self, judged: bool) -> list[tuple[str, str]]:
        self.log.append(f"judged {judged}")
        return self.found


def scenario_of(*rows: str, regions: int = 2, above: str = "") -> Scenario:
    """The scenario of these rows, for the first `regions` regions."""
    heads = "| Time |" + "".join(f" Region {region + 1} |" for region in range(regions))
    return parse(
        "\n".join([*above.splitlines(), heads, "|" + " --- |" * (regions + 1), *rows]), "f.md"
    )


def test_generated_ids_bind_at_their_first_use_and_are_put_into_commands() -> None:
    cluster = Scripted(
        {
            (1, "XADD m * a 1"): [b"700-1"],
            (2, "XADD m * a 1"): [b"701-2"],
            (1, "XRANGE m - +"): [[[b"700-1", [b"a", b"1"]], [b"701-2", [b"a", b"1"]]]],
            (1, "XDEL m 701-2"): [1],
            (1, "XRANGE m (700-1 +"): [[]],
        }
    )
    rows = [
        "| t1 | `XADD m * a 1` | `XADD m * a 1` |",
        "| t2 | `XRANGE m - +` → [1589-1, 1590-2] | |",
        "| t3 | `XDEL m 1590-2` → 1 `XRANGE m (1589-1 +` → [] | |",
    ]
    assert run_scenario(scenario_of(*rows), cluster) == []


def test_an_id_that_does_not_fit_its_region_is_a_failure() -> None:
    cluster = Scripted({(1, "XADD m * a 1"): [b"700-2"]})
    (mismatch,) = run_scenario(scenario_of("| t1 | `XADD m * a 1` | |"), cluster)
    assert "not 1 modulo 1000" in mismatch.got


def test_a_written_id_binds_to_no_other_region_and_to_one_id_only() -> None:
    bindings = Bindings()
    assert (
        bindings.generate(1, "700-1") is None
        and bindings.generate(2, "700-2") is None
        and bindings.generate(1, "700-1001") is None
    )
    assert not bindings.same("5-1", "700-2")
    assert bindings.same("5-1", "700-1") and bindings.same("5-1", "700-1")
    assert not bindings.same("5-1", "700-1001") and not bindings.same("6-1", "700-1")
    assert bindings.same("6-1", "700-1001")
    assert not bindings.same("7-1", "800-1"), "no region generated 800-1"


def test_a_failed_comparison_binds_nothing() -> None:
    bindings = Bindings()
    bindings.generate(1, "700-1")
    expected = scenario_of("| t | `XRANGE m - +` → [5-1, 9-9] | |").calls()[0].expected
    assert expected is not None and not matches(
        expected, [ShownRow("700-1"), ShownRow("8-8")], bindings
    )
    assert bindings.bound == {}


def test_a_mismatch_tells_everything() -> None:
    cluster = Scripted({(2, "XLEN x"): [3]})
    (mismatch,) = run_scenario(scenario_of("| t1 | | `XLEN x` → 2 |"), cluster)
    assert str(mismatch) == "f.md:3: t1, eu: XLEN x\n    expected 2\n    got      3"


def test_an_error_that_nobody_expects_is_a_mismatch() -> None:
    cluster = Scripted(
        {(1, "XADD x 1 a b"): [ErrorText("ERR no")], (1, "XLEN x"): [ErrorText("NOGROUP x")]}
    )
    rows = ["| t1 | `XADD x 1 a b` `XLEN x` → (error) NOGROUP | |"]
    assert [mismatch.got for mismatch in run_scenario(scenario_of(*rows), cluster)] == [
        "(error) ERR no"
    ]


@pytest.mark.parametrize(
    ("argv", "reply", "written", "same"),
    [
        (
            "XREAD STREAMS x y 0 0",
            [[b"x", [[b"1-1", [b"a", b"b"]]]], [b"y", [[b"2-1", [b"a", b"b"]]]]],
            "[1-1, 2-1]",
            True,
        ),
        ("XREADGROUP GROUP g a STREAMS x >", None, "[]", True),
        ("XREADGROUP GROUP g a STREAMS x 0", [[b"x", [[b"1-1", None]]]], "[1-1]", True),
        ("XCLAIM x g a 0 1-1 JUSTID", [b"1-1"], "[1-1]", True),
        ("XAUTOCLAIM x g a 0 0", [b"0-0", [[b"1-1", [b"a", b"b"]]], []], "[1-1 a=b]", True),
        ("XAUTOCLAIM x g a 0 0", [b"0-0", [[b"1-1", [b"a", b"b"]]], []], "[1-1 a=c]", False),
        (
            "XPENDING x g - + 10",
            [[b"1-1", b"alice", 5, 2]],
            "[1-1 consumer=alice deliveries=2]",
            True,
        ),
        (
            "XPENDING x g",
            [1, b"1-1", b"1-1", [[b"alice", b"1"]]],
            "[1, 1-1, 1-1, [[alice, 1]]]",
            True,
        ),
        (
            "XINFO GROUPS x",
            [[b"name", b"g", b"pending", 0, b"lag", None]],
            "[g pending=0 lag=nil]",
            True,
        ),
        ("XINFO GROUPS x", ErrorText("ERR no such key"), "[]", True),
        ("XINFO CONSUMERS x g", ErrorText("NOGROUP No such consumer group"), "[]", False),
        (
            "XINFO STREAM x",
            [b"length", 2, b"last-generated-id", b"1-1", b"first-entry", [b"1-1", [b"a", b"b"]]],
            "[length=2]",
            True,
        ),
        ("XINFO STREAM x", [b"length", 2], "[length=3]", False),
        ("KEYS *", [b"y", b"x"], "{x, y}", True),
        ("KEYS *", [b"y", b"x"], "[x, y]", False),
        ("KEYS *", [b"y", b"x", b"x"], "{x, y}", False),
        ("TTL x", 950, "900..1000", True),
        ("GET x", b"3", "3", True),
        ("EXISTS x", 0, "nil", False),
        ("XRANGE x - +", None, "nil", True),
    ],
)
def test_replies_are_compared_in_their_shape(
    argv: str, reply: DecodedReply, written: str, same: bool
) -> None:
    expected = scenario_of(f"| t | `PING` → {written} | |").calls()[0].expected
    assert expected is not None
    assert matches(expected, shape(argv.encode().split(), reply), Bindings()) is same


def test_transactions_compare_each_reply_in_its_shape() -> None:
    cluster = Scripted(
        {
            (1, "MULTI"): [b"OK"],
            (1, "XADD m * a 1"): [b"QUEUED"],
            (1, "XRANGE m - +"): [b"QUEUED"],
            (1, "EXEC"): [[b"700-1", [[b"700-1", [b"a", b"1"]]]]],
        }
    )
    rows = [
        "| t1 | `MULTI` → OK `XADD m * a 1` → QUEUED `XRANGE m - +` → QUEUED | |",
        "| t2 | `EXEC` → [5-1, [5-1]] | |",
    ]
    assert run_scenario(scenario_of(*rows), cluster) == []


def test_a_sync_row_runs_until_nothing_moves_and_counts_effects() -> None:
    before = {1: {1: 5}, 2: {1: 2}}
    moving = {1: {1: 5}, 2: {1: 5}}
    rest = {1: {1: 5, 2: 1}, 2: {1: 5, 2: 1}}
    cluster = Scripted({}, [before, moving, rest, rest])
    mismatches = run_scenario(
        scenario_of("| t1 | — Sync — effects us=3 eu=2 | — Sync — |"), cluster
    )
    assert [(one.expected, one.got) for one in mismatches] == [("effects eu=2", "effects eu=1")]
    assert cluster.log == [
        "prepare",
        "open [(1, 2), (2, 1)]",
        "sync [1, 2]",
        "sync [1, 2]",
        "sync [1, 2]",
        "judged False",
    ]
    assert not cluster.open


def test_a_cut_link_stays_closed_until_healed() -> None:
    rows = [
        "| t1 | — Cut — | | — Cut — |",
        "| t2 | — Sync — | — Sync — | — Sync — |",
        "| t3 | — Heal — | | — Heal — |",
        "| t4 | — Sync — | | — Sync — |",
    ]
    cluster = Scripted({})
    assert run_scenario(scenario_of(*rows, regions=3), cluster) == []
    assert [line for line in cluster.log if line.startswith("open")] == [
        "open [(1, 2), (2, 1), (2, 3), (3, 2)]",
        "open [(1, 3), (3, 1)]",
    ]


def test_a_region_cut_from_all_need_not_level() -> None:
    rows = [
        "| t1 | — Cut — | — Cut — | |",
        "| t2 | — Cut — | | — Cut — |",
        "| t3 | — Sync — | — Sync — | — Sync — |",
    ]
    vectors = {1: {1: 9}, 2: {1: 1}, 3: {1: 1}}
    cluster = Scripted({}, [vectors] * 3)
    assert run_scenario(scenario_of(*rows, regions=3), cluster) == []
    assert "sync [2, 3]" in cluster.log


def test_regions_that_never_level_end_the_run() -> None:
    cluster = Scripted({}, [{1: {1: n}, 2: {1: 0}} for n in range(100)])
    (mismatch,) = run_scenario(
        scenario_of("| t1 | — Sync — | — Sync — |", "| t2 | `PING` | |"), cluster
    )
    assert (
        "did not level" in mismatch.got and "links {0: 'up'}" in mismatch.got and mismatch.line == 3
    )


def test_blocked_commands() -> None:
    rows = ["| t1 | `XREAD BLOCK 0 STREAMS x $` → (blocked) | |", "| t2 | → [1-1] | |"]
    cluster = Scripted({(1, "XREAD BLOCK 0 STREAMS x $"): [[[b"x", [[b"1-1", [b"a", b"b"]]]]]]})
    assert run_scenario(scenario_of(*rows), cluster) == []


def test_a_row_with_a_time_waits_for_no_answer_and_binds_what_comes() -> None:
    cluster = Scripted(
        {
            (1, "XADD m * a 1"): [b"700-1"],
            (2, "XDEL m 700-1"): [1],
            (2, "XLEN m"): [ErrorText("ERR no")],
        }
    )
    rows = ["| 10 ms | 3: `XADD m * a 1` → 5-1 | |", "| 20 ms | | 4: `XDEL m 5-1` → 1 `XLEN m` |"]
    assert run_scenario(scenario_of(*rows), cluster) == []
    assert cluster.log == [
        "prepare",
        "until 10",
        "1/3: XADD m * a 1",
        "until 20",
        "awaits",
        "2/4: XDEL m 700-1",
        "2/4: XLEN m",
        "judged False",
    ]


def test_what_never_comes_differs_only_where_something_is_expected() -> None:
    replies: dict[tuple[int, str], list[DecodedReply]] = {
        (1, "XREAD BLOCK 0 STREAMS x $"): [b"never"],
        (2, "XREAD BLOCK 0 STREAMS x $"): [b"never"],
    }
    rows = ["| 10 ms | `XREAD BLOCK 0 STREAMS x $` | `XREAD BLOCK 0 STREAMS x $` → [1-1] |"]
    (mismatch,) = run_scenario(scenario_of(*rows), Scripted(replies))
    assert (mismatch.region, mismatch.got) == ("eu", "no answer")


def test_a_lost_answer_need_not_be_right_and_a_refused_command_must() -> None:
    cluster = Scripted({(1, "XADD m * a 1"): [b"700-1"], (2, "XLEN m"): [1]})
    cluster.down = {2}
    rows = ["| 10 ms | `XADD m * a 1` → 5-2 | |", "| 20 ms | hang up | `XLEN m` → 1 |"]
    (mismatch,) = run_scenario(scenario_of(*rows), cluster)
    assert mismatch.line == 4 and "refused" in mismatch.got
    assert "1/0 hangs up" in cluster.log


def test_faults_are_handed_on_and_what_judges_find_differs() -> None:
    cluster = Scripted({})
    cluster.found = [("digests", "they differ")]
    rows = [
        "| 10 ms | — Kill 300 ms — | _— Fault: one-way cut to us 1 s draw 7 —_ |",
        "| t2 | — Cut — | — Cut — |",
        "| t3 | — Heal — | — Heal — |",
    ]
    above = "---\nlinks: open\njudges: all\nuntil: 400 ms\n---"
    (mismatch,) = run_scenario(scenario_of(*rows, above=above), cluster)
    assert (
        str(mismatch)
        == "f.md: the end, digests\n    expected no violation\n    got      they differ"
    )
    assert cluster.log == [
        "prepare",
        "until 10",
        "kill (1,) 300 0",
        "one-way cut (2, 1) 1000 7",
        "open [(1, 2), (2, 1)]",
        "until 400",
        "judged True",
    ]


def test_a_sync_row_leaves_open_links_as_they_are() -> None:
    cluster = Scripted({}, [{1: {1: 1}, 2: {1: 1}}] * 3)
    assert (
        run_scenario(scenario_of("| t1 | — Sync — | — Sync — |", above="links: open"), cluster)
        == []
    )
    assert not any(line.startswith("open") for line in cluster.log)
