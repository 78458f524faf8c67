"""Columns of Parquet files that are not read, encrypted, elsewhere, of types or encodings that pyarrow does not know: what they
are is said, and nothing of damage; and the other columns are read."""

from __future__ import annotations

import base64
import random
from itertools import pairwise

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError  # noqa: E402

from .rewritten import (  # noqa: E402
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    chunks,
    counted,
    elements,
    required,
    varint,
    with_footer,
    with_pages,
    zigzag,
)


@pytest.fixture
def good(tmp_path):
    """A file, and what tells that the others of its columns are read: x and t of all, but for ``odd``."""
    odd = pa.array([(row * 2654435761) % 2**32 - 2**31 for row in range(200)], pa.int32())
    table = pa.table({"x": range(200), "odd": odd, "t": ["a", "b"] * 100})
    pyarrow.parquet.write_table(table, tmp_path / "t", use_dictionary=["t"])
    return tmp_path / "t"


def others_are_read(path):
    found = hl.query(path).filter("x >= 100").group_by("t").agg("sum(x)", "count()").rows
    assert found == [{"t": "a", "sum(x)": sum(range(100, 200, 2)), "count()": 50},
                     {"t": "b", "sum(x)": sum(range(101, 200, 2)), "count()": 50}]  # fmt: skip
    assert counted(path) == 200
    return True


ASKED = {
    "added": lambda query: query.agg("sum(odd)"),
    "counted": lambda query: query.agg("count(odd)"),
    "compared": lambda query: query.filter("odd > 5").agg("count()"),
    "grouped": lambda query: query.group_by("odd").agg("count()"),
    "read where others match": lambda query: query.filter("x = 7").agg("min(odd)"),
}


def is_refused(path, why, known=False):
    """However the odd column is asked for, but for how many values it has where these are ``known``; and not over damage."""
    for name, asked in ASKED.items():
        if known and name == "counted":
            assert asked(hl.query(path)).rows == [{"count(odd)": 200}]
            continue
        with pytest.raises(ConfigError, match=why) as refused:
            asked(hl.query(path))
        assert "damaged:" not in str(refused.value) and "is damaged, fetch" not in str(refused.value)
    return True


