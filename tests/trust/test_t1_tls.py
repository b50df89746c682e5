"""T1 to T3, T7: with TLS nobody without a member's certificate is told, heard or taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.certificates.files import Folder
from anabranch.certificates.making import facts
from anabranch.cluster.regions import RegionProcess
from anabranch.region.engine.settings import Settings
from anabranch.sync.live.carrier import ConnectionLost, Listener, PeerStream, dial
from anabranch.sync.live.tls import NO_TLS, NoTls, RegionTls
from anabranch.sync.session import messages as m
from anabranch.sync.session.links import OtherEnd
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually
from tests.trust.test_t8_connections import hello, hub

MEMBERS = ("us", "eu", "ap")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The certificates of three members of the cluster `test`."""
    return made(tmp_path / "certificates")


def made(path: Path, cluster: str = "test", days: int = 30) -> Folder:
    one = Folder(path)
    one.create_authority(False, "regions", days)
    for name in MEMBERS:
        one.create_region(name, cluster, days)
    return one


def tls(folder: Folder, name: str, mode: str = "required", denied: str = "") -> RegionTls:
    """TLS of one member."""
    settings = Settings()
    settings.set("sync-tls", mode)
    settings.set("sync-tls-cert-file", str(folder.certificate(name)))
    settings.set("sync-tls-key-file", str(folder.key(name)))
    settings.set("sync-tls-ca-cert-file", str(folder.certificate("ca")))
    settings.set("sync-tls-denied-serials", denied)
    return RegionTls(settings, "test", MEMBERS)


class Meeting:
    """A listener and dials of it. `met`: who was accepted; `away`: who was not, and why."""

    def __init__(self, accepting: RegionTls) -> None:
        self.met: list[str] = []
        self.away: list[str] = []
        self.port = 0
        self._listener = Listener("127.0.0.1:0", self._serve, self._turned_away, accepting)

    async def __aenter__(self) -> Meeting:
        self.port = await self._listener.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.stop()

    async def dial(self, dialling: RegionTls, region: str = "us") -> str:
        """Dials, and sends a message; the member that answered, or why there is no answer."""
        try:
            stream = await dial(f"127.0.0.1:{self.port}", dialling, region)
        except ConnectionLost as error:
            return str(error)
        try:
            await stream.send(b"hello")
            answer = await stream.receive()
        except ConnectionLost as error:
            return str(error)
        finally:
            await stream.close()
        return stream.end.certified or "plain" if answer == b"hello" else "no answer"

    async def _serve(self, stream: PeerStream) -> None:
        self.met.append(stream.end.certified or "plain")
        data = await stream.receive()
        if data is not None:
            await stream.send(data)
            with contextlib.suppress(ConnectionLost):
                await stream.receive()

    def _turned_away(self, address: str, reason: str) -> None:
        self.away.append(reason)


def meet(
    accepting: RegionTls, dialling: RegionTls, region: str = "us"
) -> tuple[str, list[str], list[str]]:
    """One dial of a listener: what the dialler says, who was met, who was turned away and why."""

    async def run() -> tuple[str, list[str], list[str]]:
        async with Meeting(accepting) as meeting:
            said = await meeting.dial(dialling, region)
            for _ in range(500):
                if meeting.met or meeting.away:
                    break
                await asyncio.sleep(0.01)
            return said, meeting.met, meeting.away

    return asyncio.run(run())


def test_t2_members_meet_by_their_certificates(folder: Folder) -> None:
    assert meet(tls(folder, "us"), tls(folder, "eu")) == ("us", ["eu"], [])


def test_t1_a_stranger_without_tls_is_told_nothing(folder: Folder) -> None:
    said, met, away = meet(tls(folder, "us"), NO_TLS)
    assert met == [] and away == ["it speaks no TLS, and sync-tls is required here"]
    assert "us" not in said and "test" not in said.replace("unauthenticated", "")


