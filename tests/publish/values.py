"""Values of CQL's driver and of engines in one form, so that rows can be compared and summed up."""

import datetime
import decimal
import hashlib
import ipaddress
import json
import uuid

from cassandra.util import Date, Duration, Time

# More digits than any decimal of a test has.
decimal.getcontext().prec = 60


def plain(value):
    """A value in the form in which values of all engines are compared."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, decimal.Decimal)):
        return f"{decimal.Decimal(value).normalize():f}"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, datetime.datetime):
        utc = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return round(utc.timestamp() * 1000)
    if isinstance(value, Date):
        return value.date().isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Time):
        return plain(value.nanosecond_time)
    if isinstance(value, Duration):
        parts = {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
        return plain(parts)
    if isinstance(value, (uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "items"):
        return sorted([plain(key), plain(of)] for key, of in value.items())
    values = list(value)
    # A map in Arrow.
    if values and all(isinstance(pair, tuple) and len(pair) == 2 for pair in values):
        return plain(dict(values))
    return [plain(one) for one in values]


NO_DURATION = plain(Duration(0, 0, 0))


def with_nulls(value):
    """A plain value for an engine that has no null lists, maps and structs: they are empty there, or all their
    parts are null, or zero in a duration, whose parts are never null."""
    is_null = isinstance(value, list) and all(isinstance(part, list) and part[1] is None for part in value)
    return None if is_null or value == NO_DURATION else value


def checksum(rows, columns):
    """The checksum of rows, each a list of plain values, that are sorted."""
    digest = hashlib.sha256(json.dumps(columns).encode())
    for row in rows:
        digest.update(json.dumps(row).encode())
        digest.update(b"\n")
    return digest.hexdigest()[:16]


def difference(found, right):
    """A sentence about the first row in which sorted rows differ; None if they are equal."""
    for one, other in zip(found, right):
        if one != other:
            return f"{one}, and the SELECT returns {other}"
    if len(found) == len(right):
        return None
    rows, more = (found, "too many") if len(found) > len(right) else (right, "missing")
    return f"{abs(len(found) - len(right))} rows are {more}, such as {rows[min(len(found), len(right))]}"
