"""The fixture ``flyball``: one cluster for each test that asks for it.

``@pytest.mark.flyball(nodes=5, starting_at="2026-03-01T12:00:00Z")`` sets its options.
"""

import pytest

from flyball_testing import Cluster


def pytest_configure(config):
    config.addinivalue_line("markers", "flyball(**options): options of the cluster of the fixture flyball")


@pytest.fixture
def flyball(request):
    mark = request.node.get_closest_marker("flyball")
    with Cluster(**(mark.kwargs if mark else {})) as cluster:
        yield cluster
