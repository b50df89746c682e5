"""The case files of `cases/`, each in RESP2 and RESP3."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential.script import Case, cases, play
from tests.differential.sides import Pair

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_case(case: Case, protocol: int, new_pair: Callable[[int], Pair]) -> None:
    wrong = play(case, new_pair(protocol))
    assert not wrong, "\n".join(wrong)
