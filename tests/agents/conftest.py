"""A test that is parametrised by an algorithm gets a spec and a log for it."""

import pytest

from tests.agents.small import small_log, small_spec


@pytest.fixture
def algorithm(request) -> str:
    """What the test's `name` or `started` parameter names; `bc` without."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    return parameters.get("name", parameters.get("started", "bc"))


@pytest.fixture
def transitions(algorithm):
    return small_log(algorithm)


@pytest.fixture
def spec(algorithm):
    return small_spec(algorithm)
