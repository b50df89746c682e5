"""Facts of `anabranch explain` and `whatif` as their JSON has them, and their sentences."""

from __future__ import annotations

import json
from typing import Any, Final

from anabranch.study.history.as_json import as_json
from anabranch.study.history.explanation import Explanation
from anabranch.study.history.sentences import ExplanationText
from anabranch.study.whatif.answer import Answer
from anabranch.study.whatif.as_json import as_json as answer_as_json
from anabranch.study.whatif.sentences import AnswerText


class Facts(dict[str, Any]):
    """The facts by name; the region_ids in vectors are numbers."""

    def __init__(self, facts: object, lines: list[str]) -> None:
        super().__init__(json.loads(json.dumps(facts, default=as_json), object_hook=_numbered))
        self.lines: Final = lines


def _numbered(pairs: dict[str, Any]) -> dict[Any, Any]:
    return {int(name) if name.isdigit() else name: value for name, value in pairs.items()}


def facts_of(explanation: Explanation) -> Facts:
    """The facts of an explanation."""
    return Facts(explanation, ExplanationText(explanation).lines())


def facts_of_answer(answer: Answer) -> Facts:
    """The facts of an answer."""
    return Facts(answer_as_json(answer), AnswerText(answer).lines())
