"""How often and how long a model is asked again."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from .model import ModelError, OnText

T = TypeVar("T")
log = logging.getLogger("codasmith.models")

# These cost a whole answer each, in time or in tokens, so they are tried once more and not again.
COSTLY = ("cut-off", "timeout")
AGAIN = "\n[the answer broke off; asking again from the start]\n"


@dataclass(frozen=True)
class Patience:
    """Limits to asking again. The SDKs' own retries are switched off, so these are the only ones."""

    attempts: int = 6
    wait: float = 180.0
    """Seconds to wait between attempts, all waits of one question together."""
    first: float = 1.0
    """Scale of the random exponential back-off, in seconds."""
    longest: float = 30.0
    """The longest single back-off; a server's Retry-After may ask for more."""
    sleep: Callable[[float], None] = time.sleep


def ask_patiently(once: Callable[[OnText | None], T], patience: Patience, on_text: OnText | None = None) -> T:
    """Call `once` until it answers, fails for good, or the limits are reached.

    Only a ModelError marked retryable is retried. A Retry-After longer than the wait that is left ends it at once.

    on_text: handed to `once`; told in a line of its own when an answer that had begun starts again.
    """
    costly = 0
    heard = False
    backoff = tenacity.wait_random_exponential(multiplier=patience.first, max=patience.longest)

    def hear(piece: str) -> None:
        nonlocal heard
        heard = True
        assert on_text is not None
        on_text(piece)

    def worth_it(error: BaseException) -> bool:
        nonlocal costly
        if not isinstance(error, ModelError) or not error.retryable:
            return False
        costly += error.kind in COSTLY
        return costly < 2

    def wait(state: tenacity.RetryCallState) -> float:
        asked = _error(state).retry_after
        if asked is None:
            return backoff(state)
        return asked + random.uniform(0, patience.first)  # so that many workers do not come back as one

    def exhausted(state: tenacity.RetryCallState) -> bool:
        waited = state.idle_for + state.upcoming_sleep
        return state.attempt_number >= patience.attempts or waited > patience.wait

    def tell(state: tenacity.RetryCallState) -> None:
        nonlocal heard
        log.info("%s; asking again in %.1f s", _error(state), state.upcoming_sleep)
        if heard and on_text is not None:
            on_text(AGAIN)
        heard = False

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(worth_it),
        wait=wait,
        stop=exhausted,
        sleep=patience.sleep,
        before_sleep=tell,
        reraise=True,
    )
    try:
        return retrying(once, None if on_text is None else hear)
    except ModelError as error:
        failure = error
    times = retrying.statistics["attempt_number"]
    if times > 1:
        failure.message += f" (asked {times} times)"
    raise failure


def _error(state: tenacity.RetryCallState) -> ModelError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, ModelError)
    return error
