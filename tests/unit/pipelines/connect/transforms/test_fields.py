"""Fields taken out, put in, kept, masked, renamed, laid out in a row."""

from typing import Any

import pytest

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import INT32, STRING, Field, Schema, Type, struct
from tests.unit.pipelines.connect.transforms.applied import schema_of, transform, value_of, wrong

ADDRESS = struct("Address", street=STRING, number=Schema(Type.INT32, optional=True, default=1))
ORDER = struct("Order", id=INT32, address=ADDRESS.as_optional())
AN_ORDER = {"id": 5, "address": {"street": "Elm", "number": None}}


@pytest.mark.parametrize(
    ("path", "found"),
    [("a", {"b": {"c": 1}}), ("a.b", {"c": 1}), ("a.b.c", 1), ("`x.y`.z", 2), ("none.b", None), ("`q\\`.r`", 3)],
)
def test_points_lead_to_fields_within_fields(path: str, found: Any) -> None:
    value = {"a": {"b": {"c": 1}}, "x.y": {"z": 2}, "q`.r": 3, "none": None}
    assert value_of(transform("ExtractField$Value", field=path, field_syntax_version="V2"), value) == found


def test_without_points_a_field_is_a_name() -> None:
    assert value_of(transform("ExtractField$Value", field="a.b"), {"a.b": 1, "a": {"b": 2}}) == 1


def test_a_field_takes_its_schema_along_and_its_default_where_it_is_missing() -> None:
    extract = transform("ExtractField$Value", field="address.number", field_syntax_version="V2")
    assert value_of(extract, AN_ORDER, ORDER) == 1
    assert schema_of(extract, AN_ORDER, ORDER) == ADDRESS.field("number")
    with pytest.raises(DataError, match="Unknown field: absent"):
        value_of(transform("ExtractField$Value", field="absent"), AN_ORDER, ORDER)


def test_backticks_that_do_not_close_are_refused_before_anything_runs() -> None:
    assert "Incomplete backtick pair" in wrong("ExtractField$Value", field="`a", field_syntax_version="V2")["field"]


def test_a_value_is_hoisted_into_a_field() -> None:
    hoist = transform("HoistField$Value", field="line")
    assert value_of(hoist, "text") == {"line": "text"}
    assert schema_of(hoist, "text", STRING) == struct(line=STRING)


def test_a_key_is_made_of_fields_of_the_value() -> None:
    record = transform("ValueToKey", fields="id").apply(Record("topic", AN_ORDER, value_schema=ORDER))
    assert record is not None
    assert (record.key, record.key_schema, record.value) == ({"id": 5}, struct(id=INT32), AN_ORDER)
    with pytest.raises(DataError, match="Field does not exist: absent"):
        transform("ValueToKey", fields="absent").apply(Record("topic", AN_ORDER, value_schema=ORDER))


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"exclude": "a"}, {"b": 2, "c": 3}),
        ({"include": "a,b"}, {"a": 1, "b": 2}),
        ({"include": "a,b", "exclude": "b"}, {"a": 1}),
        ({"renames": "a:x,c:y"}, {"x": 1, "b": 2, "y": 3}),
    ],
)
def test_fields_are_left_out_kept_and_renamed(options: dict[str, str], left: dict[str, int]) -> None:
    replaced = transform("ReplaceField$Value", **options)
    schema = struct("Row", a=INT32, b=INT32, c=INT32)
    value = {"a": 1, "b": 2, "c": 3}
    assert value_of(replaced, value) == left
    assert value_of(replaced, value, schema) == left
    assert [field.name for field in schema_of(replaced, value, schema).fields] == list(left)
    assert schema_of(replaced, value, schema).name == "Row"


def test_masked_fields_say_nothing() -> None:
    value = {"name": "Ann", "age": 30, "tags": ["a"], "open": True}
    assert value_of(transform("MaskField$Value", fields="name,age,tags"), value) == {
        "name": "",
        "age": 0,
        "tags": [],
        "open": True,
    }
    assert value_of(transform("MaskField$Value", fields="name,age", replacement="7"), value)["age"] == 7
    with pytest.raises(DataError, match="custom replacement"):
        value_of(transform("MaskField$Value", fields="open", replacement="7"), value)
    with pytest.raises(DataError, match="number"):
        value_of(transform("MaskField$Value", fields="age", replacement="x"), value)


def test_nested_fields_are_laid_out_in_a_row() -> None:
    flatten = transform("Flatten$Value", delimiter="_")
    assert value_of(flatten, AN_ORDER) == {"id": 5, "address_street": "Elm", "address_number": None}
    assert value_of(flatten, AN_ORDER, ORDER) == {"id": 5, "address_street": "Elm", "address_number": 1}
    assert schema_of(flatten, AN_ORDER, ORDER).fields == (
        Field("id", INT32),
        Field("address_street", STRING.as_optional()),  # For the address is.
        Field("address_number", Schema(Type.INT32, optional=True, default=1)),
    )
    assert value_of(flatten, {"id": 5, "address": None}, ORDER)["address_street"] is None


def test_schemas_get_names_and_versions() -> None:
    set_both = transform("SetSchemaMetadata$Value", schema_name="New", schema_version="2")
    changed = schema_of(set_both, AN_ORDER, ORDER)
    assert (changed.name, changed.version, changed.fields) == ("New", 2, ORDER.fields)
    with pytest.raises(DataError, match="Schema required"):
        value_of(set_both, {"a": 1})
    assert wrong("SetSchemaMetadata$Value") == {"schema.name": "Neither schema name nor version configured"}


@pytest.mark.parametrize("name", ["ReplaceField$Value", "MaskField$Value", "Flatten$Value", "ValueToKey"])
def test_a_value_without_fields_is_an_error_of_that_record(name: str) -> None:
    options = {"fields": "a"} if name in ("MaskField$Value", "ValueToKey") else {}
    with pytest.raises(DataError, match="Only Map objects supported"):
        value_of(transform(name, **options), "text")
    with pytest.raises(DataError, match="Only Struct objects supported"):
        value_of(transform(name, **options), "text", STRING)
