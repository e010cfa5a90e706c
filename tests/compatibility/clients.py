"""Which clients a test runs over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compatibility.drivers import DRIVERS, Driver


def each_driver(*calls: str, where: Callable[[type[Driver]], bool] = lambda driver: True) -> pytest.MarkDecorator:
    """One run of the test for each client that offers these calls."""
    chosen = [driver.name for driver in DRIVERS.values() if driver.can(*calls) and where(driver)]
    return pytest.mark.parametrize("driver", chosen, indirect=True)
