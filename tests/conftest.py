"""What tests of every room use."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# What pytest and its plugins do differently where these are set, they would do in the runs that tests start as well.
for name in ("CI", "BUILD_NUMBER", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
    os.environ.pop(name, None)

# How fast the machine is, is no finding: under coverage on a busy one a single example can take seconds.
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")
