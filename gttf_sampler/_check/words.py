"""The one sentence that every refusal is."""

from typing import NoReturn


def fail(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the ValueError that every value check ends in."""
    raise ValueError(_sentence(name, rule, got, cure))


def mistyped(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the TypeError that every type check ends in."""
    raise TypeError(_sentence(name, rule, got, cure))


def _sentence(name: str, rule: str, got: object, cure: str) -> str:
    """Words an error: argument, rule, value received, and the cure if there is one."""
    try:
        received = str(got)
    except ValueError:  # Python does not write integers of thousands of digits
        received = kind_of(got)
    return f"'{name}' {rule} (got {received})" + (f"; {cure}" if cure else "")


def shown(value: object, most: int = 60) -> str:
    """`value` as Python writes it; what it is, if that is long or impossible."""
    try:
        text = repr(value)
    except Exception:  # of an object that was not meant to be printed
        text = ""
    if text and len(text) <= most and "\n" not in text:
        return text
    return kind_of(value)


def kind_of(value: object) -> str:
    """Describes the type of `value` in two or three words."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def readable(nbytes: int) -> str:
    """A number of bytes as a person writes it."""
    size, unit = float(nbytes), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
