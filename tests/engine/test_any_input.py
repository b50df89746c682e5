"""No input of a client raises anything inside a step, and a refused command changes nothing."""

from __future__ import annotations

import os
from typing import Final

import pytest

from anabranch.region.engine.replies import CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command, Handler
from tests.engine.any_input import COMMANDS, Found, History, run

# Commands in all histories together; `python -m tests.engine.any_input` runs as many as wanted.
CASES: Final = int(os.environ.get("ANY_INPUT_CASES", "25000"))


def test_any_input_is_executed_or_refused() -> None:
    answers = run(CASES, seed=0)
    assert {"ERR", "NOGROUP", "EXECABORT", "*", ":", "$", "+"} <= answers.keys()
    if CASES >= 10 * COMMANDS:
        assert answers["ERR"] < answers.total() / 2, "most commands are executed"


def breaks_off(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    raise ValueError("a length that nobody checked")


def adds_and_refuses(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    state.commands[b"XADD"].handler(state, session, [b"XADD", argv[1], b"*", b"f", b"v"])
    raise CommandError("ERR too late")


@pytest.mark.parametrize(
    ("handler", "told"),
    [(breaks_off, "a length that nobody checked"), (adds_and_refuses, "it changed")],
)
def test_a_bug_in_a_command_is_found(handler: Handler[EngineState], told: str) -> None:
    with pytest.raises(Found, match=told):
        for seed in range(10):
            history = History(seed)
            commands = history.place.engine.state.commands
            commands[b"XLEN"] = Command("xlen", 2, "write", handler, "Planted.")
            history.run()
