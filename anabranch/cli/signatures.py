"""Commands that share options: their functions do not name these, a decorator adds them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any


def option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """An option of a command as a parameter: its name in Python, and its annotation for Typer."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def own_options(command: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function in their order, as `option` makes them."""
    found = inspect.signature(command, eval_str=True).parameters.values()
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in found]


def as_command(
    run: Callable[..., Any], command: Callable[..., Any], options: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """`run` with the name and the help of `command`, and with `options` for Typer.

    `run` gets every option by its name; those that a caller leaves out have their defaults.
    """
    signature = inspect.Signature(list(options), return_annotation=None)

    def filled(**given: Any) -> Any:
        bound = signature.bind(**given)
        bound.apply_defaults()
        return run(**bound.arguments)

    filled.__doc__ = command.__doc__
    filled.__name__ = command.__name__
    # Typer reads the options from the signature.
    filled.__signature__ = signature  # type: ignore[attr-defined]
    filled.__annotations__ = {}
    return filled
