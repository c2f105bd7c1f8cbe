"""What the tests of all pages share."""

import pytest

from browsers import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser
