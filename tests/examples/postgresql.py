"""A PostgreSQL server of the tests' own, in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.processes import eventually

# PostgreSQL refuses to run as root, so root runs it as nobody.
NOBODY = 65534


class PostgresServer:
    """A server on a free port, without passwords. A context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_ports(1)[0]
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        data = self._directory / "data"
        data.mkdir()
        if os.getuid() == 0:
            os.chown(data, NOBODY, NOBODY)
            # nobody must be able to reach the directory.
            for path in (self._directory, *self._directory.parents[:-1]):
                if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
                    path.chmod(path.stat().st_mode | 0o011)
        subprocess.run(
            [*self._command("initdb"), "-D", str(data), "-U", "rides", "-A", "trust", "-N"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=data,
        )
        options = ["-p", str(self._port), "-c", "unix_socket_directories=", "-c", "fsync=off"]
        with (self._directory / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command("postgres"), "-D", str(data), *options],
                cwd=data,
                stdout=log,
                stderr=log,
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
