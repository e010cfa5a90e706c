"""Logical types: Python's dates, times and decimals as the plain values that Connect has for them, and back."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import Schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MILLISECOND = timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_MIDNIGHT = time()
#: Digits enough for every number that anyone has; what does not fit is an error and no rounding.
_EXACT = Context(prec=100_000, traps=[Inexact, InvalidOperation])


def _wrong(wanted: str, value: Any) -> DataError:
    return DataError(f"Invalid type for {wanted}: {type(value).__name__}")


def days_of(value: Any) -> int:
    """A date as days since the epoch."""
    if isinstance(value, datetime):
        if in_utc(value).timetz().replace(tzinfo=None) != _MIDNIGHT:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        value = in_utc(value).date()
    if not isinstance(value, date):
        raise _wrong("Date", value)
    return value.toordinal() - _EPOCH_DAY


def date_of(days: int) -> date:
    """The date of days since the epoch."""
    try:
        return date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError) as error:
        raise DataError(f"No date is {days} days from the epoch: {error}") from error


def time_ms_of(value: Any) -> int:
    """A time of day as milliseconds since midnight."""
    if not isinstance(value, time):
        raise _wrong("Time", value)
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def time_of(milliseconds: int) -> time:
    """The time of day so many milliseconds after midnight."""
    if not 0 <= milliseconds < _DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return (EPOCH + timedelta(milliseconds=milliseconds)).time()


def timestamp_ms_of(value: Any) -> int:
    """A moment as milliseconds since the epoch; one without a zone is in UTC."""
    if not isinstance(value, datetime):
        raise _wrong("Timestamp", value)
    return (in_utc(value) - EPOCH) // _MILLISECOND


def timestamp_of(milliseconds: int) -> datetime:
    """The moment so many milliseconds after the epoch."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise DataError(f"No date is {milliseconds} ms from the epoch") from error


def in_utc(value: datetime) -> datetime:
    """The same moment; one without a zone is in UTC already."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def scale_of(schema: Schema) -> int:
    """How many digits a decimal has behind the point."""
    text = dict(schema.parameters).get("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def decimal_bytes(value: Any, scale: int) -> bytes:
    """A decimal as the two's complement of its digits; one that has more behind the point is refused."""
    if not isinstance(value, Decimal):
        raise _wrong("Decimal", value)
    try:
        whole = value.scaleb(scale, _EXACT)
        digits = int(whole)
    except (Inexact, InvalidOperation, OverflowError, ValueError):
        raise DataError(f"{value} is no number with {scale} digits behind the point") from None
    if digits != whole:
        raise DataError(f"Decimal value has mismatching scale for given Decimal schema: {value} has more than {scale}")
    return digits.to_bytes((digits + (digits < 0)).bit_length() // 8 + 1, signed=True)


def decimal_of(data: bytes, scale: int) -> Decimal:
    """The decimal of such bytes."""
    return Decimal(int.from_bytes(data, signed=True)).scaleb(-scale, _EXACT)
