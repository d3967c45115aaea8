"""GPS time: weeks and seconds since 1980-01-06 without leap seconds, and conversion from and to calendar time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from parhelion.core.errors import ConfigError

WEEK_S = 604_800.0
GPS_EPOCH = datetime(1980, 1, 6, tzinfo=timezone.utc)
_LEAPS = (
    "1981-07-01 1982-07-01 1983-07-01 1985-07-01 1988-01-01 1990-01-01 1991-01-01 1992-07-01 1993-07-01 1994-07-01 "
    "1996-01-01 1997-07-01 1999-01-01 2006-01-01 2009-01-01 2012-07-01 2015-07-01 2017-01-01"
)
LEAP_DAYS = tuple(datetime.fromisoformat(day).replace(tzinfo=timezone.utc) for day in _LEAPS.split())
"""Days from which GPS time is one more leap second ahead of UTC (IERS Bulletin C); the last was in 2017."""


def moment(text: str | datetime) -> datetime:
    """Parse a calendar time; UTC unless the text names another time zone."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00")) if isinstance(text, str) else text
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        raise ConfigError(f"epoch: must be a time like 2024-06-21T12:00:00+00:00, got {text!r}")
    found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    if not GPS_EPOCH <= found < datetime(2100, 1, 1, tzinfo=timezone.utc):
        raise ConfigError(f"epoch: must be from 1980-01-06, when GPS time begins, to 2099, got {found.isoformat()}")
    return found


def leap_seconds(utc: datetime) -> int:
    """Seconds by which GPS time is ahead of UTC."""
    return sum(utc >= day for day in LEAP_DAYS)


@dataclass(frozen=True)
class GpsTime:
    """A moment in GPS time."""

    week: int
    """Full weeks since 1980-01-06."""
    second: float
    """Seconds since the start of the week [s]."""

    @classmethod
    def of(cls, utc: datetime) -> GpsTime:
        """Convert from calendar time in UTC."""
        return cls.from_calendar(utc + timedelta(seconds=leap_seconds(utc)))

    @classmethod
    def from_calendar(cls, gps: datetime) -> GpsTime:
        """Convert from calendar time in the GPS time scale, as in RINEX files."""
        since = gps.replace(tzinfo=timezone.utc) - GPS_EPOCH
        days, seconds = divmod(since.days, 7)
        return cls(days, seconds * 86_400.0 + since.seconds + since.microseconds * 1e-6)

    def calendar(self, after_s: float = 0.0) -> tuple[int, int, int, int, int, float]:
        """Year, month, day, hour, minute and second in GPS time, `after_s` [s] later; seconds are rounded to 0.1 us."""
        ticks = round((self.second + after_s) * 1e7)
        whole, part = divmod(ticks, 600_000_000)
        at = GPS_EPOCH + timedelta(weeks=self.week, minutes=whole)
        return at.year, at.month, at.day, at.hour, at.minute, part * 1e-7

    def utc(self, after_s: float = 0.0) -> datetime:
        """Calendar time in UTC, `after_s` [s] later, rounded to a microsecond."""
        at = GPS_EPOCH + timedelta(weeks=self.week, seconds=round(self.second + after_s, 6))
        return at - timedelta(seconds=leap_seconds(at - timedelta(seconds=18)))

    @property
    def day_of_year(self) -> float:
        """Day of the year with its fraction, 1 at the start of the year."""
        at = self.utc()
        return at.timetuple().tm_yday + (at.hour + at.minute / 60.0) / 24.0

    def since(self, other: GpsTime) -> float:
        """Seconds from another time to this one."""
        return (self.week - other.week) * WEEK_S + (self.second - other.second)
