# An installed package is found by its entry point.
pytest_plugins = ["flyball_testing.pytest_plugin"]