def test_t8_a_connection_that_is_reset_is_turned_away_as_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its loss was a line of its own in the log, so a stranger could fill the log."""

    async def run() -> list[str]:
        async with Meeting(NO_TLS) as meeting:
            with socket.create_connection(("127.0.0.1", meeting.port)) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for _ in range(500):
                if meeting.away:
                    break
                await asyncio.sleep(0.01)
            return meeting.away

    with caplog.at_level(logging.WARNING):
        assert [reason.partition(":")[0] for reason in asyncio.run(run())] == ["it is lost"]
    assert "could not be served" not in caplog.text


def test_t2_a_stranger_with_a_certificate_of_its_own_is_refused(
    folder: Folder, tmp_path: Path
) -> None:
    other = made(tmp_path / "others")
    said, met, away = meet(tls(folder, "us"), tls(other, "eu"))
    assert met == [] and "its certificate is not taken" in said and "failed" in away[0]
    # The dialler knows this region's authority, and this region does not know its one.
    half = tls(other, "eu")
    half._settings.set("sync-tls-ca-cert-file", str(folder.certificate("ca")))  # type: ignore[attr-defined]
    said, met, away = meet(tls(folder, "us"), half)
    assert met == [] and "not taken" in away[0] and said.startswith("TLS: ")


def test_t3_the_owner_of_a_members_address_is_not_that_member(folder: Folder) -> None:
    """eu is down, and ap, or whoever has the certificate of ap, owns its address."""
    said, met, _ = meet(tls(folder, "ap"), tls(folder, "us"), "eu")
    assert met == []
    assert said == "TLS: eu was dialled, and the certificate is that of ap"


@pytest.mark.parametrize("cluster", ["other", "Test"])
def test_t2_a_certificate_of_another_cluster_is_refused(
    folder: Folder, tmp_path: Path, cluster: str
) -> None:
    """Two clusters may have one authority. Names are compared as they are written."""
    for file in ("ca.pem", "ca-key.pem"):
        target = tmp_path / "others" / file
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((folder.path / file).read_bytes())
    other = Folder(tmp_path / "others")
    other.create_region("eu", cluster, 30)
    _, met, away = meet(tls(folder, "us"), tls(other, "eu"))
    assert met == [] and away == [
        f"the certificate is for eu.{cluster}.anabranch, which is no member of cluster 'test'"
    ]


def test_t2_a_denied_certificate_is_refused_by_both_sides(folder: Folder) -> None:
    serial = facts(folder.certificate("eu").read_bytes()).serial
    denies = tls(folder, "us", denied=f"12, {serial.lower()}")
    _, met, away = meet(denies, tls(folder, "eu"))
    assert met == [] and away == [f"the certificate with the serial number {serial} is denied here"]
    said, met, _ = meet(tls(folder, "eu"), denies, "eu")
    assert met == [] and "is denied here" in said


def test_a_client_of_the_cluster_is_no_region(folder: Folder) -> None:
    """Clients have an authority of their own."""
    folder.create_authority(True, "clients", 30)
    folder.create_client("ann", 30)
    half = tls(folder, "us")
    half._settings.set("sync-tls-cert-file", str(folder.certificate("client-ann")))  # type: ignore[attr-defined]
    half._settings.set("sync-tls-key-file", str(folder.key("client-ann")))  # type: ignore[attr-defined]
    _, met, away = meet(tls(folder, "us"), half)
    assert met == [] and "not taken" in away[0]


def test_optional_meets_regions_with_and_without_tls(folder: Folder) -> None:
    optional = tls(folder, "us", "optional")
    assert meet(optional, tls(folder, "eu", "optional"))[:2] == ("us", ["eu"])
    assert meet(optional, tls(folder, "eu"))[:2] == ("us", ["eu"])
    assert meet(optional, tls(folder, "eu", "off"))[:2] == ("plain", ["plain"])
    said, met, away = meet(tls(folder, "us", "off"), tls(folder, "eu", "optional"))
    assert (said, met) == ("plain", ["plain"])
    assert away == ["it speaks TLS, and sync-tls is off here"]
    assert meet(NO_TLS, tls(folder, "eu"))[0].startswith("TLS: ")


def test_new_files_count_from_the_next_connection_on(
    folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pair that does not load is said, and the former one stays in use."""

    async def run() -> None:
        accepting, dialling = tls(folder, "us"), tls(folder, "eu")
        async with Meeting(accepting) as meeting:
            assert await meeting.dial(dialling) == "us"
            other = made(tmp_path / "others")
            for file in ("us.pem", "us-key.pem"):
                (folder.path / file).write_bytes((other.path / file).read_bytes())
            folder.path.joinpath("ca.pem").write_bytes(
                folder.path.joinpath("ca.pem").read_bytes()
                + other.path.joinpath("ca.pem").read_bytes()
            )
            assert await meeting.dial(dialling) == "us"
            assert meeting.met == ["eu", "eu"]
            folder.key("us").write_bytes(b"no key")
            with caplog.at_level(logging.WARNING):
                assert await meeting.dial(dialling) == "us"
            assert "the former files stay in use" in caplog.text
            folder.renew("eu", 30)
            assert await meeting.dial(dialling) == "us"
            assert meeting.away == []

    asyncio.run(run())


