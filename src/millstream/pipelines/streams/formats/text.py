"""JSON and CSV, by Spark's own parsers."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from millstream.pipelines.streams.formats.base import CORRUPT, Decoded, Format, missing_fields

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # Spark's own default drops microseconds on the way out.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
#: Read leniently: the fraction may have any length, or be absent.
_READ = {**_OPTIONS, "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSSSS][.SSSS][.SSS][.SS][.S][XXX][X]"}


class Text(Format):
    """What JSON and CSV share: text in UTF-8, whose parser keeps what it could not understand in a column."""

    name: str

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self.schema = schema
        self._options = dict(options)
        self._wide = StructType([*schema.fields, StructField(CORRUPT, StringType())])

    def parse(self, data: Column) -> Column:
        return self._parse(data.cast("string"), {**_READ, **self._options})

    def decode(self, data: Column, parsed: Column) -> Decoded:
        text = data.cast("string")
        value = F.struct(*[parsed[field.name].alias(field.name) for field in self.schema.fields])
        error = (
            F.when(data.isNull(), F.lit(None).cast("string"))
            .when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
            .when(F.trim(text) == "", F.lit(f"empty, not {self.name}"))
            .when(
                parsed.isNull() | parsed[CORRUPT].isNotNull(),
                F.lit(f"not {self.name} of {self.schema.simpleString()}"),
            )
            .otherwise(self._check(text, parsed))
        )
        return Decoded(F.when(data.isNotNull() & error.isNull(), value), error)

    def _check(self, text: Column, parsed: Column) -> Column:
        return missing_fields(parsed, self.schema)

    def _parse(self, text: Column, options: dict[str, str]) -> Column:
        raise NotImplementedError


class Json(Text):
    """An object in JSON. Fields the schema does not name are passed over; absent ones are null."""

    name = "JSON"

    def _check(self, text: Column, parsed: Column) -> Column:
        # Spark's parser stops at the end of the first object; what comes after it would be lost without a word.
        several = text.rlike(r"\}\s*,?\s*\{") & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(
            1
        )
        more = several | ~F.rtrim(text).endswith("}")
        return F.when(more, F.lit("more than one JSON object")).otherwise(super()._check(text, parsed))

    def _parse(self, text: Column, options: dict[str, str]) -> Column:
        return F.from_json(text, self._wide, options)

    def encode(self, value: Column) -> Column:
        return F.to_json(value, {**_OPTIONS, **self._options}).cast("binary")


class Csv(Text):
    """One line of CSV, whose fields are the schema's in order."""

    name = "CSV"

    def _parse(self, text: Column, options: dict[str, str]) -> Column:
        return F.from_csv(text, self._wide.toDDL(), options)

    def encode(self, value: Column) -> Column:
        return F.to_csv(value, {**_OPTIONS, **self._options}).cast("binary")
