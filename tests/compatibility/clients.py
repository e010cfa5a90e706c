"""Which clients a test runs over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compatibility.drivers import DRIVERS, Driver


def each_driver(*calls: str, where: Callable[[type[Driver]], bool] = lambda driver: True) -> pytest.MarkDecorator:
    """One run of the test for each client that offers these calls.

    A client's tests share a group, so that workers running side by side do not each start its process.
    """
    chosen = [driver for driver in DRIVERS.values() if driver.can(*calls) and where(driver)]
    return pytest.mark.parametrize(
        "driver",
        [pytest.param(driver.name, marks=pytest.mark.xdist_group(driver.name)) for driver in chosen],
        indirect=True,
    )