def test_a_region_knows_its_own_certificate(folder: Folder) -> None:
    tls(folder, "us").check("us")
    with pytest.raises(NoTls, match=r"us\.pem is the certificate of us, and this region is eu"):
        tls(folder, "us").check("eu")


def test_t7_a_hello_must_be_of_the_member_of_the_certificate() -> None:
    """What a connection says counts for the member of its certificate only."""
    one = hub()
    number = one.accepted(0, OtherEnd("10.0.0.2:5000", "ap"))
    one.received(number, hello(region_id=2), 0)
    refusal = one.next_message(number)
    assert isinstance(refusal, m.Refusal)
    assert refusal.text == "the certificate is for ap, and the Hello of eu"


@pytest.mark.live
def test_regions_change_to_tls_one_after_the_other(
    new_cluster: Callable[..., LiveCluster], folder: Folder
) -> None:
    """From off by optional to required, while clients write; then a stranger gets nothing."""
    cluster = new_cluster()
    cluster.start_all()
    for mode in ("optional", "required"):
        for region in cluster.regions.values():
            name = region.name
            region.ask(
                "CONFIG", "SET",
                "sync-tls-cert-file", str(folder.certificate(name)),
                "sync-tls-key-file", str(folder.key(name)),
                "sync-tls-ca-cert-file", str(folder.certificate("ca")),
                "sync-tls", mode,
            )  # fmt: skip
            for other in cluster.regions.values():
                other.ask("XADD", "orders", "*", "mode", mode)
    eventually(lambda: all(map(is_encrypted, cluster.regions.values())), 60, "TLS on all links")
    cluster.sync()
    assert [region.ask("XLEN", "orders") for region in cluster.regions.values()] == [18] * 3
    us = cluster["us"]
    with (
        contextlib.suppress(ConnectionResetError),
        socket.create_connection(("127.0.0.1", us.sync_port), 10) as stranger,
    ):
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert stranger.recv(100) == b""
    context = ssl.create_default_context(cafile=str(folder.certificate("ca")))
    context.check_hostname = False
    answer = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", us.sync_port), 10) as stranger,
        context.wrap_socket(stranger) as wrapped,
    ):
        wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        answer = wrapped.recv(100)
    assert answer == b""
    eventually(lambda: "did not return a certificate" in us.log.read_text(), 20, "a line about it")


def is_encrypted(region: RegionProcess) -> bool:
    """Whether all links of a region are up and have TLS."""
    found = [
        text
        for name, text in region.info().items()
        if name[:9] == "crdt_link" and name[9:].isdigit()
    ]
    return all("state=up," in text and text.endswith("tls=1") for text in found)
