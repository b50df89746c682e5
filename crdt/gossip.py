"""What regions pass on about each other: vectors for causal stability (S6.2), questions and answers of recoveries (S13.7)."""

from __future__ import annotations


class Heard:
    """The newest that is known of one region.

    `vector` is what that region has on disk, `clock_ms` the clock of the commit that it speaks of (S10.2), `life` the number of
    its life (S1.3). `counts` is False before its start is over and in recovery: then it counts for stability with nobody (S13.6).
    """

    def __init__(
        self, region_id: int, life: int, counts: bool, vector: dict[int, int], clock_ms: int
    ) -> None:
        self.region_id = region_id
        self.life = life
        self.counts = counts
        self.vector = vector
        self.clock_ms = clock_ms


class Question:
    """One asking of a region in recovery: asking `number` of its life `life`; `recovery` is the life in which the recovery began."""

    def __init__(self, asker: int, life: int, number: int, recovery: int) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.recovery = recovery


class Answer:
    """What `answerer` holds on disk, said to one asking; `recovery`: the life in which its own recovery began, 0 outside one."""

    def __init__(
        self,
        asker: int,
        life: int,
        number: int,
        answerer: int,
        vector: dict[int, int],
        recovery: int,
    ) -> None:
        self.asker = asker
        self.life = life
        self.number = number
        self.answerer = answerer
        self.vector = vector
        self.recovery = recovery


class Gossip:
    """One message's worth of what a region passes on."""

    def __init__(
        self, heard: list[Heard], questions: list[Question], answers: list[Answer]
    ) -> None:
        self.heard = heard
        self.questions = questions
        self.answers = answers


class PromisedAnswer:
    """An answer that waits for the disk: whoever answers first commits all it has applied (S13.7)."""

    def __init__(
        self, question: Question, vector: dict[int, int], recovery: int, position: int
    ) -> None:
        self.question = question
        self.vector = vector
        self.recovery = recovery  # the life in which this region's own recovery began, if it was in one when it took the vector
        self.position = position
