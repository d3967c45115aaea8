"""Who may ask a server on this machine: programs here and pages from here, but no page of another site.

A browser sends the requests of any page that its user looks at to this machine, too. Two headers tell them apart:
`Origin` names the site of the page, and `Host` the name that led here, which an attacker's domain may be made to do.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from parhelion.core.errors import ConfigError

REFUSED = "refused: this server answers programs and pages of its own machine\n"


def may_ask(bound: str, host: str | None, origin: str | None) -> bool:
    """Whether a request with these headers may be answered by a server that is bound to the address `bound`.

    On loopback both must be names of this machine. A server that was opened to others is asked by whatever name leads
    to it, by pages of that name.
    """
    asked = _name(f"//{host}") if host else None
    page = _name(origin) if origin else None
    if origin is not None and page is None:  # 'null': a page from a file, or one that hides where it is from
        return False
    if _is_here(bound):
        return (host is None or _is_here(asked)) and (page is None or _is_here(page))
    return page is None or page == asked


def of_an_app(origin: str) -> bool:
    """Whether an origin is of a program that is built like a browser, with pages of its own.

    Such pages are files (`file://`) or have a scheme that the program made up, as `app://`. A page of the web is of
    http or https, or hides where it is from ('null').
    """
    scheme, there, _ = origin.partition("://")
    return bool(there) and _SCHEME.fullmatch(scheme) is not None and scheme.lower() not in _OF_THE_WEB


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_OF_THE_WEB = ("http", "https", "ws", "wss", "ftp")


def checked_origin(text: str) -> str:
    """An origin as browsers send it, such as https://app.foxglove.dev, or 'null'."""
    origin = text.strip().lower().removesuffix("/")
    if origin != "null" and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@\\]*", origin) is None:
        raise ConfigError(f"origin: expected a site such as https://app.foxglove.dev, got {text!r}")
    return origin


def _name(address: str) -> str | None:
    """The host that an address names, in small letters; None if it names none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _is_here(name: str | None) -> bool:
    if name is None:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".") == "localhost"
