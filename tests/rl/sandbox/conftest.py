from collections.abc import Iterator

import pytest

from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Jail, Limits, jail


@pytest.fixture(scope="session")
def a_jail() -> Iterator[Jail]:
    with image() as parts:
        yield jail(parts, Limits())
