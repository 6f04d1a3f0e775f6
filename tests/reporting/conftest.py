import pytest

from tests.reporting.synthetic import make_records


@pytest.fixture
def records():
    return make_records()
