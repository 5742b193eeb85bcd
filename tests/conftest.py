"""What tests of every room use."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# How fast the machine is, is no finding: under coverage on a busy one a single example can take seconds.
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")
