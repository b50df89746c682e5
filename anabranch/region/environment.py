"""The variables of the environment that begin with ``ANABRANCH_``.

Each sets an option of a region, or configures another program, or is a mistake to warn of.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

ENVIRONMENT_PREFIX: Final = "ANABRANCH_"
CONFIG_VARIABLE: Final = ENVIRONMENT_PREFIX + "CONFIG"

# Variables of the build, of benchmarks and tests, and of deploy/compose.yaml.
_OTHERS: Final = re.compile(
    r"PURE|NO_COMPILE|OPT_LEVEL|BLOCKS|TEST_\w+|BUILD_NETWORK|CONSOLE_ACCESS|CONSOLE_TOKEN|\w+_IMAGE|IMAGE"
    r"|(HTTP_)?PORT_[A-Z]+|(TOXIPROXY|CONSOLE|PROMETHEUS|GRAFANA|SPARK|SPARK_HTTP)_PORT"
)
# Kubernetes tells each pod of the services in its namespace. A service named anabranch or
# anabranch-… gives such variables.
_SERVICES: Final = re.compile(
    r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT: Final = re.compile(r"(\w+_)?PORT")
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://")


def is_foreign(variable: str, text: str) -> bool:
    """Whether a variable with the prefix is known to configure something else than a region."""
    name = variable.removeprefix(ENVIRONMENT_PREFIX)
    if _OTHERS.fullmatch(name) or _SERVICES.fullmatch(name):
        return True
    return bool(_SERVICE_PORT.fullmatch(name) and _SERVICE_ADDRESS.match(text))


def variable_of(option: str) -> str:
    """The variable that sets an option, such as ``ANABRANCH_APPENDFSYNC``."""
    return ENVIRONMENT_PREFIX + option.upper().replace("-", "_")


def warning(variable: str, options: Iterable[str]) -> str:
    """The warning of a variable that sets none of the options; it names the nearest that does."""
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "-")
    near = difflib.get_close_matches(name, ["config", *options], 1)
    advice = (
        f"did you mean {variable_of(near[0])}?" if near else "docs/settings.md lists the options"
    )
    return f"{variable} is no option of anabranch and is ignored; {advice}"
