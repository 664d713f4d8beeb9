"""Where a hosted model is asked, and with which key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from .model import ModelError

OWN_ADDRESS = {"OpenAI": "https://api.openai.com/v1", "Anthropic": "https://api.anthropic.com"}


@dataclass(frozen=True)
class Endpoint:
    """One API at one address. Its repr shows no secret."""

    provider: str
    """"OpenAI" or "Anthropic": the API that is spoken there, whoever serves it."""
    url: SecretStr
    """Secret, because an address may carry a password."""
    key: SecretStr
    variable: str
    """Where the key came from."""

    @property
    def host(self) -> str:
        """The address as it may be shown: host and port."""
        parts = urlsplit(self.url.get_secret_value())
        return (parts.hostname or "") + (f":{parts.port}" if parts.port else "")

    @property
    def own(self) -> bool:
        """Whether the provider itself serves it, so that its list prices hold."""
        return self.host == urlsplit(OWN_ADDRESS[self.provider]).hostname

    def without_secrets(self, text: str) -> str:
        """The text with key and password struck out, should a server have echoed them."""
        parts = urlsplit(self.url.get_secret_value())
        for secret in (self.key.get_secret_value(), parts.password):
            if secret and len(secret) >= 8:  # anything shorter is a placeholder, and a part of ordinary words
                text = text.replace(secret, "[secret]")
        return text


_NO_KEY = "none"


def find_endpoint(provider: str, base_url: str | None = None, key_env: str | None = None) -> Endpoint:
    """The address from `base_url`, else PROVIDER_BASE_URL, else the provider's own; the key from PROVIDER_API_KEY.

    key_env: the variable that holds the key instead, where there are several. Never the key itself: arguments are
        seen by every process of the machine, and stay in the shell's history.
    A key is needed at the provider's own address only: local servers mostly want none.
    Raises ModelError (missing-key, bad-key, bad-request).
    """
    variable = provider.upper()
    if base_url and "@" in base_url:
        raise ModelError(
            "the base URL holds a name or a password, which every process of this machine and the journal would see; "
            f"put the whole address into {variable}_BASE_URL instead",
            "bad-request",
        )
    url = base_url or os.environ.get(f"{variable}_BASE_URL") or OWN_ADDRESS[provider]
    _check_address(url, provider)
    holder = key_env or f"{variable}_API_KEY"
    if key_env and key_env not in os.environ:
        raise ModelError(
            "--key-env names no variable that is set; give the name of the one that holds the key, not the key",
            "missing-key",
        )
    key = SecretStr(os.environ.get(holder, "").strip())
    # A key that cannot be a header would fail deep inside the SDK, in an exception that shows it.
    if not all("!" <= character <= "~" for character in key.get_secret_value()):
        raise ModelError(
            f"{holder} holds a space, a line break or a character outside ASCII, so it cannot be a key; copy it again",
            "bad-key",
        )
    endpoint = Endpoint(provider, SecretStr(url), key if key else SecretStr(_NO_KEY), holder)
    if not key and endpoint.own:
        raise ModelError(
            f"no key for {provider}; set {holder}, or give the address of another server with --base-url",
            "missing-key",
        )
    return endpoint


def _check_address(url: str, provider: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        shown = "" if "@" in url else f" {url!r}"  # what stands before an @ may be a password
        raise ModelError(
            f"the base URL{shown} for {provider} is not an address; write it whole, such as http://localhost:8000/v1",
            "bad-request",
        )
