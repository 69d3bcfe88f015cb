"""The reference of a package, made of the docstrings of its public names.

A page lists its names, in the order of its reader: `<!-- members: spout_sdk.state StatefulBolt DELETE -->`. The markers
of a page list exactly the names that each of their modules exports; otherwise the build ends.
"""

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mkdocs.exceptions import PluginError

_MARKER: Final = re.compile(r"^<!-- members: (\w[\w.]*)((?: \w+)+) -->$", re.MULTILINE)
_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):\n((?:[ \t]+\S.*\n?|\n)+)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\*{0,2}\w[\w., ]*): ", re.MULTILINE)
_HEADINGS: Final = {"Args": "Arguments"}
_LONGEST_LINE: Final = 100
_OURS: Final = ("spout_sdk", "spark_jobs", "local_kafka", "tuple_tree", "kafka_clients")


def check(markdown: str, uri: str) -> None:
    """Ends the build if the markers of a page do not list the names that a package exports."""
    listed: dict[str, list[str]] = {}
    for found in _MARKER.finditer(markdown):
        listed.setdefault(found[1], []).extend(found[2].split())
    for package, names in listed.items():
        exported = set(importlib.import_module(package).__all__)
        wrong = exported ^ set(names)
        if wrong or len(names) != len(set(names)):
            raise PluginError(
                f"{uri} lists {package}: {', '.join(sorted(wrong)) or 'a name'} is missing in one of its page and "
                f"`{package}.__all__`, or is there twice; fix the `members` markers of the page"
            )


def filled_in(markdown: str) -> str:
    """A page with the reference of the names that its markers list."""
    return _MARKER.sub(lambda found: "\n".join(_member(found[1], name) for name in found[2].split()), markdown)


def text_of(docstring: str | None) -> str:
    """A docstring as Markdown: its sections become lists."""
    return _SECTION.sub(_section, inspect.cleandoc(docstring or "") + "\n").strip()


def _section(found: re.Match[str]) -> str:
    body = textwrap.dedent(found[2]).strip("\n")
    heading = f"*{_HEADINGS.get(found[1], found[1])}*\n\n"
    if found[1] in ("Returns", "Yields") or not _ENTRY.match(body):
        return f"{heading}{body}\n\n"
    entries = re.split(r"\n(?=\S)", body)
    return heading + "\n".join("- " + _ENTRY.sub(r"`\1`: ", entry, count=1) for entry in entries) + "\n\n"


def _member(package: str, name: str) -> str:
    value = getattr(importlib.import_module(package), name)
    if not callable(value):
        return f"### {name} {{#{name}}}\n\n{text_of(type(value).__doc__)}\n"
    return "\n\n".join(_class(name, value) if inspect.isclass(value) else _function(name, value)) + "\n"


def _class(name: str, cls: type) -> Iterator[str]:
    yield f"### {name} {{#{name}}}"
    bases = [base.__name__ for base in cls.__bases__ if base is not object and (_is_public(base) or not _is_ours(base))]
    yield _code(_class_line(name, bases, cls))
    yield text_of(cls.__doc__)
    if issubclass(cls, enum.Enum):
        yield "\n".join(f"- `{each.name}` = {each.value}" for each in cls)
    for method, function in _methods(cls):
        yield f"#### {name}.{method} {{#{name}.{method}}}"
        yield _code(_signature(method, function))
        yield text_of(inspect.getdoc(function))


def _class_line(name: str, bases: list[str], cls: type) -> str:
    line = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    arguments = _parameters(cls)
    return f"{line}\n\n{_wrapped(name, arguments, '')}" if arguments is not None else line


def _parameters(cls: type) -> list[str] | None:
    """The arguments of a class; None if users do not call it, or if they are obvious."""
    init = cls.__dict__.get("__init__")
    if not inspect.isfunction(init) or not (dataclasses.is_dataclass(cls) or "Args:" in (cls.__doc__ or "")):
        return None
    if "def __init__(" in inspect.getsource(cls):
        return _arguments(init)
    return [_field(each) for each in dataclasses.fields(cls) if each.init]


