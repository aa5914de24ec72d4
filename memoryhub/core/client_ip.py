"""IP addresses of callers: which are this machine, and which count together for rate limits. No Django."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def client_network(address: str) -> str | None:
    """Whose requests are counted together: one IPv4 address, or the /64 that one subscriber has of IPv6.

    None for this machine itself, with an address of its own or none. What is no address counts as written.
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
