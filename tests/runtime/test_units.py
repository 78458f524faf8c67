import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinterland.runtime.errors import ConfigError
from hinterland.runtime.units import format_bytes, parse_bytes, parse_share


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 4 << 30),
        ("4 gib", 4 << 30),
        ("1.5GB", 1_500_000_000),
        ("64k", 65536),
        ("512", 512),
        ("512 B", 512),
        (".5MiB", 1 << 19),
        (0, 0),
        (7, 7),
    ],
)
def test_sizes_read_the_way_people_write_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "4 apples", "-1", -1, "1e3", "4GiBs", None, True, 1.5])
def test_what_is_no_size_gets_a_sentence(text):
    with pytest.raises(ConfigError, match="size"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "of_a_thousand"), [("10%", 100), ("0.25 %", 2), (".1%", 1), ("100%", 1000), ("0%", 0)])
def test_shares(text, of_a_thousand):
    assert parse_share(text).of(1000) == of_a_thousand and parse_share("10") is None
    with pytest.raises(ConfigError, match="not a size in bytes"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["%", "-1%", "100.1%", "1e1%", "10%%", "ten%", "9" * 400 + "%"])
def test_what_is_no_share(text):
    with pytest.raises(ConfigError, match="not a share: .*; write a number from 0 to 100 with %, as 10%"):
        parse_share(text)


def test_a_size_that_no_machine_has_is_refused_however_long_it_is():
    for text in ("9" * 400 + "PB", "8388608TiB"):
        with pytest.raises(ConfigError, match="a size in bytes .* is not a whole number of 64 bits"):
            parse_bytes(text)
    assert parse_bytes("8388607TiB") == 8388607 << 40


@given(st.integers(0, 2**50))
def test_a_formatted_size_reads_back_to_three_digits(size):
    assert abs(parse_bytes(format_bytes(size)) - size) <= size * 0.006
