"""The report of a run: text for the terminal, HTML with the picture, and files for a failure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from anabranch.chaos.breaking import Struck
from anabranch.chaos.final_state import FinalState
from anabranch.chaos.history import OK, REFUSED, UNKNOWN, History
from anabranch.chaos.observer import Sample, lags
from anabranch.chaos.plan import Plan
from anabranch.chaos.timeline import Bar, Picture, Points, svg

# Violations of one judge that the terminal and the page show; the file has all.
SHOWN_MAX: Final = 10
_STEP_S: Final = 1.0


@dataclass
class Outcome:
    """A whole run. `violations`: judge → lines. `notes`: what a reader should know."""

    plan: Plan
    command: str
    history: History
    final: FinalState
    struck: list[Struck]
    samples: list[Sample]
    faults_end_s: float
    violations: dict[str, list[str]]
    notes: list[str]

    @property
    def failed(self) -> bool:
        """Whether any judge found a violation."""
        return any(self.violations.values())


def figures(outcome: Outcome) -> dict[str, str]:
    """What the run did, as names and values."""
    history = outcome.history
    adds = Counter(add.outcome for add in history.adds)
    kinds = Counter(one.fault.kind for one in outcome.struck)
    level_s = outcome.final.level_s
    conflicts = sum(
        int(state.info.get("crdt_idmp_conflicts", "0")) for state in outcome.final.regions
    )
    return {
        "adds": f"{adds[OK]} acknowledged, {adds[UNKNOWN]} unknown, {adds[REFUSED]} refused",
        "refusals": ", ".join(
            f"{n} {text.partition(':')[0]}" for text, n in sorted(history.refusals.items())
        )
        or "none",
        "of these idempotent": str(sum(add.is_idempotent for add in history.adds)),
        "delivered by groups": str(len(history.deliveries)),
        "read by XREAD": str(len(history.readings)),
        "acknowledged by groups": str(len(history.acknowledgements)),
        "removed": str(sum(one.count for one in history.removals)),
        "trimmed": str(sum(one.count for one in history.trims)),
        "snapshots joined": str(sum(state.snapshots for state in outcome.final.regions)),
        "idempotency conflicts": f"{conflicts} since the last starts",
        "faults": ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none",
        "level after": f"{level_s:.1f} s" if level_s is not None else "never",
    }


def text(outcome: Outcome) -> str:
    """The report for the terminal."""
    lines = [f"  {name}: {value}" for name, value in figures(outcome).items()]
    lines += [f"  note: {note}" for note in outcome.notes]
    for judge, found in outcome.violations.items():
        lines += [f"  {judge}: {len(found)}", *(f"    {line}" for line in _first(found))]
    return "\n".join(lines)


def picture(outcome: Outcome) -> Picture:
    """The contents of the timeline."""
    plan, history = outcome.plan, outcome.history
    ends = [record.answered_s for record in history.adds] + [
        sample.at_s for sample in outcome.samples
    ]
    seconds = max([plan.seconds, outcome.faults_end_s, *ends])
    made = Picture(f"chaos, seed {plan.seed}, {len(plan.names)} regions", seconds)
    made.bars = [
        Bar(one.fault.kind, one.begun_s, one.ended_s, str(one.fault), one.fault.is_of_link)
        for one in outcome.struck
    ]
    counts: dict[str, Counter[int]] = {name: Counter() for name in plan.names}
    for add in history.adds:
        if add.outcome == OK:
            counts[add.region][int(add.answered_s // _STEP_S)] += 1
    steps = range(int(seconds // _STEP_S) + 1)
    for name, found in counts.items():
        made.throughput[name] = [(step * _STEP_S, found[step] / _STEP_S) for step in steps]
    for name, lag in lags(outcome.samples).items():
        points: Points = [(at_s, None if one is None else float(one)) for at_s, one in lag]
        made.lag[name] = points
    made.marks.append((outcome.faults_end_s, "all faults are over"))
    if outcome.final.level_s is not None:
        made.marks.append((outcome.faults_end_s + outcome.final.level_s, "all regions are level"))
    return made


def write(outcome: Outcome, directory: Path) -> Path:
    """Writes the report into a directory; returns the path of the page."""
    drawn = svg(picture(outcome))
    (directory / "timeline.svg").write_text(drawn, encoding="utf-8")
    (directory / "plan.json").write_text(
        json.dumps(outcome.plan.as_json(), indent=1) + "\n", encoding="utf-8"
    )
    (directory / "violations.json").write_text(
        json.dumps(outcome.violations, indent=1) + "\n", encoding="utf-8"
    )
    page = directory / "report.html"
    page.write_text(_page(outcome, drawn), encoding="utf-8")
    return page


def _page(outcome: Outcome, drawn: str) -> str:
    verdict = "failed" if outcome.failed else "passed"
    facts = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in {"command": outcome.command, **figures(outcome)}.items()
    )
    judged = "".join(
        f"<tr><th>{escape(judge)}</th><td>{len(found)}</td>"
        f"<td>{'<br>'.join(map(escape, _first(found)))}</td></tr>"
        for judge, found in outcome.violations.items()
    )
    struck = "".join(
        f"<li>{escape(str(one.fault))}{escape(' — ' + one.note if one.note else '')}</li>"
        for one in outcome.struck
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in outcome.notes)
    settings = ", ".join(f"{name} {value}" for name, value in outcome.plan.settings.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<title>chaos, seed {outcome.plan.seed}: {verdict}</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; }}
th {{ text-align: left; padding-right: 1em; vertical-align: top; }}
.passed {{ color: #2e7d32; }} .failed {{ color: #b71c1c; }}
</style></head><body>
<h1>Seed {outcome.plan.seed}: <span class="{verdict}">{verdict}</span></h1>
{drawn}
<h2>What happened</h2><table>{facts}</table><p>Settings: {escape(settings)}</p>
<h2>Violations</h2><table>{judged}</table>
<h2>Notes</h2><ul>{notes}</ul>
<h2>Faults</h2><ul>{struck}</ul>
</body></html>
"""


def _first(found: list[str]) -> list[str]:
    """The first violations, and how many more there are."""
    more = [f"and {len(found) - SHOWN_MAX} more"] if len(found) > SHOWN_MAX else []
    return [*found[:SHOWN_MAX], *more]
