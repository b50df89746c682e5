"""The client of a region, with a peer that is none."""

from __future__ import annotations

import socket
import threading

import pytest

from anabranch.cli.client import RegionClient
from anabranch.cli.errors import Unreachable


def test_a_port_that_speaks_another_protocol() -> None:
    """`--at` once ended with a traceback if it had the port for other regions."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            wire, _ = server.accept()
            with wire:
                wire.sendall(b"\0\0\x18\x04")
                wire.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with RegionClient(address) as client, pytest.raises(Unreachable, match="for clients"):
            client.ping()
        thread.join()
