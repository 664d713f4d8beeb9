"""What answers cost."""

from __future__ import annotations

import pytest
from codasmith.agent.prices import Price, PriceError, count, find_price

OWN = """
[models."tiny"]
input = 1.0
cached = 0.1
output = 4.0
[models."tiny-large"]
input = 2.0
cached = 0.2
output = 8.0
[models."local-*"]
input = 0.0
cached = 0.0
output = 0.0
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    def write(text: str = OWN) -> None:
        path = tmp_path / "own.toml"
        path.write_text(text)
        monkeypatch.setenv("CODASMITH_PRICES", str(path))

    return write


def test_cost_counts_each_kind_of_token_once():
    price = Price(input=2.0, cached=0.5, write=3.0, output=10.0)
    usage = count(price, input_tokens=1000, cached_tokens=600, cache_write_tokens=100, output_tokens=50)
    assert usage.dollars == pytest.approx((300 * 2.0 + 600 * 0.5 + 100 * 3.0 + 50 * 10.0) / 1e6)
    plain = Price(input=2.0, cached=0.5, output=10.0)
    usage = count(plain, input_tokens=1000, cached_tokens=600, cache_write_tokens=100, output_tokens=50)
    assert usage.dollars == pytest.approx((400 * 2.0 + 600 * 0.5 + 50 * 10.0) / 1e6)


def test_an_unknown_price_is_no_price():
    assert find_price("nobody-knows-this") is None
    assert count(None, input_tokens=10, output_tokens=10).dollars is None


def test_a_free_model_costs_nothing(own):
    own()
    assert count(find_price("local-7b"), input_tokens=10, output_tokens=10).dollars == 0.0


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("tiny", 1.0),
        ("tiny-2026-01-31", 1.0),
        ("tiny-20260131", 1.0),
        ("tiny-latest", 1.0),
        ("tiny-large", 2.0),
        ("tiny-large-2026-01-31", 2.0),
        ("local-anything", 0.0),
    ],
)
def test_a_name_stands_for_its_dated_releases(own, model, expected):
    own()
    assert find_price(model).input == expected


@pytest.mark.parametrize("model", ["tiny-mini", "tiny.5", "tiny2", "tiny-large-fast", "a-tiny", "local"])
def test_another_model_of_the_same_family_has_no_price(own, model):
    own()
    assert find_price(model) is None


def test_the_users_file_goes_before_the_list(own):
    assert find_price("gpt-5.4-mini").output == 4.5
    own('[models."gpt-*"]\ninput = 0.5\ncached = 0.5\noutput = 0.5\n')
    assert find_price("gpt-5.4-mini").output == 0.5
    assert find_price("claude-opus-5").output == 25.0


def test_the_list_may_be_left_out(own):
    own()
    assert find_price("gpt-5.4", list_prices=False) is None
    assert find_price("tiny", list_prices=False).input == 1.0


def test_the_users_file_may_be_in_the_configuration_folder(tmp_path):
    folder = tmp_path / "config" / "codasmith"  # XDG_CONFIG_HOME is tmp_path / "config" here
    folder.mkdir(parents=True)
    (folder / "prices.toml").write_text(OWN)
    assert find_price("tiny").output == 4.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models = [", "is not TOML"),
        ("", "has no table of models"),
        ("models = 3", "has no table of models"),
        ('[models."a"]\ninput = 1\n', "'a', cached: field required"),
        ('[models."a"]\ninput = -1\ncached = 1\noutput = 1\n', "'a', input"),
        ('[models."a"]\ninput = nan\ncached = 1\noutput = 1\n', "'a', input"),
        ('[models."a"]\ninput = "cheap"\ncached = 1\noutput = 1\n', "'a', input"),
        ('[models."a"]\ninputs = 1\ninput = 1\ncached = 1\noutput = 1\n', "'a', inputs"),
        ("[models]\na = 3\n", "'a', the entry"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(own, text, words):
    own(text)
    with pytest.raises(PriceError) as caught:
        find_price("tiny")
    assert "own.toml" in str(caught.value) and words in str(caught.value)


def test_a_file_that_is_named_and_not_there_is_told(monkeypatch):
    monkeypatch.setenv("CODASMITH_PRICES", "/no/such/prices.toml")
    with pytest.raises(PriceError, match=r"/no/such/prices\.toml"):
        find_price("tiny")


def test_the_list_that_ships_is_whole_and_sane():
    for model in ("claude-opus-5", "claude-opus-4-8", "claude-sonnet-5-5", "gpt-5.5", "gpt-5.4", "gpt-5.4-mini"):
        price = find_price(model)
        assert 0 < price.cached < price.input < price.output