def _field(field: "dataclasses.Field[Any]") -> str:
    """A field of a dataclass as an argument; types go by their last name."""
    kind = re.sub(r"(?:\w+\.)+(\w+)", r"\1", inspect.formatannotation(field.type)).replace("'", "")
    if field.default is not dataclasses.MISSING:
        return f"{field.name}: {kind} = {field.default!r}"
    return f"{field.name}: {kind}" + ("" if field.default_factory is dataclasses.MISSING else " = ...")


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, also those of bases that are ours, unless a public base has them.

    A method without a docstring is left out: that of its base describes it.
    """
    seen: set[str] = set()
    public = [base for base in cls.__mro__[1:] if _is_public(base)]
    for base in cls.__mro__:
        if not _is_ours(base) or any(base in each.__mro__ for each in public):
            continue
        for method, value in vars(base).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if method.startswith("_") or method in seen or not inspect.isfunction(function):
                continue
            if not function.__doc__:
                continue
            seen.add(method)
            yield method, function


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith(_OURS)


def _is_public(cls: type) -> bool:
    return _is_ours(cls) and cls in _exported(cls.__module__.partition(".")[0])


@functools.cache
def _exported(package: str) -> frozenset[Any]:
    """The exported objects of a package and its modules."""
    top = importlib.import_module(package)
    modules = [top, *(importlib.import_module(f"{package}.{each.name}") for each in pkgutil.iter_modules(top.__path__))]
    return frozenset(getattr(module, name) for module in modules for name in getattr(module, "__all__", ()))


def _function(name: str, value: Any) -> Iterator[str]:
    yield f"### {name} {{#{name}}}"
    if inspect.isfunction(value):
        yield _code(_signature(name, value))
        yield text_of(value.__doc__)
    else:
        yield _code(f"{name} = {str(value).replace('typing.', '').replace('collections.abc.', '')}")


def _signature(name: str, function: Any) -> str:
    definition = _definition(function)
    decorators = "".join(f"@{ast.unparse(each)}\n" for each in definition.decorator_list)
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    kind = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    return decorators + _wrapped(f"{kind} {name}", _arguments(function), returns.replace("'", ""))


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    module = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    (definition,) = (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return definition


def _arguments(function: Any) -> list[str]:
    """Each argument but `self` as it stands in the source, with its type and default."""
    given = _definition(function).args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))):
        if isinstance(argument.annotation, ast.Constant):  # a quoted name
            argument.annotation = ast.parse(str(argument.annotation.value), mode="eval").body
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults)) + [*given.defaults]
    known = inspect.unwrap(function).__globals__
    texts = [_argument(each, default, known) for each, default in zip(plain, defaults, strict=True)]
    if plain and plain[0].arg in ("self", "cls"):
        del texts[0]
    if given.vararg:
        texts.append(f"*{ast.unparse(given.vararg)}")
    elif given.kwonlyargs:
        texts.append("*")
    texts += [_argument(*each, known) for each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*texts, f"**{ast.unparse(given.kwarg)}"] if given.kwarg else texts


def _argument(argument: ast.arg, default: ast.expr | None, known: Mapping[str, Any]) -> str:
    if default is None:
        return ast.unparse(argument)
    text = ast.unparse(default)
    # Of a constant, what it is says more than its name.
    if isinstance(default, ast.Name):
        value = known.get(text, default)
        text = repr(value) if isinstance(value, int | float | str) else "..." if text.startswith("_") else text
    return f"{ast.unparse(argument)}{' = ' if argument.annotation else '='}{text}"


def _wrapped(head: str, arguments: list[str], tail: str) -> str:
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{head}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){tail}"


def _code(text: str) -> str:
    return f"```py\n{text}\n```"
