"""The settings of TLS between regions."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.setting import Setting

SYNC_TLS: Final[list[Setting]] = [
    Setting(
        "sync-tls",
        "off",
        "TLS 1.3 between regions: none (off), with each region that has it (optional), or no link "
        "without TLS (required). A change counts from the next connection on; required also ends "
        "those without TLS.",
        choices=["off", "optional", "required"],
    ),
    Setting(
        "sync-tls-cert-file",
        "",
        "PEM file of this region's certificate, for the name REGION.CLUSTER.anabranch, as "
        "`anabranch cert create-region` makes it. The three files are read again when they change.",
    ),
    Setting("sync-tls-key-file", "", "PEM file of the key of sync-tls-cert-file, no password."),
    Setting(
        "sync-tls-ca-cert-file",
        "",
        "PEM file of the authorities that sign certificates of regions; two while one is replaced.",
    ),
    Setting(
        "sync-tls-denied-serials",
        "",
        "Serial numbers of certificates of regions that are refused: hex, separated by commas.",
    ),
    Setting(
        "sync-insecure",
        "no",
        "Whether this region may take other regions without TLS at an address that other machines "
        "reach: they can then read and change everything.",
        choices=["yes", "no"],
        mutable=False,
    ),
]
