"""Reports that regions exchange about themselves and about third regions.

They carry vectors for causal stability (S6.2), and the questions and answers of starts (S13.6) and
recoveries (S13.7). A question names the lives that the asker knows. Before the receiver answers, it
drops every message and block of a former life of a region that it has not applied yet.

A question also names the members that the asker calls lost (S13.8). A region answers only once it
calls them lost, too. Otherwise it could answer, and then get effects of the asker from a lost
member, which the asker does not wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Optional


class Heard:
    """The newest known report of one region.

    `vector` is on that region's disk. `clock_ms` is the region's clock at the commit of `vector`
    (S10.2). `life` is the number of its life (S1.3). `counts` is False during its start and in
    recovery: no region then counts `vector` for stability (S13.6). `asks_stable`: a client of that
    region asked for the stable time lately, so every region keeps its clock on disk fresh (S7.7).
    `lost`: the members that the region called lost when it held `vector`. It has taken nothing from
    them since, so `vector` covers all that they ever gave to it (S13.8).

    `read_ms`: what the machine's clock of the region reads, if the region itself makes the report;
    0 if the report is passed on. `ahead`: by how much the clocks of others are ahead of that clock
    at least (ms), as far as their reports showed.
    """

    def __init__(
        self,
        region_id: int,
        life: int,
        counts: bool,
        vector: dict[int, int],
        clock_ms: int,
        asks_stable: bool = False,
        lost: Collection[int] = (),
        read_ms: int = 0,
        ahead: Optional[dict[int, int]] = None,
    ) -> None:
        self.region_id = region_id
        self.life = life
        self.counts = counts
        self.vector = vector
        self.clock_ms = clock_ms
        self.asks_stable = asks_stable
        self.lost = lost
        self.read_ms = read_ms
        self.ahead = ahead or {}


class StartQuestion:
    """Question number `number` of a start.

    `lives`: region_id → life, the asker's own included. `lost`: the members that the asker calls
    lost.
    """

    def __init__(self, number: int, lives: dict[int, int], lost: Collection[int] = ()) -> None:
        self.number = number
        self.lives = lives
        self.lost = lost


class StartAnswer:
    """The answer to a StartQuestion.

    `vector` is on the answerer's disk, `clock_ms` is the clock of the commit of `vector`, or the
    answerer's floor if that is higher (S7.7), and `life` is its life. `collected`: every effect up
    to this vector was on every member's disk, the asker's included, when the answerer collected
    (`Keyspace.collected`). `lives`: the lives of members that the answerer knew when it took
    `vector`. `read_ms`: what the machine's clock of the answerer reads; 0: not known.
    """

    def __init__(
        self,
        number: int,
        life: int,
        vector: dict[int, int],
        clock_ms: int,
        collected: dict[int, int],
        lives: Optional[dict[int, int]] = None,
        read_ms: int = 0,
    ) -> None:
        self.number = number
        self.life = life
        self.vector = vector
        self.clock_ms = clock_ms
        self.collected = collected
        self.lives = lives or {}
        self.read_ms = read_ms

    def with_lives(self, lives: dict[int, int]) -> StartAnswer:
        """The same answer with other lives of members; itself if these are its own."""
        if lives is self.lives:
            return self
        return StartAnswer(
            self.number, self.life, self.vector, self.clock_ms, self.collected, lives, self.read_ms
        )


class RecoveryQuestion:
    """Question number `number` of a region in recovery, asked in its life `life`.

    `recovery` is the life in which the recovery began. `lives` and `lost` are as in a
    `StartQuestion`.
    """

    def __init__(
        self,
        asker: int,
        life: int,
        number: int,
        recovery: int,
        lives: dict[int, int],
        lost: Collection[int] = (),
    ) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.recovery = recovery
        self.lives = lives
        self.lost = lost


class RecoveryAnswer:
    """The answer of `answerer` to one RecoveryQuestion.

    `vector` is on the answerer's disk, `clock_ms` is as in a StartAnswer.
    `recovery` is the life in which the answerer's own recovery began, 0 outside recovery. If it
    `has_salvage`, it may soon hold effects that `vector` lacks (S13.7). `lives` are as in a
    StartAnswer.
    """

    def __init__(
        self,
        asker: int,
        life: int,
        number: int,
        answerer: int,
        vector: dict[int, int],
        recovery: int,
        clock_ms: int,
        has_salvage: bool = False,
        lives: Optional[dict[int, int]] = None,
    ) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.answerer = answerer
        self.vector = vector
        self.recovery = recovery
        self.clock_ms = clock_ms
        self.has_salvage = has_salvage
        self.lives = lives or {}


class Gossip:
    """The reports, questions and answers that a region passes on in one message."""

    def __init__(
        self, heard: list[Heard], questions: list[RecoveryQuestion], answers: list[RecoveryAnswer]
    ) -> None:
        self.heard = heard
        self.questions = questions
        self.answers = answers


class PromisedAnswer:
    """An answer that waits until the effect log is on disk up to `position` (S13.7)."""

    def __init__(self, answer: RecoveryAnswer, position: int) -> None:
        self.answer = answer
        self.position = position
