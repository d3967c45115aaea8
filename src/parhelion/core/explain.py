"""Messages for validation errors: the path of the field in the file, and the accepted values.

Pydantic reports a location and a type of error. Everything else is derived from the annotations. The location is
followed through types and data together, so that the path matches the file and the text states what the type at that
place accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from parhelion.core.errors import ConfigError, nearest_name

Location = tuple[int | str, ...]


class _Absent:
    """Marks the value of a field that is missing in the file."""


@dataclass(frozen=True)
class _Problem:
    path: Location
    text: str
    instead: Location | None = None
    """Path of the field that the user probably meant."""
    is_derived: bool = False
    """True for a default value that depends on an invalid field."""


@dataclass(frozen=True)
class _Slot:
    """One place in a file, with the type that it accepts."""

    annotation: Any = Any
    """Type without `Annotated` and without None."""
    metadata: tuple[Any, ...] = ()
    """Arguments of `Annotated`."""
    name: str = ""
    """Name of the field, which ends in the unit."""
    owner: type[BaseModel] | None = None
    """Model that has this field; None for entries of lists and mappings."""

    def limit(self, name: str) -> Any:
        """Constraint or description by its name in `Field`, for example `ge`; None without one."""
        flat = [inner for one in self.metadata for inner in (one, *getattr(one, "metadata", ()))]
        return next((found for one in flat if (found := getattr(one, name, None)) is not None), None)

    @property
    def tag(self) -> str | None:
        """Name of the field that selects the member of a union."""
        found = self.limit("discriminator")
        return found if isinstance(found, str) else None

    @property
    def members(self) -> list[_Slot]:
        """Alternatives of a union without None; for other types, the slot itself."""
        if get_origin(self.annotation) not in (Union, UnionType):
            return [self]
        inner = [_slot(one, name=self.name) for one in get_args(self.annotation) if one is not NoneType]
        return [one for member in inner for one in (member.members if member.tag is None else [member])]

    @property
    def model(self) -> type[BaseModel] | None:
        """Model class, if the type is a model."""
        is_model = isinstance(self.annotation, type) and issubclass(self.annotation, BaseModel)
        return self.annotation if is_model else None

    @property
    def literals(self) -> tuple[Any, ...]:
        """Values of a `Literal` type."""
        return get_args(self.annotation) if get_origin(self.annotation) is Literal else ()

    def member(self, tag: Any) -> _Slot | None:
        """Member of a tagged union that a tag selects."""
        return next((one for one in self.members if tag in self.tags(one)), None)

    def tags(self, member: _Slot) -> tuple[Any, ...]:
        """Tags of one member."""
        return () if member.model is None else _slot(member.model.model_fields[self.tag or ""]).literals

    def child(self, part: int | str, value: Any) -> _Slot:
        """Slot of the field or entry with a name or number."""
        if self.model is not None:
            field = _field(self.model, str(part), value)
            return replace(field, name=self.name) if unit_of(self.name) and not unit_of(field.name) else field
        origin, inner = get_origin(self.annotation), get_args(self.annotation)
        if origin is tuple and inner[-1:] != (Ellipsis,):
            return _slot(inner[part], name=self.name) if isinstance(part, int) and part < len(inner) else _Slot()
        if origin in (list, tuple, Sequence, dict, Mapping):
            return _slot(inner[1 if origin in (dict, Mapping) else 0], name=self.name)
        return _Slot()

    def fits(self, value: Any) -> bool:
        """Return whether a value has the right kind: mapping, list, text or number."""
        origin = get_origin(self.annotation) or self.annotation
        if self.tag is not None or self.model is not None or origin in (dict, Mapping):
            return isinstance(value, dict)
        if origin in (list, tuple, Sequence):
            return isinstance(value, (list, tuple))
        if self.literals:
            return isinstance(value, tuple(map(type, self.literals)))
        if origin in (int, float):
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return origin is Any or (isinstance(origin, type) and isinstance(value, origin))

    def errors(self, value: Any) -> list[ErrorDetails]:
        """Validation errors of a value in this slot."""
        parts = (self.annotation, *self.metadata)
        whole: Any = Annotated[parts] if self.metadata else self.annotation
        try:
            TypeAdapter(whole).validate_python(value)
        except ValidationError as error:
            return error.errors(include_url=False)
        return []

    def takes(self, value: Any) -> bool:
        """Return whether a value is valid in this slot."""
        try:
            return self.annotation is not Any and not self.errors(value)
        except (ConfigError, TypeError, PydanticUserError):
            return False


def _slot(annotation: Any, name: str = "", owner: type[BaseModel] | None = None) -> _Slot:
    metadata: tuple[Any, ...] = ()
    if isinstance(annotation, FieldInfo):
        tag = annotation.discriminator
        metadata = (*annotation.metadata, *((Field(discriminator=tag),) if tag is not None else ()))
        metadata += tuple(
            Field(**{word: text})
            for word in ("description", "examples", "json_schema_extra")
            if (text := getattr(annotation, word))
        )
        annotation = annotation.annotation
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata = (*more, *metadata)
        elif get_origin(annotation) in (Union, UnionType):
            members = [one for one in get_args(annotation) if one is not NoneType]
            if len(members) > 1:
                break
            (annotation,) = members
        else:
            break
    return _Slot(annotation, metadata, name, owner)


def _field(model: type[BaseModel], name: str, data: Any) -> _Slot:
    """Slot of one field of a model whose other values are `data`."""
    type_of = getattr(model, "type_of", None)  # a method of Config
    special = type_of(name, data) if type_of is not None and isinstance(data, dict) else None
    by_alias = (field for field in model.model_fields.values() if field.alias == name)
    found = special or model.model_fields.get(name) or next(by_alias, None)
    return _Slot() if found is None else _slot(found, name, model)


_MOST_ERRORS = 200
"""Number of errors that are explained: one sentence names five, and a file may have 100 000."""


def explained(annotation: Any, value: Any, error: ValidationError, field: str = "") -> str:
    """One sentence with all problems of a value; `field` is the path of the value."""
    found = list(_problems(_slot(annotation), value, (), error.errors(include_url=False)[:_MOST_ERRORS]))
    own = [one for one in found if not one.is_derived] or found
    covered = {one.instead for one in own} | {one.path[:depth] for one in own for depth in range(len(one.path))}
    lines: dict[tuple[Any, ...], str] = {}
    for one in own:
        is_entry = bool(one.path) and isinstance(one.path[-1], int)
        if one.path not in covered:  # the same problem in several entries of a list is reported once
            path = ".".join(filter(None, (field, _path(one.path)))).replace(".[", "[")
            lines.setdefault(
                (one.path[:-1] if is_entry else one.path, one.text), f"{path}: {one.text}" if path else one.text
            )
    texts = list(lines.values())
    return "; ".join(texts[:5]) + (f"; and {len(texts) - 5} more" if len(texts) > 5 else "")


def _problems(slot: _Slot, value: Any, path: Location, errors: list[ErrorDetails]) -> Iterator[_Problem]:
    unions: set[Location] = set()
    for error in errors:
        location = error["loc"]
        at_container = error["type"] in ("extra_forbidden", "invalid_key") or (
            error["type"] == "missing" and isinstance(location[-1], int)
        )
        found, at, where, rest = _follow(slot, value, location[:-1] if at_container else location)
        where = path + where
        if rest:
            yield from _of_union(found, at, where, rest, error, known=where in unions)
            unions.add(where)
        elif error["type"] == "extra_forbidden":
            yield _unknown(found, at, where, str(location[-1]))
        elif found.tag is not None and isinstance(at, dict):
            yield _tag_problem(found, at, where)
        else:
            is_derived = at is _Absent and error["type"] != "missing"
            yield _Problem(where, _text_of(error, found, at), is_derived=is_derived)


def _follow(slot: _Slot, value: Any, location: Location) -> tuple[_Slot, Any, Location, Location]:
    """Type, value and path in the file at a location, and the remaining location if a union is reached.

    The path omits parts that are not in the file: names of union members, and fields that a short form expands to.
    """
    path: Location = ()
    short: tuple[Any, Location] | None = None
    for depth, part in enumerate(location):
        if slot.tag is not None:
            slot = slot.member(part) or _Slot()
            continue
        if len(slot.members) > 1:
            return slot, value, path, location[depth:]
        slot = slot.child(part, value)
        if (isinstance(value, dict) and part in value) or (_is_list(value) and part in range(len(value))):
            path, value = (*path, part), value[part]
        elif isinstance(value, dict) or value is _Absent:
            path, value = (*path, part), _Absent
        elif isinstance(part, str):
            short = short or (value, path)
    if short is not None and slot.fits(short[0]) and not slot.fits(value):
        value, path = short
    return slot, value, path, ()


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _of_union(
    slot: _Slot, value: Any, path: Location, rest: Location, error: ErrorDetails, *, known: bool
) -> Iterator[_Problem]:
    """Problems of the union member that fits a value best, or the values that all members accept.

    If an earlier error explained the value (`known`), nothing is repeated: a list has one error per entry and member.
    """
    if known:
        return
    tried = [(member, member.errors(value)) for member in slot.members if member.fits(value)]
    member, errors = min(
        ((one, found) for one, found in tried if found), key=lambda pair: len(pair[1]), default=(slot, [])
    )
    if any(one["loc"] or one["type"] == "value_error" for one in errors):
        yield from _problems(member, value, path, errors[:_MOST_ERRORS])
    elif errors or not tried:
        yield _Problem(path, _expected(slot, value))
    else:  # the types accept the value, but a validator of the field does not
        _, value, below, _ = _follow(_Slot(), value, rest)
        yield _Problem(path + below, _text_of(error, _Slot(name=slot.name), value))


def _unknown(slot: _Slot, value: Any, path: Location, name: str) -> _Problem:
    model = slot.model or BaseModel
    fields = list(model.model_fields)
    with_unit = [field for field in fields if field.startswith(f"{name}_") and unit_of(field)]
    inside = [field for field in fields if name in _inner_fields(_field(model, field, value))]
    nearest = next(iter(with_unit), None) or (None if inside else _nearest_field(name, fields))
    if nearest is not None:
        return _Problem((*path, name), f"unknown field; did you mean {nearest!r}?", (*path, nearest))
    if inside:
        return _Problem((*path, name), f"unknown field; write {inside[0]}: {in_yaml({name: value[name]})}")
    known = ", ".join(fields[:12]) + (", ..." if len(fields) > 12 else "")
    return _Problem((*path, name), "unknown field" + (f"; known: {known}" if known else ""))


def _inner_fields(slot: _Slot) -> set[str]:
    """Fields of the models that a field accepts."""
    return {field for member in slot.members if member.model is not None for field in member.model.model_fields}


def _nearest_field(name: str, fields: list[str]) -> str | None:
    """Known field that is probably meant: alike in most letters, with the same beginning, or with it as a word."""
    nearest = nearest_name(name, fields)
    if nearest is None:
        return None
    alike = SequenceMatcher(None, name.lower(), nearest.lower()).ratio() >= 0.75
    return nearest if alike or name[:4].lower() == nearest[:4].lower() or name in nearest.split("_") else None


def _text_of(error: ErrorDetails, slot: _Slot, value: Any) -> str:
    """Message for one validation error."""
    kind, given = error["type"], error.get("input")
    if kind in ("value_error", "assertion_error"):
        text = str(error.get("ctx", {}).get("error", "")) or "is not allowed"
        is_stated = re.search(r"\bgot\b", text) or (isinstance(given, str) and _shown(given) in text)
        return text + (f", {got(given)}" if _is_scalar(given) and not is_stated else "")
    if kind == "recursion_loop":
        return "must not contain itself"
    if kind == "invalid_key":
        return f"expected text as the name of a field, {got(given)}"
    if value is _Absent:
        what = _described(slot)
        return "is required" + (f" ({what})" if what else "")
    if slot.annotation is Any:
        what = next((text for word, text in _BY_TYPE.items() if kind.startswith(word)), "another value")
        return f"expected {what}, {got(given)}"
    return _expected(slot, value)


_BY_TYPE = {
    "float": "a number", "finite": "a finite number", "int": "a whole number", "string": "text",
    "bool": "true or false", "list": "a list", "tuple": "a list", "too_short": "a longer list",
    "too_long": "a shorter list", "dict": "a mapping", "model": "a mapping", "missing": "another entry",
}  # fmt: skip
"""Expected values by the first word of the error type, for places without an annotation."""


def _tag_problem(slot: _Slot, value: dict[Any, Any], path: Location) -> _Problem:
    """Problem of the field that selects the member of a union."""
    tags = [tag for member in slot.members for tag in slot.tags(member)]
    name = slot.tag or ""
    if name not in value:
        return _Problem((*path, name), f"is required ({_one_of(tags)})")
    return _Problem((*path, name), f"expected {_one_of(tags)}, {got(value[name])}{_meant(value[name], tags)}")


def _expected(slot: _Slot, value: Any) -> str:
    """Message that states the accepted values, and a correction if one is likely."""
    short = _short_form(slot, value)
    what = in_yaml(short) if short is not None else _described(slot) or "another value"
    if isinstance(value, float) and not math.isfinite(value):
        what = what.replace("a number", "a finite number", 1)
    text = f"expected {what}, {got(value)}"
    words = [word for member in slot.members for word in member.literals]
    if isinstance(value, str):
        text += _meant(value, words)
        number = _in_unit(value, unit_of(slot.name))
        if number and slot.takes(number):
            text += f"; write {number}"
    sibling = _sibling(slot, short) if isinstance(short, dict) else None
    return text + (f"; or write {sibling}: {in_yaml(value)}" if sibling else "")


_SIZES = {
    "s": ("s", 1.0), "sec": ("s", 1.0), "seconds": ("s", 1.0), "ms": ("s", 1e-3), "us": ("s", 1e-6), "ns": ("s", 1e-9),
    "min": ("s", 60.0), "minutes": ("s", 60.0), "h": ("s", 3600.0), "hours": ("s", 3600.0),
    "m": ("m", 1.0), "km": ("m", 1e3), "cm": ("m", 1e-2), "mm": ("m", 1e-3), "um": ("m", 1e-6), "nm": ("m", 1e-9),
    "hz": ("hz", 1.0), "khz": ("hz", 1e3), "mhz": ("hz", 1e6), "ghz": ("hz", 1e9),
    "degrees": ("rad", math.pi / 180.0), "deg": ("rad", math.pi / 180.0), "°": ("rad", math.pi / 180.0),
    "rad": ("rad", 1.0), "mrad": ("rad", 1e-3), "m/s": ("m/s", 1.0), "km/h": ("m/s", 1.0 / 3.6), "px": ("pixels", 1.0),
}  # fmt: skip
"""Quantity and size of the units that users write after a number."""


def _in_unit(text: str, unit: str) -> str | None:
    """Number of a text such as '2 min' in the unit of a field; None if the text has no number or another quantity."""
    found = re.match(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([^\d\s]\S*)$", text)
    if found is None:
        return None
    given = found[2].lower()
    if not unit or given == unit.lower():
        return found[1]
    (quantity, size), (wanted, wanted_size) = _SIZES.get(given, ("", 1.0)), _SIZES.get(unit.lower(), (unit, 1.0))
    try:
        factor = size / wanted_size
        return None if quantity != wanted else found[1] if factor == 1.0 else f"{float(found[1]) * factor:.6g}"
    except ValueError:
        return None


def _meant(value: Any, options: list[Any]) -> str:
    nearest = nearest_name(value, [one for one in options if isinstance(one, str)]) if isinstance(value, str) else None
    return f"; did you mean {nearest!r}?" if nearest else ""


def _short_form(slot: _Slot, value: Any) -> Any:
    """Mapping or list that a short form probably stands for; None if there is no match."""
    if value is None or any(member.fits(value) for member in slot.members):
        return None
    for member in slot.members:
        if member.tag is not None and isinstance(value, str):
            tags = [tag for one in member.members for tag in member.tags(one)]
            tag = nearest_name(value, tags)
            chosen = member.member(tag)
            if chosen is not None and chosen.model is not None:
                return {member.tag: tag, **{name: ... for name in _required(chosen.model) if name != member.tag}}
        elif member.model is not None:
            required = _required(member.model)
            if isinstance(value, str) and value in member.model.model_fields:
                return {value: ..., **{other: ... for other in required if other != value}}
            names = [*required, *(name for name in member.model.model_fields if name not in required)]
            for name in names:
                others = [other for other in required if other != name]
                if _field(member.model, name, {}).takes(value) and (others or member.takes({name: value})):
                    return {name: value, **dict.fromkeys(others, ...)}
        elif get_origin(member.annotation) in (list, Sequence) and not _is_list(value):
            item = member.child(0, value)
            inner = value if item.annotation is Any or item.takes(value) else _short_form(item, value)
            if inner is not None:
                return [inner]
    return None


def _sibling(slot: _Slot, short: dict[str, Any]) -> str | None:
    """Field of the same model that is a short form: `rain_rate_mm_h` for `rain: {rate_mm_h: 10}`."""
    fields = {} if slot.owner is None else slot.owner.model_fields
    name = next(iter(short))
    return next((one for one in (f"{slot.name}_{name}", name) if one in fields and len(short) == 1), None)


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


# ---- types in words ------------------------------------------------------------------------------------------------


def _described(slot: _Slot, many: bool = False) -> str:
    """Description of the accepted values, in the plural for `many` entries; empty if any value is accepted."""
    options = _options(slot)
    text = slot.limit("description") or (_one_of(options) if options else _type_in_words(slot, many))
    examples = slot.limit("examples")
    return text + (f", for example {in_yaml(examples[0])}" if text and examples else "")


def _options(slot: _Slot) -> list[Any]:
    """Accepted values from the JSON schema of a field, for values that a validator checks and the type does not."""
    extra, schema = slot.limit("json_schema_extra"), dict[str, Any]()
    if callable(extra):
        extra(schema)
    return list(schema.get("enum", ()))


def _type_in_words(slot: _Slot, many: bool) -> str:
    origin, inner = get_origin(slot.annotation) or slot.annotation, get_args(slot.annotation)
    if slot.tag is not None:
        tags = [tag for member in slot.members for tag in slot.tags(member)]
        return f"{'mappings' if many else 'a mapping'} with {slot.tag}: {_one_of(tags)}"
    if len(slot.members) > 1:
        return " or ".join(dict.fromkeys(filter(None, (_described(one, many) for one in slot.members))))
    if slot.literals:
        return _one_of(list(slot.literals))
    if slot.model is not None:
        required = _required(slot.model)
        if required:
            return ("mappings " if many else "") + in_yaml({name: _only_value(slot.model, name) for name in required})
        return f"{'mappings' if many else 'a mapping'} with some of: {', '.join(list(slot.model.model_fields)[:8])}"
    if origin in (int, float):
        word = "whole number" if origin is int else "number"
        return (f"{word}s" if many else f"a {word}") + _range_in_words(slot)
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return (
            f"{'lists' if many else 'a list'} of {len(inner)} {_described(slot.child(0, None), many=True) or 'entries'}"
        )
    if origin in (list, tuple, Sequence):
        return _list_in_words(slot, many)
    if origin in (dict, Mapping):
        entries = _described(slot.child("", None))
        return f"{'mappings' if many else 'a mapping'}" + (f" from names to {entries}" if entries else "")
    return {bool: "true or false", str: "texts" if many else "text"}.get(origin, "")


def _only_value(model: type[BaseModel], name: str) -> Any:
    literals = _field(model, name, {}).literals
    return literals[0] if len(literals) == 1 else ...


def _list_in_words(slot: _Slot, many: bool) -> str:
    entries = _described(slot.child(0, None), many=True) or "entries"
    least, most = slot.limit("min_length"), slot.limit("max_length")
    word = (
        ("lists" if many else "list")
        if least != 1 or most is not None
        else "non-empty lists"
        if many
        else "non-empty list"
    )
    count = f"{least or 0} to {most} " if most is not None else f"at least {least} " if least and least > 1 else ""
    return f"{'' if many else 'a '}{word} of {count}{entries}"


def _range_in_words(slot: _Slot) -> str:
    unit = unit_of(slot.name)
    low, above = slot.limit("ge"), slot.limit("gt")
    high, below = slot.limit("le"), slot.limit("lt")
    if low is not None and high is not None:
        text = f" from {_number(low)} to {_number(high)}"
    else:
        bounds = {"of at least": low, "above": above, "up to": high, "below": below}
        text = " and".join(f" {word} {_number(bound)}" for word, bound in bounds.items() if bound is not None)
    step = slot.limit("multiple_of")
    return (f"{text} {unit}" if text else f" in {unit}" if unit else "").rstrip() + (
        f", a multiple of {step}" if step else ""
    )


def _number(value: float) -> str:
    if isinstance(value, int) and abs(value) < 10**7:
        return str(value)
    return f"{value:.12g}" if abs(value) < 1e7 else f"{value:.6g}".replace("e+", "e").replace("e0", "e")


UNITS = {
    "1_rad": "1/rad", "1_s": "1/s", "c": "degrees Celsius", "cd": "cd", "db": "dB", "dba": "dB(A)", "dbhz": "dB-Hz",
    "dbi": "dBi", "dbm": "dBm", "deg": "degrees", "deg_h": "degrees/h", "deg_s": "degrees/s",
    "deg_s_g": "degrees/s/g", "deg_s_sqrt_hz": "degrees/s/sqrt(Hz)", "n_s2_m": "N s^2/m", "n_s2_m2": "N s^2/m^2",
    "per_m": "1/m", "ug_sqrt_hz": "ug/sqrt(Hz)", "xyz": "m", "e_s": "electrons/s",
    "g": "g", "ghz": "GHz", "hz": "Hz", "k": "K", "kg": "kg", "kg_m2": "kg m^2", "kg_m3": "kg/m^3", "khz": "kHz",
    "klx": "klx", "kpa": "kPa", "lm": "lm", "m": "m", "m2": "m^2", "m2_kg": "m^2/kg", "m_s": "m/s", "m_s2": "m/s^2",
    "mg": "mg", "mhz": "MHz", "mk": "mK", "mm": "mm", "mm_h": "mm/h", "mrad": "mrad", "ms": "ms", "n": "N",
    "nm": "nm", "ns": "ns", "pa": "Pa", "percent": "%", "ppm": "ppm", "px": "pixels", "rad": "rad", "rad_s": "rad/s",
    "rad_s2": "rad/s^2", "rpm": "rpm", "s": "s", "ug": "ug", "um": "um", "us": "us", "ut": "uT",
}  # fmt: skip
"""Units by suffix of field names."""


def unit_of(name: str) -> str:
    """Unit in the suffix of a field name; empty without one."""
    words = name.split("_")
    ends = ("_".join(words[start:]) for start in range(max(0, len(words) - 4), len(words)))
    return next((UNITS[end] for end in ends if end in UNITS), "")


def _one_of(options: list[Any]) -> str:
    words = [repr(one) if isinstance(one, str) else str(one) for one in options]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) or value is None


def got(value: Any) -> str:
    """Text 'got ...' with the value if it is short, otherwise with its type."""
    if _is_scalar(value):
        return f"got {_shown(value)}"
    if isinstance(value, (list, tuple, dict)):
        text = in_yaml(value)
        entries = f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
        return (
            f"got {text}"
            if text and len(text) <= 60
            else f"got a {'mapping' if isinstance(value, dict) else 'list'} of {entries}"
        )
    return f"got {type(value).__name__}"


def in_yaml(value: Any, depth: int = 3) -> str:
    """Value as one line of YAML."""
    if value is ... or depth < 0:
        return "..."
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{in_yaml(key, 0)}: {in_yaml(one, depth - 1)}" for key, one in islice(value.items(), 20))
            + "}"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(in_yaml(one, depth - 1) for one in value[:20]) + "]"
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z][\w./ -]{0,60}", value) else _shown(value)
    return _shown(value) if _is_scalar(value) else type(value).__name__


def _path(location: Location) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            word = shortened(part if part.isprintable() and "." not in part else repr(part))
            text += f".{word}" if text else word
    return text


def shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:60] + " ..."


def _shown(value: str | int | float | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"  # Python raises an error when it prints very long integers
    return shortened(repr(value[:100] if isinstance(value, str) else value))
