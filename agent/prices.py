"""What an answer costs, by the model's name. A price that is not known is None, never a guess."""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import UserMistake
from .models.model import Usage

_DATED = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d|latest)")
_MILLION = 1_000_000


class PriceError(UserMistake):
    """A file of prices that cannot be used: names the file, what is wrong with it, and the remedy."""


class Price(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    cached: float = Field(ge=0)
    output: float = Field(ge=0)
    write: float | None = Field(default=None, ge=0)
    """For tokens written to the provider's cache; as `input` where None."""


def count(
    price: Price | None, *, input_tokens: int, output_tokens: int, cached_tokens: int = 0, cache_write_tokens: int = 0
) -> Usage:
    """The usage of one answer, with its cost where the price is known.

    input_tokens: the whole prompt; cached_tokens and cache_write_tokens are parts of it.
    """
    dollars = None
    if price is not None:
        write = price.input if price.write is None else price.write
        fresh = max(input_tokens - cached_tokens - cache_write_tokens, 0)
        dollars = (
            fresh * price.input
            + cached_tokens * price.cached
            + cache_write_tokens * write
            + output_tokens * price.output
        ) / _MILLION
    return Usage(
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        cache_write_tokens=cache_write_tokens,
        output_tokens=output_tokens,
        dollars=dollars,
    )


def find_price(model: str, *, list_prices: bool = True) -> Price | None:
    """The price of a model, from the user's file and then from the list that ships; None where neither has it.

    list_prices: False to leave out the list, as for a server other than the provider's own.

    Raises PriceError for a file of the user's that cannot be used.
    """
    path = user_file()
    own = _read(path.read_text(encoding="utf-8", errors="replace"), str(path)) if path else {}
    for table in (own, _shipped() if list_prices else {}):
        fitting = [name for name in table if _fits(name, model)]
        if fitting:
            return table[max(fitting, key=len)]
    return None


def user_file() -> Path | None:
    """The user's own prices: CODASMITH_PRICES, else codasmith/prices.toml in the configuration folder, if there."""
    named = os.environ.get("CODASMITH_PRICES")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise PriceError(f"CODASMITH_PRICES names {named}, which is not a file; correct it or unset it")
        return path
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = Path(folder).expanduser() / "codasmith" / "prices.toml"
    return path if path.is_file() else None


def _fits(name: str, model: str) -> bool:
    if name.endswith("*"):
        return model.startswith(name[:-1])
    return model == name or (model.startswith(name) and _DATED.fullmatch(model[len(name) :]) is not None)


@cache
def _shipped() -> dict[str, Price]:
    text = resources.files(__package__).joinpath("prices.toml").read_text(encoding="utf-8")
    return _read(text, "prices.toml")


def _read(text: str, where: str) -> dict[str, Price]:
    try:
        models = tomllib.loads(text).get("models")
    except tomllib.TOMLDecodeError as error:
        raise PriceError(f"{where} is not TOML: {error}; correct it or take it away") from None
    if not isinstance(models, dict):
        raise PriceError(f'{where} has no table of models; write [models."NAME"] for each model')
    return {name: _price(name, entry, where) for name, entry in models.items()}


def _price(name: str, entry: object, where: str) -> Price:
    try:
        return Price.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the entry"
        raise PriceError(
            f"{where}: in the price of {name!r}, {field}: {first['msg'].lower()}; "
            "give input, cached and output (and write, if it differs) in dollars per million tokens"
        ) from None
