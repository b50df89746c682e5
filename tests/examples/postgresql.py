"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from anabranch.cluster.ports import free_ports
from tests.support.processes import eventually

# PostgreSQL refuses to run as root, so root runs it as nobody.
NOBODY = 65534


class PostgresServer:
    """A server on a free port, without passwords, in a temporary directory. A context manager."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="postgresql-")
        self._port = free_ports(1)[0]
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        data = Path(self._directory.name)
        if os.getuid() == 0:
            os.chown(data, NOBODY, NOBODY)
        subprocess.run(
            [*self._command("initdb"), "-D", str(data), "-U", "rides", "-A", "trust", "-N"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=data,
        )
        options = ["-p", str(self._port), "-c", "unix_socket_directories=", "-c", "fsync=off"]
        self._process = subprocess.Popen(
            [*self._command("postgres"), "-D", str(data), *options],
            cwd=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(self._answers, 60, "PostgreSQL accepting connections")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        # SIGINT is PostgreSQL's fast shutdown: it closes the connections that are left.
        self._process.send_signal(2)
        self._process.wait(30)
        self._directory.cleanup()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://rides@127.0.0.1:{self._port}/{database}"

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        import psycopg

        self._databases += 1
        name = f"rides{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def _answers(self) -> bool:
        import psycopg

        with psycopg.connect(self.url(), connect_timeout=5):
            return True

    def _command(self, program: str) -> list[str]:
        path = shutil.which(program) or next(
            (str(one) for one in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))), None
        )
        if path is None:
            pytest.fail(
                f"this test needs PostgreSQL, and there is no {program}: install the package"
                " postgresql"
            )
        if os.getuid() != 0:
            return [path]
        ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}"]
        return ["setpriv", *ids, "--clear-groups", path]
