"""IP addresses of clients: loopback addresses, and networks for rate limits. No Django."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host: ``localhost`` or a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def client_network(address: str) -> str | None:
    """Return the key for rate limits: an IPv4 address, or the /64 network of an IPv6 address.

    None for a loopback address or no address. A text that is not an address is returned as it is.
    """
    if not address:
        return None
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)
