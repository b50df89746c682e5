"""`anabranch cert`, and what a region says of files of TLS that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_mistakes import anabranch, serve_flags, told


def cert(folder: Path, *words: str, code: int = 0) -> str:
    """Runs `anabranch cert` in a directory; its output."""
    result = anabranch("cert", *words, cwd=folder)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A directory with the authority and the region us of the cluster `c`."""
    cert(tmp_path, "create-ca", "certs")
    cert(tmp_path, "create-region", "certs", "us", "--cluster", "c")
    return tmp_path


def test_certificates_are_made_shown_and_renewed(made: Path) -> None:
    (shown,) = json.loads(cert(made, "show", "certs/us.pem", "--json"))["certificates"]
    assert shown["names"] == ["us.c.anabranch"] and shown["for"] == "CN=us"
    assert 88 <= shown["days_left"] <= 90 and not shown["is_authority"]
    assert f"serial     {shown['serial']}" in cert(made, "show", "certs/us.pem")
    modes = {one.name: one.stat().st_mode & 0o777 for one in (made / "certs").iterdir()}
    assert modes == dict.fromkeys(("ca.pem", "ca-key.pem", "us.pem", "us-key.pem"), 0o600)
    assert (made / "certs").stat().st_mode & 0o777 == 0o700
    key = (made / "certs" / "us-key.pem").read_bytes()
    assert cert(made, "renew", "certs", "us", "--days", "5").startswith("certs/us.pem: until ")
    (renewed,) = json.loads(cert(made, "show", "certs/us.pem", "--json"))["certificates"]
    assert renewed["names"] == shown["names"] and renewed["serial"] != shown["serial"]
    assert renewed["days_left"] == 4 and (made / "certs" / "us-key.pem").read_bytes() != key
    cert(made, "create-ca", "certs", "--clients")
    assert cert(made, "create-client", "certs", "ann").startswith("certs/client-ann.pem: until ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["create-region", "certs", "us", "--cluster", "c"], "is there already"),
        (["create-region", "certs", "u/s"], "not 'u/s'"),
        (["create-region", "certs", "ca"], "would be another file's name"),
        (["create-region", "none", "us"], "`anabranch cert create-ca none` makes the authority"),
        (["create-client", "certs", "ann"], "`anabranch cert create-ca certs --clients` makes"),
        (["create-ca", "certs"], "is there already"),
        (["renew", "certs", "eu"], "there is no certs/eu.pem"),
        (["renew", "certs", "ca"], "cannot be renewed: this is a certificate authority"),
        (["show", "certs/us-key.pem"], "is no certificate in PEM form"),
        (["show", "certs/none.pem"], "cannot read certs/none.pem: No such file"),
    ],
)
def test_mistakes_are_told(made: Path, words: list[str], says: str) -> None:
    text = cert(made, *words, code=1)
    assert says in text and "Traceback" not in text


def test_an_authority_of_others_renews_nothing(made: Path) -> None:
    for name in ("ca.pem", "ca-key.pem"):
        (made / "certs" / name).unlink()
    cert(made, "create-ca", "certs")
    text = cert(made, "renew", "certs", "us", code=1)
    assert "cannot be renewed: another authority has signed it" in text


def test_a_port_that_other_machines_reach_needs_tls(tmp_path: Path) -> None:
    """Whoever reached the port of the other regions read everything and was believed (T1, T2)."""
    flags = serve_flags(tmp_path)
    flags[flags.index("--sync") + 1] = "0.0.0.0:0"
    told(anabranch(*flags, cwd=tmp_path), 2, "--sync is 0.0.0.0:0", "sync-insecure yes")


def test_files_that_do_not_fit_stop_the_start(made: Path) -> None:
    cert(made, "create-region", "certs", "eu", "--cluster", "c")
    flags = serve_flags(made, "--sync-tls", "required")
    told(anabranch(*flags, cwd=made), 2, "sync-tls is required: cannot load", "give sync-tls-cert")
    files = {"cert": "eu.pem", "key": "eu-key.pem", "ca-cert": "ca.pem"}
    flags += [f"--sync-tls-{kind}-file=certs/{name}" for kind, name in files.items()]
    told(anabranch(*flags, cwd=made), 2, "certs/eu.pem: the certificate is for eu.c.anabranch")
    flags[-3] = "--sync-tls-cert-file=certs/us.pem"
    told(anabranch(*flags, cwd=made), 2, "sync-tls is required: cannot load", "MISMATCH")
