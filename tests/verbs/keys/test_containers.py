"""Keys in every container, of every type, at its finest unit and its ends: the row of each key is the one that counts.

Each file has four rows: the least value, T, the next one that the type can tell from T, and the greatest. The keys are
the last two of these and one that no row has. So a key that loses anything on its way finds T, or nothing.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lazily import duckdb, pd, pl

import parquet_bloom
from parquet_bloom import absent, add, erase, find, lookup
from parquet_bloom.errors import LiteralError, PredicateError, UnsupportedError
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.values.literals import normalize_literal
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.reading_keys import read_keys

# ---- columns -----------------------------------------------------------------------------

LOW, T, NEXT, HIGH, MISSING = range(5)
KEYS = [NEXT, HIGH, MISSING]
YEAR_9999 = 253_402_300_799
NOW = 1_704_067_200


def of_numbers(kind: pa.DataType, *numbers: int) -> pa.Array:
    """Returns the values that have these numbers in memory."""
    width = kind.bit_width // 8
    form = {1: "b", 2: "h", 4: "i", 8: "q"}[width]
    form = form.upper() if str(kind).startswith("uint") else form
    return pa.Array.from_buffers(
        kind, len(numbers), [None, pa.py_buffer(struct.pack(f"<{len(numbers)}{form}", *numbers))]
    )


def integers(bits: int, is_signed: bool) -> pa.Array:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return of_numbers(getattr(pa, f"{'' if is_signed else 'u'}int{bits}")(), low, high - 3, high - 2, high, high - 1)


def floats(kind: Any, last: float) -> pa.Array:
    after = np.nextafter(kind(1), kind(2))
    return pa.array(np.array([-last, 1, after, last, np.nextafter(after, kind(2))], kind))


def decimals(precision: int, scale: int) -> pa.Array:
    most = 10**precision - 1
    numbers = [-most, most - 3, most - 2, most, most - 1]
    return pa.array([Decimal(number).scaleb(-scale, EXACTLY) for number in numbers], pa.decimal128(precision, scale))


def moments(unit: str, zone: str | None) -> pa.Array:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    now = NOW * per_second
    last = (1 << 63) - 1 if unit == "ns" else YEAR_9999 * per_second + per_second - 1
    first = -2_208_988_800 * per_second if zone else -9_000_000_000 * per_second
    return of_numbers(pa.timestamp(unit, zone), first, now, now + 1, last, now + 2)


def times(unit: str) -> pa.Array:
    noon, last = ((seconds * {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]) for seconds in (43_200, 86_400))
    return of_numbers((pa.time32 if unit == "ms" else pa.time64)(unit), 0, noon, noon + 1, last - 1, noon + 2)


EXACTLY = Context(prec=100)
COLUMNS: dict[str, pa.Array] = {
    **{f"int{bits}": integers(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": integers(bits, False) for bits in (8, 16, 32, 64)},
    "float": floats(np.float32, 3.4028234663852886e38),
    "double": floats(np.float64, 1.7976931348623157e308),
    "NaN": pa.array([1.0, 2.0, float("nan"), float("inf"), 3.0]),
    **{f"decimal({digits})": decimals(digits, scale) for digits, scale in ((9, 2), (18, 0), (38, 10))},
    "date": of_numbers(pa.date32(), -141_427, 19_723, 19_724, 2_932_896, 19_725),
    **{f"time({unit})": times(unit) for unit in ("ms", "us", "ns")},
    **{f"timestamp({unit})": moments(unit, None) for unit in ("ms", "us", "ns")},
    **{f"timestamp({unit}, UTC)": moments(unit, "UTC") for unit in ("ms", "us", "ns")},
    "text": pa.array(["", "a", "a\0b", "\U0010ffff", "a\0c"]),
    "bytes": pa.array([b"", b"a", b"a\0b", b"\xff" * 40, b"a\0c"]),
    "fixed": pa.array([b"\0\0", b"\1\1", b"\1\2", b"\xff\xff", b"\1\3"], pa.binary(2)),
    "uuid": pa.array([uuid.UUID(int=n).bytes for n in (0, 8, 9, (1 << 128) - 1, 10)], pa.uuid()),
}


# ---- containers --------------------------------------------------------------------------

KIND = pa.types


def exactly(values: pa.Array) -> list[Any]:
    """Returns values as people have them in lists: Python's, and NumPy's and Arrow's where Python has none."""
    kind = values.type
    if KIND.is_timestamp(kind) and kind.unit == "ns":
        wall = [np.datetime64(one.value, "ns") for one in values]
        return [pd.Timestamp(one).tz_localize(kind.tz) for one in wall] if kind.tz else wall
    if KIND.is_time(kind) and kind.unit == "ns":
        return list(values)
    return list(values.to_pylist())


