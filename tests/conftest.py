"""What tests of every room use."""

pytest_plugins = ["pytester"]
