"""Which hosts only this machine can reach."""

import pytest

from memoryhub.core.network import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_addresses_are_recognised(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["127.example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", ""]
)
def test_names_that_only_begin_like_a_loopback_address_are_not_loopback(host):
    assert not is_loopback(host)
