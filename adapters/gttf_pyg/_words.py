"""The words that arguments may be, and how to refuse others."""

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")


def one_of(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuses what is not among the options."""
    if value not in options:
        choices = ", ".join(map(repr, options))
        raise ValueError(f"'{name}' must be one of {choices} (got {value!r})")
