"""What regions tell each other about each other.

Vectors for causal stability (S6.2), questions and answers of starts (S13.6) and of recoveries (S13.7).
A question names the lives that the asker knows: before it is answered, all that came from a former
life of a region and is not applied yet is dropped.
"""

from __future__ import annotations


class Heard:
    """The newest that is known of one region.

    `vector` is what that region has on disk, `clock_ms` the clock of the commit that it speaks of
    (S10.2), `life` the number of its life (S1.3). `counts` is False before its start is over and in
    recovery: then it counts for stability with nobody (S13.6).
    """

    def __init__(
        self, region_id: int, life: int, counts: bool, vector: dict[int, int], clock_ms: int
    ) -> None:
        self.region_id = region_id
        self.life = life
        self.counts = counts
        self.vector = vector
        self.clock_ms = clock_ms


class StartQuestion:
    """Asking `number` of a start. `lives`: region_id → life, the asker's own included."""

    def __init__(self, number: int, lives: dict[int, int]) -> None:
        self.number = number
        self.lives = lives


class StartAnswer:
    """What the answerer holds on disk, its life, and the clock of the commit of `vector`, in ms.

    `collected`: all up to there was on every member's disk, the asker's included, when the answerer
    collected for that (`Keyspace.collected`).
    """

    def __init__(
        self,
        number: int,
        life: int,
        vector: dict[int, int],
        clock_ms: int,
        collected: dict[int, int],
    ) -> None:
        self.number = number
        self.life = life
        self.vector = vector
        self.clock_ms = clock_ms
        self.collected = collected


class RecoveryQuestion:
    """Asking `number` of a region in recovery, in its life `life`.

    `recovery` is the life in which the recovery began; `lives` as in `StartQuestion`.
    """

    def __init__(
        self, asker: int, life: int, number: int, recovery: int, lives: dict[int, int]
    ) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.recovery = recovery
        self.lives = lives


class RecoveryAnswer:
    """What `answerer` holds on disk, said to one asking, and the clock of the commit of `vector`, in ms.

    `recovery`: the life in which its own recovery began, 0 outside one.
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
    ) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.answerer = answerer
        self.vector = vector
        self.recovery = recovery
        self.clock_ms = clock_ms


class Gossip:
    """One message's worth of what a region passes on."""

    def __init__(
        self, heard: list[Heard], questions: list[RecoveryQuestion], answers: list[RecoveryAnswer]
    ) -> None:
        self.heard = heard
        self.questions = questions
        self.answers = answers


class PromisedAnswer:
    """An answer that waits until the log is on disk up to `position` (S13.7)."""

    def __init__(self, answer: RecoveryAnswer, position: int) -> None:
        self.answer = answer
        self.position = position
