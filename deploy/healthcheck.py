"""The health check of the image: asks the region, or the console, of this container for /health.

The port is that of ANABRANCH_HTTP. The exit code is 0 if it serves. Otherwise it is 1, and
one line says why; `docker inspect` shows that line.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

PATIENCE_S = 3.0


def main() -> int:
    """Prints the answer, or the reason why there is none, and returns the exit code."""
    port = os.environ.get("ANABRANCH_HTTP", "0.0.0.0:7200").rpartition(":")[2]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S) as answer:
            print(answer.read().decode().strip())
            return 0
    except urllib.error.HTTPError as error:
        print(f"{error.code}: {error.read().decode().strip()}")
    except OSError as error:
        print(f"no answer on port {port}: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
