"""Replies: their order, the commits that they wait for, and the ends of connections."""

from __future__ import annotations

import asyncio

from anabranch.region.engine.commands.info import CLIENT_FIELDS
from anabranch.region.engine.replies import NO_REPLY
from tests.server.client import connect, until
from tests.server.conftest import Play
from tests.server.stub import StubRegion


def test_a_pipeline_is_answered_in_order_and_stepped_once(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(
            b"PING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n"
            b"QUIET\r\nnope\r\nECHO 'b c'\r\n*1\r\n$4\r\nPI"
        )
        await client.expect(b"+PONG\r\n$3\r\na\r\n\r\n-ERR unknown command 'nope'\r\n$3\r\nb c\r\n")
        assert region.steps == 1
        client.send(b"NG\r\n")
        await client.expect(b"+PONG\r\n")
        assert region.steps == 2
        figures = region.clients.figures()
        assert figures["total_net_input_bytes"] == 68
        assert figures["total_net_output_bytes"] == 61

    play(story)


def test_the_protocol_is_the_sessions(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"HELLO 3\r\nHELLO 2\r\n")
        await client.expect(b"%1\r\n$5\r\nproto\r\n:3\r\n*2\r\n$5\r\nproto\r\n:2\r\n")

    play(story)


def test_a_waiting_session_executes_nothing_until_it_is_answered(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\nBLOCK\r\nECHO 1\r\n")
        await client.expect(b"+PONG\r\n")
        client.send(b"ECHO 2\r\n")
        session = region.engine.sessions[0]
        await until(lambda: session.query_bytes == 16)
        assert region.engine.executed == 2
        region.answer(session, [b"late"])
        await client.expect(b"*1\r\n$4\r\nlate\r\n$1\r\n1\r\n$1\r\n2\r\n")
        client.send(b"BLOCK\r\nECHO 3\r\n")
        await until(lambda: session.waiting)
        region.answer(session, NO_REPLY)
        await client.expect(b"$1\r\n3\r\n")
        assert session.query_bytes == 0

    play(story)


def test_an_answer_to_a_session_that_is_gone_is_dropped(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"BLOCK\r\n")
        await until(lambda: region.engine.executed == 1)
        client.reset()
        await until(lambda: region.engine.left)
        region.answer(region.engine.sessions[0], b"too late")
        other = await connect(region)
        other.send(b"PING\r\n")
        await other.expect(b"+PONG\r\n")

    play(story)


def test_replies_are_held_until_their_position_is_committed(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        first, second, third = await connect(region), await connect(region), await connect(region)
        third.send(b"PING\r\n")
        await third.expect(b"+PONG\r\n")
        first.send(b"WRITE\r\nPING\r\n")
        await until(lambda: region.engine.last_position == 1)
        second.send(b"WRITE\r\n")
        await until(lambda: region.engine.last_position == 2)
        # The next reply to the first client reflects the write of the second.
        first.send(b"ECHO x\r\n")
        await until(lambda: region.engine.executed == 5)
        assert region.engine.sessions[0].output_bytes == 18
        assert region.clients.figures()["total_net_output_bytes"] == 7
        region.commit(1)
        await first.expect(b":1\r\n+PONG\r\n")
        assert region.clients.figures()["total_net_output_bytes"] == 18
        region.commit(2)
        await first.expect(b"$1\r\nx\r\n")
        await second.expect(b":2\r\n")
        assert region.clients.figures()["replies_awaiting_commit"] == 0
        await until(lambda: region.engine.sessions[0].output_bytes == 0)

    play(story)


def test_no_reply_overtakes_a_held_one_when_the_rule_is_relaxed(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"WRITE\r\n")
        await until(lambda: region.engine.last_position == 1)
        region.engine.last_position = 0
        client.send(b"PING\r\n")
        await until(lambda: region.engine.executed == 2)
        region.commit(1)
        await client.expect(b":1\r\n+PONG\r\n")

    play(story)


def test_a_failed_commit_disconnects_those_who_wait(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        writer, reader = await connect(region), await connect(region)
        reader.send(b"PING\r\n")
        await reader.expect(b"+PONG\r\n")
        writer.send(b"WRITE\r\nWRITE\r\n")
        await until(lambda: region.engine.last_position == 2)
        region.commit_failed()
        await writer.expect_end()
        region.commit(2)
        reader.send(b"PING\r\n")
        await reader.expect(b"+PONG\r\n")

    play(story)


def test_quit_is_answered_then_closed_and_the_rest_is_dropped(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\nQUIT\r\nPING\r\n")
        await client.expect(b"+PONG\r\n+OK\r\n")
        await client.expect_end()
        assert region.engine.executed == 2 and len(region.engine.left) == 1

    play(story)


def test_quit_waits_for_held_replies(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"WRITE\r\nQUIT\r\n")
        await until(lambda: region.engine.executed == 2)
        client.send(b"PING\r\n")
        await asyncio.sleep(0.02)
        region.commit(1)
        await client.expect(b":1\r\n+OK\r\n")
        await client.expect_end()
        assert region.engine.executed == 2

    play(story)


def test_a_protocol_error_is_said_then_the_connection_closed(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\n*1\r\n+4\r\nPING\r\n")
        await client.expect(b"+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n")
        await client.expect_end()
        assert region.clients.figures()["protocol_errors"] == 1 and len(region.engine.left) == 1

    play(story)


def test_limits_for_strangers_end_with_authentication(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        region.engine.password_needed = True
        friend, stranger = await connect(region), await connect(region)
        many = b"*12\r\n" + b"$4\r\nPING\r\n" * 12
        friend.send(b"AUTH x\r\n" + many)
        await friend.expect(b"+OK\r\n+PONG\r\n")
        stranger.send(many)
        await stranger.expect(b"-ERR Protocol error: unauthenticated multibulk length\r\n")
        await stranger.expect_end()

    play(story)


def test_a_fault_of_ours_ends_the_process(play: Play) -> None:
    """The connection used to end alone, and the region went on (S13.10).

    The command had broken off, so memory and log differed, and no peer could follow any more.
    """

    async def story(region: StubRegion) -> None:
        client, other = await connect(region), await connect(region)
        client.send(b"PING\r\nFAIL\r\nPING\r\n")
        await client.expect_end()
        assert [str(error) for error in region.failures] == ["a fault in the engine"]
        assert region.engine.executed == 2, "nothing follows the command that failed"
        other.send(b"PING\r\n")
        await other.expect(b"+PONG\r\n")
        shown = {*region.clients.figures(), "internal_errors"}
        assert set(CLIENT_FIELDS) <= shown, "INFO shows these under the names given here"

    play(story)
