"""How all tests run: Hypothesis without deadlines, and by a fixed seed where results must repeat."""

import os

from hypothesis import HealthCheck, settings

#: The machine may be busy with other workers; slowness is found by benchmarks, not by chance.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("exploring", _COMMON)
settings.register_profile("repeatable", _COMMON, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "exploring"))
