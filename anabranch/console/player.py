"""The player of scenarios: a scenario file step by step, with the drawing of the run up to each.

For each step the simulator runs the file anew, up to that step. So a drawing shows what was so at
that moment: an entry is struck through only once it is removed. Runs need the extra ``sim``.

The files are those that come with anabranch, and those that readers open in the page. The latter
are kept in memory, the newest ones only.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from anabranch.console.app import BadRequest, Console, ReadOnly, answers, body_of, number_in
from anabranch.console.view import JsonObject

if TYPE_CHECKING:
    from anabranch.sim.scenario.model import Scenario, Step

CHARACTERS_MAX: Final = 100_000
STEPS_MAX: Final = 200
# Virtual time of a file. The simulator takes some seconds for it, in which no other file is played.
TIME_MS_MAX: Final = 60_000
_NAME_CHARACTERS: Final = 80
_OPENED_MAX: Final = 8
_FRAMES_MAX: Final = 64
_COMMIT_MS: Final = 20
# The drawing is an image. Its style sheet stands in it, and it can do nothing else.
_IMAGE: Final = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Frame:
    """The run up to one step. `problem` is the reason if there is no drawing."""

    drawing: str
    words: str
    problem: str = ""


class File:
    """A scenario file. `ends` are the numbers of steps up to the end of each row of the table."""

    def __init__(self, name: str, text: str, scenario: Scenario) -> None:
        self.name: Final = name
        self.scenario: Final = scenario
        self.about: Final = list(_prose(text))
        self._notes: Final = dict(_notes(text))
        steps = scenario.steps
        self.ends: Final = [
            number
            for number in range(1, len(steps) + 1)
            if number == len(steps) or steps[number].time != steps[number - 1].time
        ]

    def facts(self) -> JsonObject:
        """The file for the page."""
        return {
            "name": self.name,
            "title": self.scenario.title,
            "about": self.about,
            "steps": [self._row(begin, end) for begin, end in self._rows()],
        }

    def _rows(self) -> list[tuple[int, int]]:
        return list(zip([0, *self.ends], self.ends, strict=False))

    def _row(self, begin: int, end: int) -> JsonObject:
        steps = self.scenario.steps[begin:end]
        notes = dict.fromkeys(self._notes.get(step.line, "") for step in steps)
        return {
            "time": steps[0].time,
            "does": [_words(self.scenario, step) for step in steps],
            "note": " ".join(note for note in notes if note),
        }

    @cached_property
    def failures(self) -> list[str]:
        """The replies of the whole run that differ from the file."""
        from anabranch.sim.scenario.virtual import run_virtually

        mismatches, _ = run_virtually(self.scenario)
        return [str(one) for one in mismatches]

    def frame(self, number: int) -> Frame:
        """The run up to the end of row `number`, from 1."""
        from anabranch.sim.scenario.drawing import run_recorded
        from anabranch.study.diagram import draw
        from anabranch.study.diagram.narrowing import TooManyEvents
        from anabranch.study.diagram.story import summary

        timeline, mismatches, _ = run_recorded(self._up_to(number))
        if timeline is None:
            return Frame("", "", str(mismatches[0]))
        try:
            return Frame(draw(timeline), summary(timeline))
        except TooManyEvents as error:
            return Frame("", "", str(error))

    def _up_to(self, number: int) -> Scenario:
        """The scenario up to the end of a row. Only the whole one is judged at its end."""
        from anabranch.sim.scenario.model import Call, Wait

        if number == len(self.ends):
            return self.scenario
        # The answer to a command that waits comes in a later row.
        steps = [
            replace(step, expected=None) if isinstance(step, Call) and step.at_once else step
            for step in self.scenario.steps[: self.ends[number - 1]]
        ]
        # A drawing knows an effect once it is on disk.
        steps.append(Wait(steps[-1].line, steps[-1].time, _COMMIT_MS))
        return replace(self.scenario, steps=tuple(steps), judged=False, until_ms=0)


def opened(name: str, text: str) -> File:
    """A file from its text. Raises BadRequest."""
    from anabranch.sim.scenario.model import ScenarioError
    from anabranch.sim.scenario.parser import parse

    try:
        scenario = parse(text, name)
    except ScenarioError as error:
        raise BadRequest(str(error)) from None
    if len(scenario.steps) > STEPS_MAX:
        raise BadRequest(f"{name} has more than {STEPS_MAX} steps")
    if scenario.waits_ms() > TIME_MS_MAX:
        waits_ms = scenario.waits_ms()
        raise BadRequest(
            f"{name} waits {waits_ms} ms in all; the player takes {TIME_MS_MAX} at most"
        )
    return File(name, text, replace(scenario, time_ms_max=TIME_MS_MAX))


def own_files() -> dict[str, File]:
    """The files that come with anabranch, by name."""
    from anabranch import sim

    folders = [Path(path) / folder for path in sim.__path__ for folder in ("scenarios", "stories")]
    paths = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    # The first conflicts to look at have names of their own.
    paths.sort(key=lambda path: not path.stem.startswith("seed-"))
    return {
        path.stem: opened(path.stem, path.read_text("utf-8"))
        for path in paths
        if path.stem != "README"
    }


class Player:
    """The files, and the frames that were made last: an `Extension` of the console."""

    def __init__(self) -> None:
        self._own: dict[str, File] = {}
        self._opened: Final[OrderedDict[str, File]] = OrderedDict()
        self._frames: Final[OrderedDict[tuple[str, int], Frame]] = OrderedDict()
        # One run at a time, beside the event loop.
        self._turn: Final = asyncio.Lock()
        self._allow_write = False

    def routes(self, console: Console) -> list[BaseRoute]:
        """See `Extension`."""
        self._allow_write = console.allow_write
        return [
            Route("/api/scenarios", answers(self.names)),
            Route("/api/scenario", answers(self.file), methods=["GET"]),
            Route("/api/scenario", answers(self.open), methods=["POST"]),
            Route("/api/scenario/frame", answers(self.frame)),
            Route("/api/scenario/drawing", answers(self.drawing)),
        ]

    async def names(self, request: Request) -> Response:
        """The files, by title."""
        if find_spec("apsw") is None:
            problem = (
                "The player runs scenarios in the simulator, which needs apsw: pip install"
                " 'anabranch[sim]'."
            )
            return JSONResponse({"problem": problem, "files": []})
        files = [*reversed(self._opened.values()), *(await self._known()).values()]
        listed = [{"name": one.name, "title": one.scenario.title} for one in files]
        return JSONResponse({"problem": "", "files": listed})

    async def file(self, request: Request) -> Response:
        """One file."""
        return JSONResponse((await self._file(request)).facts())

    async def open(self, request: Request) -> Response:
        """Takes a file of the reader, and runs it as a whole."""
        if not self._allow_write:
            raise ReadOnly("this console only reads; start it with --allow-write to open files")
        body = await body_of(request)
        name, text = body.get("name"), body.get("text")
        if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS:
            raise BadRequest(f"name must be a text of at most {_NAME_CHARACTERS} characters")
        if not isinstance(text, str) or len(text) > CHARACTERS_MAX:
            raise BadRequest(f"text must be a text of at most {CHARACTERS_MAX} characters")
        if name in await self._known():
            name += " (opened)"
        found = opened(name, text)
        failures = await self._run(lambda: found.failures)
        self._opened[name] = found
        self._opened.move_to_end(name)
        for key in [key for key in self._frames if key[0] == name]:
            del self._frames[key]
        while len(self._opened) > _OPENED_MAX:
            self._opened.popitem(last=False)
        return JSONResponse({**found.facts(), "failures": failures})

    async def frame(self, request: Request) -> Response:
        """A step in words."""
        frame = await self._frame(request)
        return JSONResponse({"words": frame.words, "problem": frame.problem})

    async def drawing(self, request: Request) -> Response:
        """A step as a drawing."""
        frame = await self._frame(request)
        if frame.problem:
            raise BadRequest(frame.problem)
        return Response(frame.drawing, media_type="image/svg+xml", headers=_IMAGE)

    async def _known(self) -> dict[str, File]:
        if not self._own:
            self._own = await self._run(own_files)
        return self._own

    async def _file(self, request: Request) -> File:
        name = request.query_params.get("name", "")
        found = self._opened.get(name) or (await self._known()).get(name)
        if found is None:
            raise BadRequest(f"there is no scenario {name!r}")
        return found

    async def _frame(self, request: Request) -> Frame:
        file = await self._file(request)
        number = number_in(request, "step", 1, len(file.ends))
        key = (file.name, max(number, 1))
        frame = self._frames.get(key)
        if frame is None:
            frame = await self._run(lambda: file.frame(key[1]))
        self._frames[key] = frame
        self._frames.move_to_end(key)
        while len(self._frames) > _FRAMES_MAX:
            self._frames.popitem(last=False)
        return frame

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        async with self._turn:
            return await asyncio.to_thread(work)


def _words(scenario: Scenario, step: Step) -> str:
    """A step of the table in a few words."""
    from anabranch.sim.scenario import model
    from anabranch.study.diagram.texts import visible

    def names(regions: tuple[int, ...]) -> str:
        return ", ".join(scenario.name_of(region) for region in regions)

    if isinstance(step, model.Call):
        return f"{scenario.name_of(step.region)}: {' '.join(map(visible, step.argv))}"
    if isinstance(step, model.ExpectedReply):
        return f"{scenario.name_of(step.region)}: the answer to the command that waits"
    if isinstance(step, model.HangUp):
        return f"{scenario.name_of(step.region)}: a client hangs up"
    if isinstance(step, model.Sync):
        return f"{names(step.regions)} tell each other of their effects"
    if isinstance(step, model.Cut):
        return f"the links among {names(step.regions)} are cut"
    if isinstance(step, model.Heal):
        return f"the links among {names(step.regions)} are healed"
    if isinstance(step, model.Strike):
        return f"{step.fault.kind}: {names(step.fault.regions)}"
    passed_ms = step.duration_ms if isinstance(step, model.Wait) else step.at_ms
    return f"{passed_ms} ms pass" if isinstance(step, model.Wait) else f"until {passed_ms} ms"


def _prose(text: str) -> Iterator[str]:
    """The paragraphs between the title and the first table, without the targets of links."""
    after = re.split(r"^# .*$", text, maxsplit=1, flags=re.MULTILINE)[-1]
    before = re.split(r"^\|", after, maxsplit=1, flags=re.MULTILINE)[0]
    for paragraph in before.split("\n\n"):
        words = " ".join(_LINK.sub(r"\1", paragraph).split())
        if words and not words.startswith(("---", "```")):
            yield words


def _notes(text: str) -> Iterator[tuple[int, str]]:
    """The explanation of each row: line → text."""
    from anabranch.sim.scenario.parser import PROSE_COLUMNS, cells_of

    at = None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("|"):
            at = None
            continue
        row = cells_of(line)
        heads = [one.lower() for one in row]
        if at is None:
            at = next((n for n, head in enumerate(heads) if head in PROSE_COLUMNS), -1)
        elif 0 <= at < len(row) and row[at].strip("-: "):
            yield number, row[at].replace("`", "")
