"""Every record of the internal topics survives a round trip, at every version, and damage is refused as such."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.coordination.schemas import consumer_offsets, transaction_state
from millstream.coordination.schemas.format import RecordFormat
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import CorruptFrame
from tests.properties.strategies import valid

_FORMATS = [consumer_offsets.FORMAT, transaction_state.FORMAT]
_KINDS = [
    (form, key, value, version)
    for form in _FORMATS
    for key, value in dict.fromkeys(form.types.values())
    for version in range(value.VERSIONS[0], value.VERSIONS[1] + 1)
]
_FIELDS: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(codec="utf-8"), max_size=12),
    int: st.integers(-(2**31), 2**31 - 1),
}
_kinds = pytest.mark.parametrize(("form", "key", "value", "version"), _KINDS)


def _records(key: Any, value: Any, version: int) -> st.SearchStrategy[CoordinatorRecord]:
    keys = st.builds(key, *(_FIELDS[each] for each in key.__annotations__.values()))
    return st.builds(CoordinatorRecord, keys, st.none() | valid(value, version))


@_kinds
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_record_survives_a_round_trip(
    form: RecordFormat, key: Any, value: Any, version: int, data: st.DataObject
) -> None:
    record = data.draw(_records(key, value, version))
    assert form.decode(*form.encode(record, version)) == record


@_kinds
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_record_cut_anywhere_is_refused(
    form: RecordFormat, key: Any, value: Any, version: int, data: st.DataObject
) -> None:
    key_bytes, value_bytes = form.encode(data.draw(_records(key, value, version)), version)
    for end in range(len(key_bytes)):
        with pytest.raises(CorruptFrame):
            form.decode(key_bytes[:end], value_bytes)
    for end in range(len(value_bytes or b"")):
        with pytest.raises(CorruptFrame):
            form.decode(key_bytes, (value_bytes or b"")[:end])


@pytest.mark.parametrize("form", _FORMATS)
@given(kind=st.integers(-1, 30), key=st.binary(max_size=30), value=st.none() | st.binary(max_size=60))
def test_noise_is_a_record_or_refused(form: RecordFormat, kind: int, key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(CorruptFrame):
        form.decode(kind.to_bytes(2, "big", signed=True) + key, value)
