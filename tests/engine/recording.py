"""Case files played against an engine alone, at a clock that a test moves.

The answers are recorded in `recorded/`. The files are those of `tests/differential/cases`, whose
answers are Redis's own (`make test` compares them with a real server), and those of `cases/`, about
features that Redis does not have, whose recorded answers were read by hand. Beside commands a line
may say

    @ 1500                          the clock goes on by 1500 ms, with a tick

`python -m tests.engine.recording` writes the records anew: look at the difference before you commit
it.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import NoReply, Reply, ReplyLater
from anabranch.region.engine.rows import LogRow
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.resp.encoder import encode
from tests.differential.replies import read, show
from tests.differential.script import split
from tests.support.engines import answer_questions, execute, single

HERE = Path(__file__).parent
FOLDERS = [HERE.parent / "differential" / "cases", HERE / "cases"]
RECORDED = HERE / "recorded"
START_MS = 1_700_000_000_000


class Player:
    """One engine and its sessions; every step is committed at once."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.now_ms = START_MS
        self.engine: Engine = single(
            1,
            START_MS,
            Settings({"crdt-xadd-id-uniqueness-mode": "liberal", "enable-debug-command": "yes"}),
        )
        self.sessions: dict[str, Session] = {}
        self.said: list[str] = []
        # The log, which answers CRDT.EXPLAIN, CRDT.HISTORY and CRDT.EFFECTS.
        self.rows: list[LogRow] = []

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            port = 50000 + len(self.sessions)
            self.sessions[name] = self.engine.clients.connect(
                f"127.0.0.1:{port}", "127.0.0.1:7001", self.now_ms
            )
            if self.protocol == 3:
                execute(self.engine, self.sessions[name], [b"HELLO", b"3"], self.now_ms)
        return self.sessions[name]

    def command(self, name: str, words: list[bytes]) -> list[str]:
        """What is answered: to this command, and by it to others that wait."""
        session = self.session(name)
        if session.waiting:
            self.engine.clients.disconnect(session)
            del self.sessions[name]
            session = self.session(name)
        self.now_ms += 1
        reply = execute(self.engine, session, words, self.now_ms)
        self.said = []
        self._take(name, reply)
        self._step()
        if session.waiting:
            self.said.append("…")
        return self.said

    def wait(self, duration_ms: int) -> list[str]:
        self.now_ms += duration_ms
        self.said = []
        self._step()
        return self.said

    def _step(self) -> None:
        self.engine.tick(self.now_ms)
        commit = self.engine.disk.take_commit(self.now_ms)
        if commit is not None:
            self.rows += commit.rows
            self.engine.disk.committed(self.now_ms)
        answer_questions(self.engine, self.rows)
        for answer in self.engine.clients.take_replies():
            name = next((name for name, one in self.sessions.items() if one is answer.session), "?")
            self._take(name, answer.reply)
        for session_id in self.engine.clients.take_sessions_to_close():
            names = [
                name for name, session in self.sessions.items() if session.session_id == session_id
            ]
            self.said += [f"{name} closed" for name in names]

    def _take(self, name: str, reply: Reply) -> None:
        if isinstance(reply, ReplyLater):
            return
        if isinstance(reply, NoReply):
            self.said.append("nothing")
            return
        out: list[bytes] = []
        encode(reply, self.sessions[name].protocol, out)
        data = b"".join(out)
        typed, after = read(data)
        assert after == len(data), "one reply is one reply"
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in show(typed))
        self.said.append(text if name == "a" else f"{name} {text}")


def _play(lines: list[str], protocol: int) -> list[str]:
    """What each line of a case leads to."""
    player = Player(protocol)
    said: list[str] = []
    for line in lines:
        if line.startswith("@ "):
            said.append(" | ".join(player.wait(int(line[2:]))))
            continue
        named = len(line) > 2 and line[1:3] == "> "
        said.append(
            " | ".join(
                player.command(line[0] if named else "a", split(line[3:] if named else line))
            )
        )
    return said


def cases() -> dict[str, list[tuple[str, list[str]]]]:
    """file → (title, lines) of each of its cases."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.txt")):
            in_file = found.setdefault(path.stem, [])
            for text in path.read_text(encoding="utf-8").splitlines():
                line = text.strip()
                if line.startswith("# "):
                    in_file.append((line[2:], []))
                elif line and not line.startswith(("! ", "? ", "= ")):
                    in_file[-1][1].append(line)
    return found


def record(title: str, lines: list[str]) -> list[str]:
    """A case with what is answered: to RESP2, and where it differs to RESP3."""
    written = [f"# {title}"]
    for line, two, three in zip(lines, _play(lines, 2), _play(lines, 3), strict=True):
        written.append(line)
        if two or three:
            written.append(f"  {two}")
        if three != two:
            written.append(f"  RESP3 {three}")
    return written


def main() -> None:
    for name, in_file in cases().items():
        text = "\n\n".join("\n".join(record(title, lines)) for title, lines in in_file)
        (RECORDED / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