class Unheld(Exception):
    """A container does not hold values of a type, so there are no such keys."""


def in_runs(values: pa.Array) -> pa.Array:
    """Returns runs of one value each, and of the values before and behind a slice."""
    if isinstance(values, pa.ExtensionArray):
        raise Unheld
    around = pa.concat_arrays([values[:1], values, values[:1]])
    return pa.RunEndEncodedArray.from_arrays([2, *range(3, len(values) + 3), len(values) + 5], around).slice(
        2, len(values)
    )


def only(test: Callable[[pa.DataType], bool], build: Callable[[pa.Array], Any]) -> Callable[[pa.Array], Any]:
    def built(values: pa.Array) -> Any:
        if not test(values.type):
            raise Unheld
        return build(values)

    return built


def is_text(kind: pa.DataType) -> bool:
    return bool(KIND.is_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(KIND.is_binary(kind))


def is_decimal(digits: int) -> Callable[[pa.DataType], bool]:
    return lambda kind: bool(KIND.is_decimal(kind)) and kind.precision <= digits


def numpy_of(values: pa.Array) -> np.ndarray[Any, Any]:
    kind = values.type
    if KIND.is_date(kind):
        return np.array([one.value for one in values], "datetime64[D]")
    if KIND.is_timestamp(kind):
        if kind.tz:
            raise Unheld
        return np.array([one.value for one in values], f"datetime64[{kind.unit}]")
    if KIND.is_integer(kind) or KIND.is_floating(kind) or KIND.is_boolean(kind):
        return values.to_numpy(zero_copy_only=False)
    if is_text(kind):
        return np.array(values.to_pylist(), "U")
    if is_bytes(kind):
        return np.array(values.to_pylist(), "S")
    raise Unheld


def nullable(values: pa.Array) -> Any:
    kind = values.type
    names = {"float": "Float32", "double": "Float64", "bool": "boolean", "string": "string"}
    name = str(kind).replace("uint", "UInt") if str(kind).startswith("uint") else str(kind).replace("int", "Int")
    if not (KIND.is_integer(kind) or str(kind) in names) or (
        KIND.is_floating(kind) and any(v != v for v in values.to_pylist())
    ):
        raise Unheld  # Float64 takes NaN for a missing value
    return pd.Series(values.to_pylist(), dtype=names.get(str(kind), name))


def polars_of(values: pa.Array) -> Any:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return pl.Series(values.storage.to_pylist(), dtype=pl.Binary)
    if KIND.is_timestamp(kind) or KIND.is_time(kind):
        numbers = pl.Series([one.value for one in values])
        if KIND.is_time(kind):
            return (numbers * {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]).cast(pl.Time)
        return numbers.cast(pl.Datetime(kind.unit, kind.tz))
    found = pl.from_arrow(values)
    assert isinstance(found, pl.Series)
    return found


def text_of(values: pa.Array) -> list[str]:
    """Returns values as they are typed."""
    texts = []
    for one in values:
        python = one.as_py() if not KIND.is_timestamp(one.type) and not KIND.is_time(one.type) else None
        if isinstance(python, bytes):
            texts.append(f"0x{python.hex()}")
        elif isinstance(python, bool):
            texts.append(str(python).lower())
        elif isinstance(python, float):
            texts.append(repr(python))
        else:
            texts.append(literal_text(normalize_literal(one)) if python is None else str(python))
    return texts


def in_file(name: str) -> Callable[[pa.Array], Any]:
    return lambda values: (name, values)


class Stream:
    """What has nothing but Arrow's protocol."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._data.__arrow_c_stream__(requested_schema)


def table(values: Any) -> pa.Table:
    return pa.table({"other": pa.array(["x"] * len(values)), "k": values})


CONTAINERS: dict[str, Callable[[pa.Array], Any]] = {
    "list": exactly,
    "list of scalars": list,
    "tuple": lambda values: tuple(exactly(values)),
    "set": lambda values: set(exactly(values)),
    "generator": lambda values: (one for one in exactly(values)),
    "dict": lambda values: {"other": [0] * len(values), "k": exactly(values)},
    "NumPy": numpy_of,
    "NumPy, the other byte order": lambda values: numpy_of(values).astype(numpy_of(values).dtype.newbyteorder(">")),
    "NumPy, masked": lambda values: np.ma.masked_array(numpy_of(values)),
    "NumPy, objects": lambda values: np.array([*exactly(values), None], dtype=object)[:-1],
    "NumPy, records": lambda values: np.rec.fromarrays([numpy_of(values), numpy_of(values)], names=["k", "other"]),
    "pandas": lambda values: pd.Series(numpy_of(values)),
    "pandas, zoned": only(lambda kind: bool(getattr(kind, "tz", None)), lambda values: pd.Series(exactly(values))),
    "pandas, objects": lambda values: pd.Series([*exactly(values), None], dtype=object)[:-1],
    "pandas, Arrow's": lambda values: pd.Series(values, dtype=pd.ArrowDtype(values.type)),
    "pandas, nullable": nullable,
    "pandas, categories": only(
        lambda kind: not KIND.is_floating(kind),  # of which NaN would be missing
        lambda values: pd.Series(numpy_of(values)).astype("category"),
    ),
    "pandas, index": lambda values: pd.Index(numpy_of(values)),
    "pandas, frame": lambda values: pd.DataFrame({"other": range(len(values)), "k": numpy_of(values)}),
    "Polars": polars_of,
    "Polars, frame": lambda values: pl.DataFrame({"other": [None] * len(values), "k": polars_of(values)}),
    "Polars, lazy": lambda values: pl.LazyFrame({"other": [None] * len(values), "k": polars_of(values)}),
    "Polars, objects": lambda values: pl.Series(exactly(values), dtype=pl.Object),
    "Polars, Int128": only(KIND.is_integer, lambda values: polars_of(values).cast(pl.Int128)),
    "Polars, Categorical": only(is_text, lambda values: polars_of(values).cast(pl.Categorical)),
    "Polars, Enum": only(is_text, lambda values: polars_of(values).cast(pl.Enum(values.to_pylist()))),
    "array": lambda values: values,
    "array, sliced": lambda values: pa.concat_arrays([values[:1], values, values[:1]]).slice(1, len(values)),
    "chunked": lambda values: pa.chunked_array([values[:1], values[1:1], values[1:]]),
    "table": table,
    "batch": lambda values: table(values).to_batches()[0],
    "reader": lambda values: table(values).to_reader(),
    "stream": lambda values: Stream(pa.chunked_array([values])),
    "stream of a table": lambda values: Stream(table(values)),
    "dictionary": lambda values: pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), values),
    "dictionary, sliced": lambda values: pa.DictionaryArray.from_arrays(
        pa.array([2, 2, 0, 1], pa.int8()), values.take(pa.array([1, 2, 0]))
    )[1:],
    "runs": in_runs,
    "runs of a dictionary": lambda values: in_runs(CONTAINERS["dictionary"](values)),
    "view": lambda values: values.cast({pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}[values.type]),
    "dictionary of views": lambda values: CONTAINERS["dictionary"](CONTAINERS["view"](values)),
    "runs of views": lambda values: pa.RunEndEncodedArray.from_arrays([1, 2, 3], CONTAINERS["view"](values)),
    "large": lambda values: values.cast({pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}[values.type]),
    "decimal32": only(is_decimal(9), lambda values: values.cast(pa.decimal32(9, values.type.scale))),
    "decimal64": only(is_decimal(18), lambda values: values.cast(pa.decimal64(18, values.type.scale))),
    "decimal256": only(is_decimal(38), lambda values: values.cast(pa.decimal256(38, values.type.scale))),
    "DuckDB": lambda values: duckdb.from_arrow(table(values)),
    "keys.parquet": in_file("keys.parquet"),
    "keys.csv": in_file("keys.csv"),
    "keys.tsv": in_file("keys.tsv"),
    "keys.txt": in_file("keys.txt"),
}

OF_ENGINES = {name for name in CONTAINERS if name.startswith(("Polars", "DuckDB"))}


def container(name: str, values: pa.Array, folder: Path) -> Any:
    """Returns values in a container; raises `Unheld`, or what another library says of values that it does not hold."""
    refused = (Unheld, pa.ArrowException, LookupError, TypeError, ValueError, OverflowError)
    if name in OF_ENGINES:
        refused += (duckdb.Error, pl.exceptions.PolarsError)
    try:
        made = CONTAINERS[name](values)
    except refused:
        raise Unheld from None
    if not name.startswith("keys."):
        return made
    path = folder / name
    if name == "keys.parquet":
        pq.write_table(table(values), path)
    elif name == "keys.txt":
        path.write_bytes("\n".join(text_of(values)).encode())
    else:
        separator = "," if name == "keys.csv" else "\t"
        rows = zip(["k", *text_of(values)], ["other", "a", "b", "c"], strict=True)
        path.write_bytes("".join(f"{key}{separator}{other}\n" for key, other in rows).encode())
    return path


# ---- verbs -------------------------------------------------------------------------------


def answers(path: Path, keys: Any) -> dict[str, Any]:
    """Returns what verbs make of keys: rows; row groups, of a row each; how many are absent; the rows that stay."""
    copy = path.with_name("copy.parquet")
    shutil.copy(path, copy)
    candidates = lookup(path, "k", keys).to_arrow()
    erased = erase(copy, "k", keys)
    assert not erased.errors, erased.errors
    return {
        "find": find(path, column="k", keys=keys, columns=["row"]).to_arrow()["row"].to_pylist(),
        "lookup": sorted(set(candidates["row_group"].drop_null().to_pylist())),
        "absent": len(absent(path, "k", keys)),
        "erase": pq.read_table(copy)["row"].to_pylist(),
    }


def meaning_of(keys: Keys) -> Any:
    """Returns what verbs are given: containers with the same need to be asked only once."""
    literals = [normalize_literal(one) for one in keys.literals]
    return keys.shown.type, keys.is_exact, keys.are_text, tuple(sorted(map(repr, literals)))


LEAST = {"ours": 22, "engines": 2}
"""Of the containers, so many hold values of any type at least: none drops out unseen."""
RIGHT = {"find": [NEXT, HIGH], "absent": 1, "erase": [LOW, T]}


@pytest.mark.parametrize("of", ["ours", pytest.param("engines", marks=pytest.mark.engines)])
@pytest.mark.parametrize("column", COLUMNS)
def test_the_rows_of_keys_are_found_in_whatever_they_come(tmp_path: Path, column: str, of: str) -> None:
    values = COLUMNS[column]
    path = tmp_path / "file.parquet"
    rows = pa.array([LOW, T, NEXT, HIGH])
    pq.write_table(pa.table({"k": values.slice(0, 4), "row": rows}), path, row_group_size=1)
    add(path, "k", fpp=1e-9)
    known: dict[Any, dict[str, Any]] = {}
    wrong, num_tried = [], 0
    for name in OF_ENGINES if of == "engines" else CONTAINERS.keys() - OF_ENGINES:
        try:
            given = container(name, values.take(pa.array(KEYS)), tmp_path)
        except Unheld:
            continue
        num_tried += 1
        try:
            keys = read_keys(given, "k")
            meaning = meaning_of(keys)
            found = known[meaning] = known.get(meaning) or answers(path, keys)
        except Exception as error:
            found = {"error": repr(error)}
        if not {NEXT, HIGH} <= {*found.get("lookup", ())} or {name: found.get(name) for name in RIGHT} != RIGHT:
            wrong.append((name, found))
    assert not wrong, wrong
    assert num_tried >= LEAST[of]


# ---- doors -------------------------------------------------------------------------------

HIGHEST = COLUMNS["timestamp(ns)"][HIGH].value


@pytest.fixture
def moments_file(tmp_path: Path) -> Path:
    path = tmp_path / "moments.parquet"
    pq.write_table(pa.table({"k": COLUMNS["timestamp(ns)"].slice(0, 4), "row": range(4)}), path, row_group_size=1)
    add(path, "k", fpp=1e-9)
    return path


@pytest.mark.parametrize("library", ["NumPy", pytest.param("Polars", marks=pytest.mark.engines)])
def test_every_verb_reads_containers_in_the_same_way(moments_file: Path, tmp_path: Path, library: str) -> None:
    frame = pl.DataFrame if library == "Polars" else pd.DataFrame

    def series(*rows: int) -> Any:
        """Returns moments that Python would take for others."""
        return CONTAINERS[library](COLUMNS["timestamp(ns)"].take(pa.array(rows)))

    only_next = [
        lambda: find(moments_file, column="k", keys=series(NEXT)),
        lambda: find(moments_file, column="k", keys={"k": series(NEXT)}),
        lambda: find(moments_file, parquet_bloom.col("k").isin(series(NEXT))),
        lambda: find(moments_file, parquet_bloom.col("k").isin(frame({"row": [0], "k": series(NEXT)}))),
        lambda: find(moments_file, [("k", "in", series(NEXT))]),
    ]
    assert [asked().to_arrow()["row"].to_pylist() for asked in only_next] == [[NEXT]] * len(only_next)
    pruned = parquet_bloom.prune(moments_file, parquet_bloom.col("k").isin(series(HIGH)))
    assert [row.row_group for row in pruned if row.is_kept] == [HIGH]
    probed = parquet_bloom.probe(moments_file, "k", series(NEXT))
    assert [row.row_group for row in probed if row.answer == "MIGHT_MATCH"] == [
        T,
        NEXT,
    ]  # as engines that cut it see it
    ledger = tmp_path / "ledger.json"
    erase(moments_file, "k", series(NEXT, MISSING), ledger=ledger, ledger_keys="plain")
    assert [(row["key"][-9:], row["rows_erased"]) for row in json.loads(ledger.read_text())["rows"]] == [
        ("000000001", 1),
        ("000000002", 0),
    ]
    assert pq.read_table(moments_file)["row"].to_pylist() == [LOW, T, HIGH]
    assert parquet_bloom.advise(moments_file, "k", keys=series(HIGH)).rows


PATHLESS = {
    "find": lambda path, keys: find(path, column="k", keys=keys),
    "lookup": lambda path, keys: lookup(path, "k", keys),
    "absent": lambda path, keys: absent(path, "k", keys),
    "erase": lambda path, keys: erase(path, "k", keys),
    "advise": lambda path, keys: parquet_bloom.advise(path, "k", keys=keys),
}


@pytest.mark.parametrize("verb", PATHLESS)
def test_text_is_never_a_file_of_keys(moments_file: Path, tmp_path: Path, verb: str) -> None:
    secret = tmp_path / "keys.txt"
    secret.write_text("2024-01-01T00:00:00.000000001")
    name = bytes(secret)
    for given in (str(secret), name, bytearray(name), memoryview(name), io.StringIO("2024-01-01")):
        with pytest.raises(TypeError, match=r"give \[key\], or Path"):
            PATHLESS[verb](moments_file, given)
    PATHLESS[verb](moments_file, secret)
    with pytest.raises(PredicateError, match="IN needs a list of values"):
        parquet_bloom.col("k").isin(secret)
    with pytest.raises(TypeError, match="must be a list, an array or a table"):
        parquet_bloom.probe(moments_file, "k", secret)


# ---- what is not understood --------------------------------------------------------------


def opaque(values: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "moment", "another engine"), values)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (pa.array([1], pa.duration("ns")), r"duration\[ns\]"),
        (pa.array([[1]]), "list<"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "month_day_nano_interval"),
        (pa.array([1], pa.duration("s")).dictionary_encode(), "dictionary<values=duration"),
        (opaque(pa.array([1])), r"opaque\["),
        (pa.table({"k": opaque(pa.array([1]))}), r"opaque\["),
        (pa.table([[1]], pa.schema([pa.field("k", pa.int64(), metadata={"ARROW:extension:name": "a.new"})])), "a.new"),
        (lambda: pd.Series(pd.period_range("2024", periods=1)), "period"),
        (lambda: pd.Series([pd.Timedelta(1)]), "timedelta64"),
        pytest.param(lambda: pl.Series([[1]]), "list<", marks=pytest.mark.engines),
        pytest.param(lambda: pl.Series([1]).cast(pl.Duration), "duration", marks=pytest.mark.engines),
        (np.array([1], "timedelta64[s]"), "timedelta64"),
        (np.array([1j]), "complex"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_a_type_that_is_not_known_is_an_error_that_names_it(moments_file: Path, keys: Any, named: str) -> None:
    for verb in PATHLESS.values():
        with pytest.raises(LiteralError, match=named):
            verb(moments_file, keys() if callable(keys) else keys)


@pytest.mark.engines
@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("340282366920938463463374607431768211455::UHUGEINT", "UHUGEINT"),  # exported as -1
        ("'12:00:00+02'::TIMETZ", "TIME WITH TIME ZONE"),
        ("'1'::BIT", "BIT"),
        ("INTERVAL 1 DAY", "INTERVAL"),
    ],
)
def test_a_type_that_duckdb_changes_is_an_error_that_names_it(moments_file: Path, value: str, named: str) -> None:
    with pytest.raises(LiteralError, match=named):
        find(moments_file, column="k", keys=duckdb.sql(f"SELECT {value} AS k"))


@pytest.mark.parametrize(
    ("keys", "held"),
    [
        (np.array([1], "datetime64[25s]"), [25 * 10**9]),
        (np.array([1], "datetime64[h]"), [3600 * 10**9]),
        (np.array([5_000], "datetime64[ps]"), [5]),
        (np.ma.masked_array([5, 6], [True, False], "datetime64[25s]"), [None, 150 * 10**9]),
    ],
)
def test_units_of_numpy_that_arrow_lacks_are_kept(keys: Any, held: list[int | None]) -> None:
    literals = [normalize_literal(one) for one in read_keys(keys, "k").literals]
    assert [getattr(one, "nanoseconds", None) for one in literals] == held


def test_a_key_with_nanoseconds_erases_no_int96_of_another(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    values = of_numbers(pa.timestamp("ns"), NOW * 10**9, NOW * 10**9 + 1000)
    pq.write_table(pa.table({"k": values}), path, use_deprecated_int96_timestamps=True)
    between = of_numbers(pa.timestamp("ns"), NOW * 10**9 + 1)
    assert [row.status for row in erase(path, "k", between, timezone="UTC")] == ["refused"]
    with pytest.raises(UnsupportedError, match="engines disagree"):
        absent(path, "k", between, timezone="UTC")
    assert erase(path, "k", values[1:], timezone="UTC").rows_erased == 1
    assert pq.read_table(path)["k"].cast(pa.int64()).to_pylist() == [NOW * 10**9]


def test_dates_beyond_arrow_are_no_others(tmp_path: Path) -> None:
    path = tmp_path / "days.parquet"
    pq.write_table(pa.table({"k": of_numbers(pa.date32(), 5)}), path)
    beyond = np.array([(1 << 32) + 5], "datetime64[D]")
    assert len(absent(path, "k", beyond)) == 1
    assert find(path, column="k", keys=beyond).to_arrow().num_rows == 0


@pytest.mark.engines
def test_wide_integers_are_compared_exactly(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"k": pa.array([1 << 60, (1 << 64) - 1], pa.uint64())}), path)
    for keys in (
        pl.Series([(1 << 64) - 1, (1 << 60) + 1, 1 << 100], dtype=pl.UInt128),
        pl.Series([(1 << 64) - 1, (1 << 60) + 1, 1 << 64], dtype=pl.Int128),
        duckdb.sql(f"SELECT unnest([{(1 << 64) - 1}, {(1 << 60) + 1}, {(1 << 127) - 1}])::HUGEINT AS k"),
        [np.uint64((1 << 64) - 1), np.uint64((1 << 60) + 1), 2.5],
    ):
        assert absent(path, "k", keys).positions.to_pylist() == [1, 2]


def test_instants_of_a_key_file_that_are_stored_as_int96_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "keys.parquet"

    def read(values: list[int], unit: str) -> pa.Array:
        keys = of_numbers(pa.timestamp(unit), *values)
        pq.write_table(pa.table({"k": keys}), path, use_deprecated_int96_timestamps=True)
        return read_keys(path, "k").shown

    assert str(read([1, 1001], "ns")[0]).endswith("00001")
    assert read([YEAR_9999 * 10**6 + 999_999, -62_135_596_800 * 10**6], "us").cast(pa.int64()).to_pylist() == [
        YEAR_9999 * 10**6 + 999_999,
        -62_135_596_800 * 10**6,
    ]


def test_a_uuid_may_be_text_and_text_is_no_uuid(tmp_path: Path) -> None:
    path = tmp_path / "uuids.parquet"
    values = COLUMNS["uuid"].slice(0, 4)
    pq.write_table(pa.table({"k": values, "text": [str(one) for one in values.to_pylist()], "row": range(4)}), path)
    wanted = str(values[NEXT].as_py())
    for condition in (parquet_bloom.col("k") == wanted, parquet_bloom.col("k").isin([wanted]), f"k = '{wanted}'"):
        assert find(path, condition).to_arrow()["row"].to_pylist() == [NEXT]
    with pytest.raises(LiteralError, match="its text, or its 16 bytes"):
        find(path, column="k", keys=["no UUID"])
    with pytest.raises(LiteralError, match="cannot be compared"):
        absent(path, "text", values)  # which engines compare as text, or as UUIDs
