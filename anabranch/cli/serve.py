"""`anabranch serve`: one region in this process."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import inspect
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Optional

import typer

from anabranch import log_lines
from anabranch.cli.errors import CliError, EndedByError, GivenUp, UsageError
from anabranch.cli.ports import listen_error
from anabranch.file_modes import private_files, wider
from anabranch.region.config import (
    ALIASES,
    FLAGS,
    IDENTITY,
    PASSWORD_FILE,
    PASSWORD_FILE_TEXT,
    RegionConfig,
    load,
)
from anabranch.region.engine import settings
from anabranch.region.engine.setting import Setting
from anabranch.region.live import open_files
from anabranch.region.option_values import ConfigError

LOCK_NAME = "region.lock"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _panel(name: str) -> str:
    if name in ("appendfsync", *ALIASES):
        return "Most used"
    return "Region" if name in IDENTITY else "Settings (docs/settings.md)"


def _metavar(setting: Setting) -> str:
    if setting.choices is not None:
        return "|".join(setting.choices)
    return "TEXT" if isinstance(setting.default, str) else "BYTES" if setting.is_bytes else "NUMBER"


# SQLite's thread needs the interpreter several times for a transaction. Each time it waits for the
# thread of commands, by default up to 5 ms while that is busy.
_SWITCH_S: Final = 0.0005
_METAVARS: Final = {
    "members": "us=1,eu=2,…",
    "resp": "HOST:PORT",
    "sync": "HOST:PORT",
    "http": "HOST:PORT",
    "peer": "NAME@HOST:PORT",
    "data": "DIR",
}


def _parameters() -> list[inspect.Parameter]:
    """One keyword argument for each option that `region.config` knows."""
    config = typer.Option(
        "--config",
        metavar="FILE.toml",
        help="Any of these options, as TOML.",
        rich_help_panel="Region",
    )
    made = [_identity_parameter(name, text) for name, text in IDENTITY.items()]
    made.append(_parameter("config", Optional[Path], config))
    for alias, name in ALIASES.items():
        setting = settings.BY_NAME[name]
        made.append(_setting_parameter(alias, setting, setting.text))
    made.append(_file_parameter(PASSWORD_FILE, PASSWORD_FILE_TEXT))
    for setting in settings.ALL:
        text = f"{setting.text} [default: {setting.default!s}]"
        made.append(_setting_parameter(setting.name, setting, text))
    return made


def _parameter(name: str, kind: Any, option: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def _identity_parameter(name: str, text: str) -> inspect.Parameter:
    is_flag = name in FLAGS
    kind: Any = bool if is_flag else Optional[list[str]] if name == "peer" else Optional[str]
    metavar = None if is_flag else _METAVARS.get(name, "NAME")
    option = typer.Option(f"--{name}", help=text, metavar=metavar, rich_help_panel=_panel(name))
    return _parameter(name, kind, option, False if is_flag else None)


def _file_parameter(name: str, text: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}", help=text, metavar="FILE", rich_help_panel=_panel(name))
    return _parameter(name, Optional[str], option)


def _setting_parameter(name: str, setting: Setting, text: str) -> inspect.Parameter:
    option = typer.Option(
        f"--{name}", help=text, metavar=_metavar(setting), rich_help_panel=_panel(name)
    )
    return _parameter(name, Optional[str], option)


def serve(**options: Any) -> None:
    """Serve one region: Redis clients on --resp, other regions on --sync.

    Every option may also be in the --config file, or in the environment as ANABRANCH_NAME. Flags
    win over the environment, the environment over the file. SIGTERM and SIGINT end the region
    cleanly.
    """
    file = options.pop("config", None)
    try:
        config = load(
            {name.replace("_", "-"): value for name, value in options.items()}, os.environ, file
        )
    except ConfigError as error:
        raise UsageError(str(error)) from None
    is_json = config.settings.text("log-format") == "json"
    log_lines.configure(config.settings.text("log-format"), config.name)
    few_files = open_files.fit_clients(config.settings)
    for warning in (*config.warnings, *([few_files] if few_files else [])):
        logging.getLogger("anabranch").warning(warning)
    # gRPC's own lines are one for each malformed connection; the region counts and tells these.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        place = f"{config.name} for clients on {config.resp} and other regions on {config.sync}"
        with locked(config.data, place=place):
            if open_to_others := wider(config.data):
                logging.getLogger("anabranch").warning(open_to_others)
            _check_ports(config)
            _run(config)
    except CliError as error:
        if not is_json:
            raise
        # Programs that read the log need this line, too.
        logging.getLogger("anabranch").critical("%s", error)
        raise typer.Exit(error.exit_code) from None


# Typer reads the options from the signature.
serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    _parameters(), return_annotation=None
)
serve.__annotations__ = {}


@contextmanager
def locked(
    data: Path, lock_name: str = LOCK_NAME, holder: str = "a region", place: str = ""
) -> Iterator[None]:
    """Locks the data directory for this process; CliError if another process holds the lock.

    `place` says what this process is and where it listens; the error of the other process has both.
    The operating system releases the lock however the process ends. Files that the process makes
    meanwhile are its user's alone.
    """
    with private_files():
        yield from _locked(data, lock_name, holder, place)


def _locked(data: Path, lock_name: str, holder: str, place: str) -> Iterator[None]:
    try:
        data.mkdir(parents=True, exist_ok=True)
        # Without a buffer: what could not be written would be tried once more at the end.
        lock = (data / lock_name).open("ab+", buffering=0)
    except OSError as error:
        raise CliError(f"cannot use the data directory {data}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            pid, _, other = lock.read().decode(errors="replace").strip().partition("\n")
            shown = f"process {pid or 'unknown'}{', ' if other else ''}{other}"
            advice = ": stop it, or take another --data"
            if place and other:
                advice = f"; this one would be {place}. Stop one of them: a region runs once"
            raise CliError(
                f"{data} is in use by {holder} that runs already ({shown}){advice}"
            ) from None
        try:
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n{place}".strip().encode())
        except OSError as error:
            raise CliError(f"cannot write into {data}: {error.strerror}") from None
        yield


def _check_ports(config: RegionConfig) -> None:
    for flag, address in (
        ("--resp", config.resp),
        ("--sync", config.sync),
        ("--http", config.http),
    ):
        reason = listen_error(address) if address is not None and address.port else ""
        if reason:
            raise CliError(f"{flag} {address}: {reason}; give {config.name} another {flag}")


def _run(config: RegionConfig) -> None:
    # What is imported from here on lives as long as the process. `serving.run` looks for garbage
    # again once the region is made.
    gc.disable()

    import uvloop

    from anabranch.region.engine.errors import Damaged, StorageError
    from anabranch.region.live.failed_ends import NotStartedAgain, RegionFailed, StepFailed

    stop = _Stop()
    sys.setswitchinterval(_SWITCH_S)
    try:
        uvloop.run(stop.run(_region(config)))
    except ConfigError as error:
        raise UsageError(f"{config.name}: {error}") from None
    except Damaged as error:
        raise CliError(
            f"{config.name}: {error}\nThe region is not served from damaged files."
            f" `anabranch check {config.data}` reads all of them; `anabranch repair {config.data}`"
            " rebuilds the region from the other regions."
        ) from None
    except NotStartedAgain as error:
        raise GivenUp(f"{config.name}: {error}") from None
    except StepFailed as error:
        raise EndedByError(f"{config.name}: {error}") from None
    except (StorageError, RegionFailed) as error:
        raise CliError(f"{config.name}: {error}") from None
    except OSError as error:
        raise CliError(f"{config.name}: {error.strerror or error}") from None
    finally:
        # A late signal, while Python shuts down, must not change the exit code.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _region(config: RegionConfig) -> Coroutine[Any, Any, None]:
    """The region's run; with `crdt-tape-max-bytes` its calls go to tapes."""
    from anabranch.region.live import serving

    bytes_max = config.settings.integer("crdt-tape-max-bytes")
    if bytes_max == 0:
        return serving.run(config, end_process=_end_at_once)
    from anabranch.sim.tapes.writing import make_engine_for

    make_engine = make_engine_for(config.data, bytes_max)
    return serving.run(config, make_engine, _end_at_once)


def _end_at_once() -> None:
    """Ends the process as a kill would: nothing that may be wrong is written or sent (S13.10)."""
    try:
        logging.shutdown()
    finally:
        os._exit(EndedByError.exit_code)


class _Stop:
    """Cancels the region at the first SIGTERM or SIGINT; ignores later ones.

    The region takes the cancellation as a clean stop; a second one would interrupt that stop, and
    with it the last commit. These are handlers of the process, because handlers of the event loop
    would be removed before the process ends.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Future[None] | None = None
        self._asked = False
        for number in _SIGNALS:
            signal.signal(number, self._signalled)

    async def run(self, region: Coroutine[Any, Any, None]) -> None:
        """Runs the region until it ends, or a signal stops it."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(region)
        if self._asked:
            self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._task.cancelled():
                raise

    def _signalled(self, number: int, frame: object) -> None:
        if not self._asked:
            self._asked = True
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)
