"""For schemathesis, as its SCHEMATHESIS_HOOKS: every connection comes from an address of its own.

The hive answers wrong credentials later and later, address by address. Here every route is tried
with one, from one address that was 8 s a route and nearly all of the suite's time.
"""

import itertools

from urllib3.util import connection

_numbers = itertools.count(1)
_connect = connection.create_connection


def _from_own_address(address, timeout=None, source_address=None, **more):
    number = next(_numbers) % (1 << 16)
    own = f"127.1.{number >> 8}.{number & 255}"
    return _connect(address, timeout, source_address or (own, 0), **more)


connection.create_connection = _from_own_address
