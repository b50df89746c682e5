"""Connections: their number, their end, fairness among them, and bounds on their buffers."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from anabranch.region.driver.client_connection import OUTPUT_HIGH_BYTES
from tests.resp.streams import multibulk
from tests.server.client import connect, until
from tests.server.conftest import Play
from tests.server.stub import StubRegion


def test_addresses_and_counters(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\n")
        await client.expect(b"+PONG\r\n")
        host, port = client.writer.get_extra_info("sockname")
        assert region.engine.sessions[0].address == f"{host}:{port}"
        assert region.engine.sessions[0].local_address == f"127.0.0.1:{region.server.port}"
        figures = region.clients.figures()
        assert figures["total_connections_received"] == 1
        assert (
            figures["connected_clients"] == 1
            and figures["total_net_input_bytes"] == 6
            and figures["total_net_output_bytes"] == 7
        )

    play(story)


def test_maxclients(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        first = await connect(region)
        first.send(b"PING\r\n")
        await first.expect(b"+PONG\r\n")
        second = await connect(region)
        await second.expect(b"-ERR max number of clients reached\r\n")
        await second.expect_end()
        figures = region.clients.figures()
        assert figures["rejected_connections"] == 1 and figures["total_connections_received"] == 1
        first.reset()
        await until(lambda: region.engine.left)
        third = await connect(region)
        third.send(b"PING\r\n")
        await third.expect(b"+PONG\r\n")

    play(story, {"maxclients": 1})


def test_a_client_is_served_if_the_system_refuses_an_option(play: Play) -> None:
    """Linux takes no keep-alive time above 32767 s. The exception once left the client without an
    answer, and without an end, so the setting could not be set back."""

    async def story(region: StubRegion) -> None:
        region.settings.values["tcp-keepalive"] = 40_000
        client = await connect(region)
        client.send(b"PING\r\n")
        await client.expect(b"+PONG\r\n")

    play(story)


def test_half_closed_clients_are_answered_first(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\n" * 30_000 + b"PI")
        client.half_close()
        await client.expect(b"+PONG\r\n" * 30_000)
        await client.expect_end()
        await until(lambda: len(region.engine.left) == 1)
        writer = await connect(region)
        writer.send(b"WRITE\r\n")
        writer.half_close()
        await until(lambda: region.engine.last_position == 1)
        await asyncio.sleep(0.02)
        region.commit(1)
        await writer.expect(b":1\r\n")
        await writer.expect_end()
        await until(lambda: len(region.engine.left) == 2)

    play(story)


def test_a_half_closed_client_that_waits_is_gone(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"PING\r\nBLOCK\r\n")
        await until(lambda: region.engine.executed == 2)
        client.half_close()
        await client.expect(b"+PONG\r\n")
        await client.expect_end()
        assert len(region.engine.left) == 1

    play(story)


def test_idle_clients_are_closed_but_not_those_who_wait(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        idle, waiting = await connect(region), await connect(region)
        idle.send(b"PING\r\n")
        waiting.send(b"BLOCK\r\n")
        await idle.expect(b"+PONG\r\n")
        await until(lambda: region.engine.executed == 2)
        # From here on the clients are idle. A busy machine may have taken a second until now.
        region.settings.set("timeout", "1")
        await idle.expect_end()
        assert region.clients.figures()["idle_client_disconnections"] == 1
        region.answer(region.engine.sessions[1], b"x")
        await waiting.expect(b"$1\r\nx\r\n")

    play(story)


def test_close_session(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"BLOCK\r\n")
        await until(lambda: region.engine.executed == 1)
        assert region.close_session(1)
        await client.expect_end()
        assert len(region.engine.left) == 1
        assert not region.close_session(1)

    play(story)


def test_closing_the_server_flushes_and_takes_no_more(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"BIG 3000000\r\n")
        await until(lambda: region.engine.executed == 1)
        region.finish_all()
        closing = asyncio.ensure_future(region.server.close(300))
        await client.expect(b"$3000000\r\n" + b"x" * 3_000_000 + b"\r\n")
        await client.expect_end()
        # A connection that stayed open would make the server wait longer than a story may take.
        await closing
        try:
            await connect(region)
        except OSError:
            pass
        else:
            raise AssertionError("the server still listens")

    play(story)


def test_a_huge_pipeline_starves_nobody(play: Play) -> None:
    """Commands of another client run among the 300,000 commands of one pipeline."""

    async def story(region: StubRegion) -> None:
        greedy, modest = await connect(region), await connect(region)
        modest.send(b"PING\r\n")
        await modest.expect(b"+PONG\r\n")
        greedy.send(multibulk([b"PING"]) * 300_000)
        for _ in range(20):
            modest.send(b"PING\r\n")
            await modest.expect(b"+PONG\r\n")
        greedy.send(multibulk([b"ECHO", b"done"]))
        await greedy.expect(b"+PONG\r\n" * 300_000 + b"$4\r\ndone\r\n")
        places = [
            place
            for place, session_id in enumerate(region.engine.served)
            if session_id != region.engine.served[-1]
        ]
        assert len(places) == 21
        assert max(later - earlier for earlier, later in pairwise(places)) < 100_000

    play(story)


def test_a_client_that_does_not_read_is_not_executed_for_and_then_not_read_from(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        greedy, modest = await connect(region), await connect(region)
        modest.send(b"PING\r\n")
        await modest.expect(b"+PONG\r\n")
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        greedy.send(multibulk([b"BIG", b"1000000"]) * 60)
        session = region.engine.sessions[greedy_id(region) - 1]
        await until(lambda: session.output_bytes > OUTPUT_HIGH_BYTES)
        connection = region.connection(session)
        executed = region.engine.executed
        assert executed < 60
        greedy.send(multibulk([b"PING"]) * 100_000)
        await until(lambda: not connection.is_reading)
        assert region.engine.executed == executed
        # At most one read beyond the limit.
        assert session.query_bytes <= 100_000 + (256 << 10)
        assert session.output_bytes > OUTPUT_HIGH_BYTES
        modest.send(b"PING\r\n")
        await modest.expect(b"+PONG\r\n")
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await greedy.expect((b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n") * 60)
        await greedy.expect(b"+PONG\r\n" * 100_000)

    def greedy_id(region: StubRegion) -> int:
        return 3 - region.engine.served[0]

    play(story, {"client-query-buffer-limit": 100_000})


def test_held_replies_are_bounded(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"WRITE\r\n" + b"BIG 1000000\r\n" * 40)
        await until(
            lambda: (
                region.engine.sessions
                and region.engine.sessions[0].output_bytes > OUTPUT_HIGH_BYTES
            )
        )
        await asyncio.sleep(0.05)
        assert region.engine.executed < 41
        region.commit(1)
        await client.expect(b":1\r\n" + (b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n") * 40)

    play(story)


def test_a_request_above_the_query_buffer_limit_ends_its_connection(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"x" * 500_000)
        await client.expect_end()
        figures = region.clients.figures()
        assert figures["client_query_buffer_limit_disconnections"] == 1
        # The limit holds for one request. Many small requests may exceed it together.
        other = await connect(region)
        other.send(b"BLOCK\r\n" + b"PING\r\n" * 100_000)
        await until(lambda: len(region.engine.sessions) == 2)
        connection = region.connection(region.engine.sessions[1])
        await until(lambda: not connection.is_reading)
        region.answer(region.engine.sessions[1], b"x")
        await other.expect(b"$1\r\nx\r\n" + b"+PONG\r\n" * 100_000)

    play(story, {"client-query-buffer-limit": 100_000})


def test_the_client_output_limit_disconnects(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(b"BIG 1000000\r\n" * 12)
        limit = "client_output_buffer_limit_disconnections"
        await until(lambda: region.clients.figures()[limit] == 1)
        assert len(region.engine.left) == 1

    play(story, {"client-output-limit": 2_000_000})


def test_a_setting_changed_while_running_counts_at_once(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"*2\r\n$4\r\nECHO\r\n$2000\r\n" + b"x" * 2000 + b"\r\n")
        await client.expect(b"$2000\r\n" + b"x" * 2000 + b"\r\n")
        region.settings.set("proto-max-bulk-len", "1kb")
        client.send(b"*2\r\n$4\r\nECHO\r\n$2000\r\n")
        await client.expect(b"-ERR Protocol error: invalid bulk length\r\n")
        await client.expect_end()

    play(story)


def test_an_http_request_closes_its_connection(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(region: StubRegion) -> None:
        client = await connect(region)
        client.send(b"POST / HTTP/1.1\r\nHost: us\r\n\r\nPING\r\n")
        await client.expect(b"-ERR Protocol error: HTTP requests are not taken\r\n")
        await client.expect_end()
        assert region.clients.figures()["protocol_errors"] == 1

    play(story)
    assert "it sent an HTTP request to the port of Redis clients" in caplog.text
