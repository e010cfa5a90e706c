"""What a broker's watchers ask it."""

import re
import urllib.error
import urllib.request

from tests.system.broker_process import BrokerProcess


def page(broker: BrokerProcess, path: str) -> tuple[int, str]:
    """The status and the text at this path; the broker was started with ``--metrics-port``."""
    found = re.search(r"^metrics (\S+)$", broker.output, re.M)
    assert found is not None, broker.output
    try:
        with urllib.request.urlopen(f"http://{found[1]}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(broker: BrokerProcess) -> dict[str, float]:
    """Every sample by its name and labels."""
    status, text = page(broker, "/metrics")
    assert status == 200
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
