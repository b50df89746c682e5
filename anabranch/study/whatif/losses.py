"""Losses of one key: entries, removals, groups, deadlines and pairs that one region alone has."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.spans import holds
from anabranch.study.whatif.survey import KeySurvey, Survey, removed_by
from anabranch.study.whatif.survivors import Entries


@dataclass(frozen=True)
class Losses:
    """What would be lost of one key.

    - `entries`: present in the lost region, and in no other region that answers.
    - `returning`: entries that would be back; `removals`: the effects that removed them.
    - `groups_created`: groups that live in the lost region alone. `groups_destroyed`: groups that
      it has destroyed, and that live in the others.
    - `deadlines`, `windows` (configurations of idempotent adds), `last_ids`: effects that set them.
    - `pairs`: (pid, iid) of idempotent adds; a retry elsewhere would add the entry anew.
    """

    key: bytes
    entries: Entries
    removals: list[KeyEvent]
    returning: Entries
    groups_created: list[bytes]
    groups_destroyed: list[bytes]
    deadlines: list[KeyEvent]
    windows: list[KeyEvent]
    last_ids: list[KeyEvent]
    pairs: list[tuple[bytes, bytes]]

    def is_any(self) -> bool:
        """Whether anything of the key would be lost."""
        return any(
            (
                *(self.entries, self.removals, self.groups_created, self.groups_destroyed),
                *(self.deadlines, self.windows, self.last_ids, self.pairs),
            )
        )


def losses_of(survey: Survey, key: KeySurvey) -> Losses:
    """What would be lost of a key that was looked at."""
    assert survey.lost_vector is not None
    only_there = survey.only_there()
    by_kind: dict[str, list[KeyEvent]] = {}
    for effect in key.effects:
        by_kind.setdefault(effect.kind, []).append(effect)
    here = set(key.survivors.group_names())
    back = key.survivors.entries(key.removed())
    returning = {dot: one for dot, one in sorted(back.items()) if dot not in key.lost.entries}
    return Losses(
        key.key,
        {dot: one for dot, one in sorted(key.lost.entries.items()) if holds(only_there, dot)},
        [effect for effect in key.effects if _removes_any(effect, returning)],
        returning,
        [
            name
            for name, group in sorted(key.lost.groups.items())
            if name not in here and any(holds(only_there, dot) for dot in group.creates)
        ],
        sorted(key.destroyed_groups(survey.lost_vector)),
        by_kind.get("set-deadline", []),
        by_kind.get("configure", []),
        by_kind.get("set-id", []),
        [
            (effect.pid, effect.iid or b"")
            for effect in by_kind.get("add", [])
            if effect.pid is not None
        ],
    )


def _removes_any(effect: KeyEvent, entries: Entries) -> bool:
    spans = removed_by(effect)
    return any(holds(spans, dot) for dot in entries)
