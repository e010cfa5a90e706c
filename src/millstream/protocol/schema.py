"""Declaring messages: one class for all versions of a struct, a request or a response.

Each field says in which versions it exists, may be null, or travels as a tagged field.  In a version that does not
carry it, a field has its default when decoded and is silently left out when encoded.  Declaring compiles nothing:
the codecs (``compiler``) and even ``__init__`` are made when first used, so importing every message is cheap.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, dataclass_transform

from millstream.protocol.types import Array, FieldType, FixedType, Records, SizedType

VERSION_MAX: Final = 32767
#: Tags from here on are ours.  Kafka's count up from 0, and whoever does not know a tag passes it over.
OWN_TAGS: Final = 10_000

_C = TypeVar("_C", bound=type)
_MISSING: Final = object()


class Versions(NamedTuple):
    """A closed range of versions; ``NEVER`` contains none."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """The range Kafka's schemas write as ``3``, ``3-7`` or ``3+``."""
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def has(self, version: int) -> bool:
        return self.first <= version <= self.last


NEVER: Final = Versions(0, -1)


class Field(NamedTuple):
    """One field as declared; ``name`` is filled in by the class it belongs to."""

    name: str
    type: FieldType
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    tagged: Versions

    def is_present(self, version: int) -> bool:
        """Whether ``version`` carries the field at all, in place or tagged."""
        return self.versions.has(version)

    def is_tagged(self, version: int) -> bool:
        return self.tagged.has(version)

    def is_nullable(self, version: int) -> bool:
        return self.nullable.has(version)

    def make_default(self) -> Any:
        """The value of a field that was not given; lists and structs are made anew."""
        if self.default is not _MISSING:
            return self.default
        match self.type:
            case Array():
                return []
            case FixedType(zero=zero):
                return zero
            case SizedType(name="String"):
                return ""
            case SizedType():
                return b""
            case type() as struct_class:
                return struct_class()
        return 0


def field(
    of: FieldType,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """Declare a field of a message.

    ``nullable`` names the versions in which it may be None, which then is its default unless another is given.
    ``tag`` makes it a tagged field (in the versions ``tagged``, or all), left out while it has its default; a tagged
    struct is None until it is sent.  One that may be null is always sent, for to Kafka absent is not null.
    """
    may_be_null = nullable is not None or (tag is not None and isinstance(of, type))
    if default is _MISSING and (may_be_null or of is Records):
        default = None
    present = Versions.parse(versions)
    return Field(
        name="",
        type=of,
        versions=present,
        nullable=NEVER if nullable is None else Versions.parse(nullable),
        default=default,
        tag=tag,
        tagged=NEVER if tag is None else Versions.parse(tagged or versions),
    )


class Struct:
    """What every declared class is: slots, keyword construction, and equality by fields."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """A struct that is encoded by itself."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int]


class Response(Message):
    """What a broker answers."""

    __slots__ = ()


class Request(Message):
    """What a broker is asked."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Response]]


class Value(Message):
    """What is kept in a record of an internal topic, behind its version."""

    __slots__ = ()

    WRITTEN: ClassVar[int]


@dataclass_transform(kw_only_default=True)
def struct(cls: _C) -> _C:
    """Declare a struct that messages contain."""
    return _declare(cls, Struct, {})


@dataclass_transform(kw_only_default=True)
def request(*, key: int, versions: str, flexible: str | None) -> Callable[[_C], _C]:
    """Declare the request of an API: the versions we speak, and the first that is flexible, if any is."""
    constants = {"API_KEY": key, **_spoken(versions, flexible)}
    return lambda cls: _declare(cls, Request, constants)


@dataclass_transform(kw_only_default=True)
def response(*, to: type[Request]) -> Callable[[_C], _C]:
    """Declare the response to a request; key and versions are the request's."""

    def declare(cls: _C) -> _C:
        constants = {"API_KEY": to.API_KEY, "VERSIONS": to.VERSIONS, "FLEXIBLE_FROM": to.FLEXIBLE_FROM}
        declared = _declare(cls, Response, constants)
        to.RESPONSE = declared
        return declared

    return declare


@dataclass_transform(kw_only_default=True)
def value(*, versions: str, flexible: str | None, written: int) -> Callable[[_C], _C]:
    """Declare the value of a record that is kept in a topic: the versions we read, and the one we write."""
    constants = {"WRITTEN": written, **_spoken(versions, flexible)}
    return lambda cls: _declare(cls, Value, constants)


def _spoken(versions: str, flexible: str | None) -> dict[str, Any]:
    flexible_from = VERSION_MAX if flexible is None else Versions.parse(flexible).first
    return {"VERSIONS": tuple(Versions.parse(versions)), "FLEXIBLE_FROM": flexible_from}


def _declare(cls: _C, base: type[Struct], constants: dict[str, Any]) -> _C:
    """The class anew, with slots for its fields in place of their declarations."""
    assert cls.__base__ in (base, object), f"{cls.__name__} extends {cls.__base__}"
    body = dict(vars(cls))
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    declared = {name: value for name, value in body.items() if isinstance(value, Field)}
    for name in declared:
        del body[name]
    fields = tuple(each._replace(name=name) for name, each in declared.items())
    body |= constants | {"__slots__": tuple(declared), "FIELDS": fields, "__init__": _first_init}
    declared_class: _C = type(cls)(cls.__name__, (base,), body)
    return declared_class


def _first_init(self: Struct, **values: Any) -> None:
    """Stands in for ``__init__`` until the class is first constructed."""
    cls = type(self)
    cls.__init__ = _make_init(cls.FIELDS)  # type: ignore[method-assign]
    cls.__init__(self, **values)


def _make_init(fields: tuple[Field, ...]) -> Callable[..., None]:
    """A keyword-only ``__init__`` with one plain assignment per field."""
    namespace: dict[str, Any] = {"MISSING": _MISSING}
    parameters, body = [], []
    for index, each in enumerate(fields):
        if each.default is _MISSING and isinstance(each.type, Array | type):
            namespace[f"make{index}"] = list if isinstance(each.type, Array) else each.type
            parameters.append(f"{each.name}=MISSING")
            body.append(f"self.{each.name} = make{index}() if {each.name} is MISSING else {each.name}")
        else:
            namespace[f"default{index}"] = each.make_default()
            parameters.append(f"{each.name}=default{index}")
            body.append(f"self.{each.name} = {each.name}")
    signature = ", ".join(["self", "*", *parameters]) if parameters else "self"
    exec(f"def __init__({signature}):\n    " + "\n    ".join(body or ["pass"]), namespace)
    init: Callable[..., None] = namespace["__init__"]
    return init
