"""Prepares docstrings for `make docs`: shows doctests, fails on a missing one.

A griffe extension, named in mkdocs.yml. The doctests stand in the text of a docstring,
where Markdown would take `>>>` for quotations.
"""

import re
from typing import Any

from griffe import Alias, Docstring, Extension, GriffeLoader, Module, Object
from mkdocs.plugins import get_plugin_logger

PACKAGES = ("gttf_sampler", "gttf_pyg", "gttf_dgl")
DOCTEST = re.compile(r"^>>> .*\n?(?:^(?!\s*$).*\n?)*", re.MULTILINE)

log = get_plugin_logger("docstrings")


class Docstrings(Extension):
    """Fences doctests, and warns of public names without a docstring."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Puts the doctests of a docstring into fences."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **kwargs: Any) -> None:
        """Warns, which fails a strict build."""
        if pkg.path in PACKAGES:
            for name in undocumented(pkg):
                log.warning("%s has no docstring", name)


def fenced(text: str) -> str:
    """`text` with a fence around every doctest."""
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


def undocumented(package: Module) -> list[str]:
    """The public names of a package and of its public subpackages, with members."""
    missing = [] if _told(package.docstring) else [package.path]
    for name in package.exports or []:
        missing += _of(package.members[str(name)])
    for name, part in package.modules.items():
        if not name.startswith("_") and part.exports:
            missing += undocumented(part)
    return missing


def _of(obj: Object | Alias) -> list[str]:
    """The name of `obj` and of its public members, where they have no docstring."""
    missing = [] if _told(obj.docstring) else [obj.path]
    if obj.is_class:
        for name, member in obj.members.items():
            if not name.startswith("_") and member.is_function:
                missing += [] if _told(member.docstring) else [member.path]
    return missing


def _told(docstring: Docstring | None) -> bool:
    return docstring is not None and bool(docstring.value.strip())