def encrypted(path, table, plain):
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def __init__(self, config):
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key, master):
            return base64.b64encode(key).decode()

        def unwrap_key(self, key, master):
            return base64.b64decode(key)

    asked = encryption.EncryptionConfiguration(footer_key="k", column_keys={"c": ["odd"]}, plaintext_footer=plain)
    made = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(), asked)
    with pyarrow.parquet.ParquetWriter(path, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("texts", [False, True])
def test_encrypted_columns(good, texts):
    table = pyarrow.parquet.read_table(good)
    encrypted(good, table.set_column(1, "odd", table["odd"].cast(pa.string())) if texts else table, plain=True)
    others_are_read(good)
    for ask in ("count(odd)", "max(odd)"):
        if ask == "count(odd)" or not texts:
            with pytest.raises(ConfigError, match="the column 'odd' in row group 0 is encrypted, and queries take no keys"):
                hl.query(good).agg(ask)
    with_footer(good, lambda footer: chunks(footer)[1].pop(3))  # its metadata, of which there is an encrypted copy
    if not texts:
        others_are_read(good)
        is_refused(good, "is encrypted, and queries take no keys; write it without encryption")


def test_encrypted_files(good):
    encrypted(good, pyarrow.parquet.read_table(good), plain=False)
    with pytest.raises(ConfigError, match="is an encrypted Parquet file, and queries take no keys"):
        hl.query(good).agg("count()")


def is_decimal(element, stored, length, precision):
    element.update({1: (I32, stored), 2: (I32, length), 6: (I32, 5), 7: (I32, 0), 8: (I32, precision)})
    element[10] = STRUCT, {5: (STRUCT, {1: (I32, 0), 2: (I32, precision)})}


ODD = {
    "decimal of no digits": lambda element: is_decimal(element, 1, 0, 0),
    "an annotation that is not known": lambda element: element.update({6: (I32, 99)}),
    "a map that is a number": lambda element: element.update({6: (I32, 1)}),
    "a text of 32 bits": lambda element: element.update({6: (I32, 0)}),
}


@pytest.mark.parametrize("schema", [True, False], ids=["with Arrow's schema", "without"])
@pytest.mark.parametrize("odd", ODD)
def test_one_column_of_a_type_that_pyarrow_refuses(good, odd, schema):
    def change(footer):
        ODD[odd](elements(footer)["odd"])
        if not schema:
            footer.pop(5)

    with_footer(good, change)
    with pytest.raises((OSError, pa.ArrowException)):
        pyarrow.parquet.read_metadata(good)
    others_are_read(good)
    is_refused(good, "the column 'odd' is not read by pyarrow: .*; write it as another type")


def test_columns_of_types_that_pyarrow_refuses(tmp_path):
    """A decimal of 77 digits, maps whose keys may be nulls, and one in a struct; more columns than a list's head counts."""
    path, wide = tmp_path / "t", pa.array([b"\0" * 33] * 10, pa.binary(33))
    pairs = pa.array([[("k", 1)]] * 10, pa.map_(pa.string(), pa.int32()))
    inner = pa.StructArray.from_arrays([pairs, pa.array(range(10))], ["pairs", "n"])
    table = pa.table(
        {"before": range(10), "wide": wide, "pairs": pairs, "inner": inner, **{f"x{n}": range(n, n + 10) for n in range(20)}}
    )
    pyarrow.parquet.write_table(table, path, row_group_size=4)

    def change(footer):
        is_decimal(elements(footer)["wide"], 7, 33, 77)
        for element in footer[2][1][1]:
            if element[4][1] == b"key":
                element[3] = I32, 1

    with_footer(path, change)
    asked = [f"sum(x{n})" for n in range(20)]
    assert hl.query(path).filter("before < 9").agg(*asked).rows == [{f"sum(x{n})": sum(range(n, n + 9)) for n in range(20)}]
    for name, why in (("wide", "77"), ("pairs", "Map keys"), ("inner", "Map keys")):
        with pytest.raises(
            ConfigError, match=f"the column '{name}' is not read by pyarrow: .*{why}.*; write it as another type"
        ):
            hl.query(path).agg(f"count({name})")
    with pytest.raises(ConfigError, match="has no column 'x77'; did you mean 'x"):
        hl.query(path).agg("count(x77)")


def test_a_schema_that_is_damaged_is_no_odd_column(good):
    for change in (lambda root: root.update({5: (I32, 9)}), lambda root: root.update({5: (I32, -1)})):
        with_footer(good, lambda footer, change=change: change(footer[2][1][1][0]))
        with pytest.raises(FormatError, match="damaged"):
            hl.query(good).agg("count()")


@pytest.mark.parametrize("texts", [False, True])
def test_a_chunk_that_lies_in_another_file(good, texts):
    def change(footer):
        chunk = chunks(footer)[2 if texts else 1]
        chunk[1] = BINARY, b"part-7.parquet"
        chunk[3][1][9] = I64, 10**9
        chunk[3][1].pop(11, None)

    with_footer(good, change)
    name = "t" if texts else "odd"
    assert hl.query(good).filter("x < 9").agg("sum(x)").rows == [{"sum(x)": 36}]
    for asked in (f"count({name})", f"count({name}), sum(x)"):
        why = f"the column '{name}' in row group 0 lies in another file, 'part-7.parquet'; query the files that hold the data"
        with pytest.raises(ConfigError, match=why):
            hl.query(good).agg(asked)
    if not texts:
        others_are_read(good)
        is_refused(good, "lies in another file, 'part-7.parquet'")


@pytest.mark.parametrize("own", [b"", b"t", b"./t"])
def test_a_chunk_that_names_its_own_file(good, own):
    with_footer(good, lambda footer: [chunk.update({1: (BINARY, own)}) for chunk in chunks(footer)])
    others_are_read(good)
    values = pyarrow.parquet.read_table(good)["odd"].to_pylist()
    assert counted(good, asked="sum(odd)") == sum(values)


def delta_packed(values):
    """As apache/parquet-format, Encodings.md has it, with differences of as many bits as they take: a block of 128, in four."""
    deltas = [second - first for first, second in pairwise(values)]
    found = varint(128) + varint(4) + varint(len(values)) + zigzag(values[0])
    for begin in range(0, len(deltas), 128):
        block = deltas[begin : begin + 128]
        least = min(block)
        parts = [[one - least for one in block[at : at + 32]] for at in range(0, 128, 32)]
        bits = [max((one.bit_length() for one in part), default=0) for part in parts]
        found += zigzag(least) + bytes(bits)
        for part, width in zip(parts, bits, strict=True):
            packed = sum(one << place * width for place, one in enumerate(part))
            found += packed.to_bytes(4 * width, "little") if part else b""
    return found


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("wide", [False, True])
def test_differences_of_more_bits_than_numbers_have(tmp_path, wide, version):
    """As DuckDB writes them in pages of version 2; pyarrow reads up to 32 bits."""
    path, rng = tmp_path / "t", random.Random(1)
    values = [rng.choice((-(2**31), 2**31 - 1)) if wide else row % 77 for row in range(200)]
    table = required(pa.table({"x": range(200), "odd": pa.array(values, pa.int32()), "t": ["a", "b"] * 100}))
    options = {"use_dictionary": ["t"], "column_encoding": {"odd": "DELTA_BINARY_PACKED"}, "data_page_version": version}
    pyarrow.parquet.write_table(table, path, compression="none", **options)
    page = delta_packed(values)

    def change(column, header, body):
        if column != "odd":
            return body
        header[2] = I32, len(page)
        return page

    with_pages(path, change)
    others_are_read(path)
    if not wide:
        assert counted(path, asked="sum(odd)") == sum(values)
        return
    is_refused(
        path, "the column 'odd' in row group 0 is INT32 in .*DELTA_BINARY_PACKED.* pyarrow does not read it: .*; write", True
    )


@pytest.mark.parametrize(("codec", "shown"), [(3, "LZO"), (9, "codec 9"), (1 << 30, "codec 1073741824")])
def test_codecs_that_pyarrow_does_not_have(good, codec, shown):
    with_footer(good, lambda footer: chunks(footer)[1][3][1].update({4: (I32, codec)}))
    others_are_read(good)
    is_refused(good, rf"the column 'odd' in row group 0 is INT32 in .* \({shown}\); pyarrow does not read it: ", known=True)


def test_encodings_that_nobody_knows_yet(good):
    def change(column, header, body):
        if column == "odd":
            header[5][1][2] = I32, 10
        return body

    with_pages(good, change)
    with_footer(good, lambda footer: chunks(footer)[1][3][1].update({2: (LIST, (I32, [3, 10]))}))
    others_are_read(good)
    is_refused(good, "is INT32 in RLE and 10 .*; pyarrow does not read it: ", known=True)
