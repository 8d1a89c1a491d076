"""What `advise` predicts is what pruning then does, and the columns it names are those that gain from filters."""

import hashlib
import itertools
import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import FIXTURES, unpacked
from hypothesis import given
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.verbs import advise as advising
from parquet_bloom.verbs.samples import SAMPLED_GROUPS, Bounds, ColumnSample, Group, Point, SampledGroup, _in_pairs

ROWS, GROUP = 9_000, 1_500
LOOKUPS = 60


def digest(n):
    return hashlib.md5(str(n).encode()).hexdigest()


def windows(r, n):
    """Values that come late: ranges of row groups overlap with those of their neighbours."""
    return n // 2000 * 2000 - r.randrange(12_000)


LAYOUTS = {
    "random ids": (lambda r, f, i: digest(f * ROWS + i), "add"),
    "shared ids": (lambda r, f, i: r.randrange(100_000), "add"),
    "sorted": (lambda r, f, i: f * ROWS + i, "not worth it"),
    "late": (lambda r, f, i: windows(r, f * ROWS + i), "add"),
    "sessions": (lambda r, f, i: digest((f * ROWS + i) // 300), "add"),
    "skewed": (lambda r, f, i: int(r.paretovariate(0.7)), "not worth it"),
    "few": (lambda r, f, i: r.choice("abcd"), "not worth it"),
    "half null": (lambda r, f, i: None if r.random() < 0.5 else r.getrandbits(50), "add"),
    "recent": (lambda r, f, i: f * ROWS + i - int(r.expovariate(1 / 8000)), "add"),
    "pairs of files": (lambda r, f, i: digest((f // 2, r.randrange(1500))), "add"),
    "growing": (lambda r, f, i: digest(r.randrange(1 + (f * ROWS + i) // 10)), "add"),
    "per file": (lambda r, f, i: digest((f, r.randrange(1500))), "add"),
}


def lake(folder, value, *, files=8, **options):
    """Writes files of two sizes, and returns all values."""
    folder.mkdir()
    r = random.Random(str(folder.name))
    values = []
    for f in range(files):
        rows = ROWS if f % 2 else ROWS // 3
        column = [value(r, f, i) for i in range(rows)]
        values += column
        table = pa.table({"k": column, "pad": [r.randbytes(60) for _ in range(rows)]})
        pq.write_table(table, folder / f"{f}.parquet", row_group_size=GROUP, **options)
    return values


def pruned_to(folder, values):
    """Returns how many row groups and bytes are left by a lookup, on average."""
    totals = [parquet_bloom.prune(folder, parquet_bloom.col("k") == value).totals for value in values]
    return sum(one.row_groups_kept for one in totals) / len(totals), sum(one.bytes_kept for one in totals) / len(totals)


def assert_near(groups, num_bytes, measured, size_of_group):
    groups_measured, bytes_measured = measured
    assert abs(groups - groups_measured) <= max(0.15 * groups_measured, 2)
    assert abs(num_bytes - bytes_measured) <= max(0.15 * bytes_measured, 2 * size_of_group)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predicted_is_measured(tmp_path, layout):
    value, verdict = LAYOUTS[layout]
    folder = tmp_path / layout
    values = [one for one in lake(folder, value) if one is not None]
    (row,) = parquet_bloom.advise(folder, "k")
    assert row.advice == verdict, row
    asked = random.Random(1).sample(values, LOOKUPS)
    size = sum(path.stat().st_size for path in folder.iterdir()) / row.num_row_groups
    assert_near(row.groups_now, row.bytes_now, pruned_to(folder, asked), size)
    parquet_bloom.add(folder, {"k": row.fpp})
    written = sum(one.num_bytes for one in parquet_bloom.inspect(folder))
    assert abs(row.filter_bytes - written) <= 0.2 * written
    assert_near(row.groups_with, row.bytes_with, pruned_to(folder, asked), size)
    (row,) = parquet_bloom.advise(folder, "k")
    assert (row.advice, row.filter_bytes, row.groups_now) == ("has filters", 0, pytest.approx(row.groups_with))


OVER_TIME = {
    "recent": lambda r, n: (n - int(r.expovariate(1 / 8000))) // 4,
    "growing": lambda r, n: r.randrange(1 + n // 10),
    "sessions": lambda r, n: (n // 3000, r.randrange(200)),
}


@pytest.mark.parametrize("layout", OVER_TIME)
def test_files_of_all_sizes(layout):
    """Most row groups are tiny, and a few hold most rows, as between two compactions."""
    of_groups, of_bytes = [], []
    for seed in range(8):
        r = random.Random(seed)
        held, rows = [], 0
        for _ in range(60 + 10 * seed):
            size = int(500 * r.paretovariate(0.8)) % 30_000 + 20
            held.append([OVER_TIME[layout](r, rows + n) for n in range(size)])
            rows += size
        groups = [Group(n, 0, len(one), len(one), None, None, False, False) for n, one in enumerate(held)]
        column = ColumnSample(("k",), None, groups)
        for number in itertools.islice(_in_pairs(groups), SAMPLED_GROUPS):
            drawn = [Point(None, hash(value) % 2**64) for value in r.choices(held[number], k=32)]
            hashes = pa.array({hash(value) % 2**64 for value in held[number]}, pa.uint64())
            column.sampled.append(SampledGroup(number, hashes, drawn))
        estimate = advising._measured(column, None, 1.0).reads(0)
        numbers, sizes = Counter(), Counter()
        for one in held:
            numbers.update(values := set(one))
            sizes.update(dict.fromkeys(values, len(one)))
        of_groups.append(estimate.row_groups * rows / sum(numbers[value] for one in held for value in one))
        of_bytes.append(estimate.num_bytes * rows / sum(sizes[value] for one in held for value in one))
    for ratios in (of_groups, of_bytes):
        assert sum(abs(1 - ratio) for ratio in ratios) / len(ratios) < 0.3, ratios


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40), st.data())
def test_row_groups_are_counted_where_they_lie(some, data):
    several = [Group(file, 0, 1, int(has), None, None, False, False) for file, has in sorted(some)]
    own = data.draw(st.integers(0, len(several) - 1))
    expected = Counter(
        advising._place(several, own, number)
        for number, group in enumerate(several)
        if number != own and group.has_values
    )
    assert advising._counts(several, {own: 1.0}) == expected


def test_a_part_of_the_files_is_scaled_to_all(tmp_path, monkeypatch):
    folder = tmp_path / "many"
    values = lake(folder, LAYOUTS["shared ids"][0], files=12)
    monkeypatch.setattr(advising, "MOST_FILES", 6)
    advice = parquet_bloom.advise(folder, "k")
    assert (advice.num_files, advice.num_files_read) == (12, 6)
    (row,) = advice
    groups = sum(pq.read_metadata(path).num_row_groups for path in folder.iterdir())
    assert abs(row.groups_now - groups) <= 0.15 * groups
    parquet_bloom.add(folder, {"k": row.fpp})
    assert abs(row.groups_with - pruned_to(folder, random.Random(1).sample(values, LOOKUPS))[0]) <= 2


def test_keys_and_conditions_are_what_is_looked_up(tmp_path):
    folder = tmp_path / "lake"
    values = lake(folder, LAYOUTS["shared ids"][0])
    (absent,) = parquet_bloom.advise(folder, "k", keys=[200_000 + n for n in range(50)])
    assert (absent.groups_now, absent.advice) == (0, "not worth it")
    assert "sorted" not in absent.reason
    (inside,) = parquet_bloom.advise(folder, "k", keys=values[:200])
    assert inside.advice == "add"
    asked = [f"k = {value}" for value in values[:200]]
    of_conditions = {row.column: row for row in parquet_bloom.advise(folder, where=asked)}
    assert of_conditions["k"].groups_with == inside.groups_with
    assert of_conditions["pad"].reason == "no condition compares it with = or IN"
    sql = tmp_path / "asked.sql"
    sql.write_text(
        ";\n".join(
            f"SELECT * FROM lake l JOIN t ON l.x = t.x WHERE l.k IN ({value}) AND pad > ''" for value in values[:200]
        )
    )
    assert {row.column: row for row in parquet_bloom.advise(folder, queries=sql)} == of_conditions
    sql.write_text(";\n".join(f'SELECT * FROM "my lake" l WHERE l."k" = {value}' for value in values[:200]))
    assert {row.column: row for row in parquet_bloom.advise(folder, queries=sql, dialect="trino")} == of_conditions
    with pytest.raises(ValueError, match="nonesuch"):
        parquet_bloom.advise(folder, queries=sql, dialect="nonesuch")


def test_what_is_not_asked_for_equality_is_not_looked_up(tmp_path):
    folder = tmp_path / "lake"
    lake(folder, LAYOUTS["shared ids"][0], files=2)
    for condition in ("k > 5", "NOT (k = 5)", "k NOT IN (5)", "k <> 5", "length(k) = 5"):
        reasons = {row.reason for row in parquet_bloom.advise(folder, "k", where=condition)}
        assert reasons == {"no condition compares it with = or IN"}, condition
    (row,) = parquet_bloom.advise(folder, "k", where="k <=> 50000 OR k = 50001")
    assert row.advice == "add"


def test_partitions_are_columns_of_conditions(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    lake(folder / "day=2024-01-01", LAYOUTS["random ids"][0], files=2)
    asked = ["day = '2024-01-01'", f"k = '{digest(3)}'"]
    assert {row.column: row.reason for row in parquet_bloom.advise(folder, where=asked)}.keys() == {"k", "pad"}


def test_its_columns_are_what_add_takes(tmp_path):
    folder = tmp_path / "lake"
    lake(folder, LAYOUTS["random ids"][0], files=4)
    advice = parquet_bloom.advise(folder)
    assert set(advice.columns) == {"k", "pad"}
    added = parquet_bloom.add(folder, advice.columns)
    assert not added.errors
    assert {one.column for row in added for one in row.filters} == {"k", "pad"}
    assert parquet_bloom.advise(folder).columns == {}


def test_a_price_and_a_rate(tmp_path):
    folder = tmp_path / "lake"
    lake(folder, LAYOUTS["random ids"][0], files=2)
    (row,) = parquet_bloom.advise(folder, "k", price=5, fpp=0.02)
    assert row.fpp == 0.02
    assert row.saved == pytest.approx((row.bytes_now - row.bytes_with) * 1000 * 5 / 1e12)
    with pytest.raises(ValueError, match="fpp="):
        parquet_bloom.advise(folder, fpp=1)
    with pytest.raises(ValueError, match="price="):
        parquet_bloom.advise(folder, price=-1)
    with pytest.raises(ValueError, match="one column"):
        parquet_bloom.advise(folder, keys=[1])
    with pytest.raises(ValueError, match="give one of"):
        parquet_bloom.advise(folder, "k", keys=[1], where="k = 1")
    with pytest.raises(parquet_bloom.ColumnNotFoundError, match=r"pda.*pad"):
        parquet_bloom.advise(folder, "pda")
    with pytest.raises(parquet_bloom.ColumnNotFoundError, match=r"kk.*k"):
        parquet_bloom.advise(folder, where=["k = 'a'", "kk = 5"])
    with pytest.raises(parquet_bloom.LiteralError):
        parquet_bloom.advise(folder, "pad", where="pad = 5")


def test_the_command_line_names_the_way_to_add_them(tmp_path):
    lake(tmp_path / "lake", LAYOUTS["random ids"][0], files=2)
    for options, is_told in (((), True), (("-c", "k"), False), (("-w", "k = 'x'"), False)):
        ran = CliRunner().invoke(main, ["advise", str(tmp_path / "lake"), *options])
        assert ran.exit_code == 0
        assert ("`parquet-bloom add --auto` with the same PATH adds these" in ran.stdout) == is_told
    ran = CliRunner().invoke(main, ["add", str(tmp_path / "lake"), "--auto"])
    assert ran.stdout.startswith("2 columns worth a filter: ")
    ran = CliRunner().invoke(main, ["add", str(tmp_path / "lake"), "--auto"])
    assert ran.stdout.startswith("no column is worth a filter that has none yet")


def test_statements_are_those_of_a_log(tmp_path, caplog):
    folder = tmp_path / "lake"
    values = lake(folder, LAYOUTS["shared ids"][0], files=2)

    def advised(sql):
        (tmp_path / "asked.sql").write_bytes(sql.encode())
        return {row.column: row for row in parquet_bloom.advise(folder, queries=tmp_path / "asked.sql")}["k"]

    known = advised(f"SELECT * FROM lake WHERE k = {values[0]}")
    assert advised(f"\ufeffSELECT * FROM lake\r\nWHERE K = {values[0]};\r\n") == known
    assert not caplog.text
    assert advised(f"SELECT ((;\n\nSELECT * FROM lake WHERE k = {values[0]}") == known
    assert "1 of 2 statements left out, as they do not parse; the statement at line 1: it does not" in caplog.text
    assert advised(f"SELECT 'a;\nSELECT * FROM lake WHERE k = {values[0]}") == known
    (any_row,) = parquet_bloom.advise(folder, "k")
    for parameter in ("?", ":id", "@id", "$1"):
        assert advised(f"SELECT * FROM lake WHERE k = {parameter} OR k IN ({parameter})") == any_row
    assert advised("SELECT * FROM lake WHERE k <> ?").reason == "no condition compares it with = or IN"
    with pytest.raises(parquet_bloom.PredicateError, match="at line 2: it does not parse"):
        advised("\nSELECT ((")
    (tmp_path / "binary.sql").write_bytes(bytes([255, 0]))
    with pytest.raises(ValueError, match="not text in UTF-8"):
        parquet_bloom.advise(folder, queries=tmp_path / "binary.sql")


def test_values_that_no_row_can_have(tmp_path):
    folder = tmp_path / "lake"
    lake(folder, LAYOUTS["shared ids"][0], files=2)
    for condition in ("k = NULL", "k = 5.5"):
        (row,) = parquet_bloom.advise(folder, "k", where=condition)
        assert (row.advice, row.reason) == ("not worth it", "it is compared with no value that it can hold")
    with pytest.raises(ValueError, match="no keys"):
        parquet_bloom.advise(folder, "k", keys=[])


def test_a_column_of_several_types(tmp_path):
    r = random.Random(1)
    for name, column in (
        ("text", [digest(n) for n in range(4000)]),
        ("whole", [r.getrandbits(60) for _ in range(4000)]),
    ):
        table = pa.table({"id": column, "pad": [r.randbytes(80) for _ in range(4000)]})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1000)
    (row,) = parquet_bloom.advise(tmp_path, "id")
    assert (row.advice, row.groups_now) == ("add", pytest.approx(8, abs=2))


def test_the_command_line_names_its_options(tmp_path):
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    (tmp_path / "keys").write_text("1\n")
    for options, said in (
        (("--price", "nan"), "--price must be 0 or more, not nan"),
        (("--price", "inf"), "--price must be 0 or more, not inf"),
        (("-w", "id = 1", "--queries", "x"), "give one of --where, --queries, --keys"),
    ):
        ran = CliRunner().invoke(main, ["advise", str(tmp_path), *options])
        assert (ran.exit_code, said in ran.stderr) == (2, True), ran.stderr


def test_why_not(tmp_path):
    r = random.Random(1)
    table = pa.table(
        {
            "flag": [n % 2 == 0 for n in range(6000)],
            "nothing": pa.nulls(6000, pa.int64()),
            "id": [r.getrandbits(60) for _ in range(6000)],
        }
    )
    for name, size in (("one", 6000), ("tiny", 600)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=size)
    one = {row.column: row for row in parquet_bloom.advise(tmp_path / "one.parquet")}
    assert {row.advice for row in (one["flag"], one["nothing"])} == {"not possible"}
    assert one["nothing"].reason == "it has no values"
    assert (one["id"].advice, one["id"].reason) == ("not worth it", "there is one row group")
    two = pa.table({"n": [[7, 1, 2, 9][n % 4] + n // 3000 for n in range(6000)]})
    pq.write_table(two, tmp_path / "two.parquet", row_group_size=3000)
    (row,) = parquet_bloom.advise(tmp_path / "two.parquet")
    assert row.reason == "there is little to skip: statistics leave 1.8 of 2 row groups"
    tiny = {row.column: row for row in parquet_bloom.advise(tmp_path / "tiny.parquet")}
    assert "is as quickly read as a filter" in tiny["id"].reason


@pytest.mark.parametrize("path", sorted((FIXTURES / "damaged").glob("*.parquet")), ids=lambda path: path.stem)
def test_damage_is_an_error_of_the_file(path):
    advice = parquet_bloom.advise([path, FIXTURES / "pyarrow" / "small.parquet"])
    assert len(advice.errors) <= 1
    assert advice.rows


def test_a_table_is_its_live_files_under_its_own_names(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "table"
    r = random.Random(1)
    for mode in ("append", "overwrite"):
        table = pa.table(
            {"id": [digest(r.random()) for _ in range(9000)], "pad": [r.randbytes(90) for _ in range(9000)]}
        )
        deltalake.write_deltalake(
            path, table, mode=mode, writer_properties=deltalake.WriterProperties(max_row_group_size=1000)
        )
    advice = parquet_bloom.advise(path, "id")
    assert advice.num_files == 1
    assert advice.columns.keys() == {"id"}
    assert advice.table_kind == "Delta"
    ran = CliRunner().invoke(main, ["advise", str(path)])
    assert "`parquet-bloom add --table --auto` with the same PATH adds these" in ran.stdout
    ran = CliRunner().invoke(main, ["add", str(path), "--table", "--auto"])
    assert ran.exit_code == 0
    assert columns_with_filters_in(path) >= {"id"}


def columns_with_filters_in(path):
    return {row.column for row in parquet_bloom.advise(path) if row.advice == "has filters"}


@pytest.mark.parametrize("name", ["paimon/pk", "hudi/v6_mor"])
def test_files_that_are_left_out_are_told(tmp_path, caplog, name):
    advice = parquet_bloom.advise(unpacked(name, tmp_path))
    assert f"{advice.num_files - advice.num_files_read} files left out: " in caplog.text


groups = st.builds(
    lambda low, width, size, kind: Group(
        0, 0, size, 1, None if kind == 1 else low, None if kind == 1 else low + width, kind == 2, False
    ),
    st.integers(-9, 9),
    st.integers(0, 9),
    st.integers(0, 99),
    st.integers(0, 2),
)


@given(st.lists(groups, max_size=12), st.one_of(st.none(), st.integers(-12, 20), st.fractions(-9, 9)))
def test_bounds_count_what_is_open(several, key):
    inside = [group for group in several if group.is_open(key)]
    opened = Bounds(several).open_to(key)
    assert (opened.row_groups, opened.num_bytes) == (len(inside), sum(group.num_bytes for group in inside))


# ---- add by advice, and by a table's properties ------------------------------------------


def test_add_chooses_what_advise_does(tmp_path):
    folder = tmp_path / "lake"
    lake(folder, LAYOUTS["random ids"][0], files=3)
    columns = parquet_bloom.advise(folder).columns
    added = parquet_bloom.add(folder, auto=True)
    assert {one.column for row in added for one in row.filters} == set(columns)
    assert max(one.fpp for row in added for one in row.filters) <= 1.1 * max(columns.values())
    assert parquet_bloom.add(folder, auto=True).rows == ()
    for wrong in (
        {"columns": "k", "auto": True},
        {},
        {"table": True},
        {"policy": True},
        {"auto": True, "policy": True, "table": True},
    ):
        with pytest.raises(ValueError, match=r"columns=|policy="):
            parquet_bloom.add(folder, **wrong)


def test_each_file_gets_those_of_the_chosen_columns_that_it_has(tmp_path, caplog):
    (tmp_path / "lake").mkdir()
    for name in ("k", "other"):
        lake(tmp_path / "lake" / name, LAYOUTS["random ids"][0], files=3)
    for file in (tmp_path / "lake" / "other").glob("*.parquet"):
        pq.write_table(pq.read_table(file).rename_columns(["other", "pad"]), file, row_group_size=GROUP)
    pq.write_table(pa.table({"neither": [1, 2]}), tmp_path / "lake" / "neither.parquet")
    (tmp_path / "lake" / "notes.txt").write_text("no Parquet")
    added = parquet_bloom.add(tmp_path / "lake", auto=True)
    assert not added.errors
    assert caplog.text.count("1 file is not Parquet and was skipped") == 1
    for row in added:
        columns = {one.column for one in row.filters}
        assert ("k" in columns, "other" in columns) == ("/k/" in row.path, "/other/" in row.path)
        assert row.status == ("written" if columns else "unchanged")


@pytest.fixture
def iceberg(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    r = random.Random(1)

    def rows():
        return pa.table(
            {"id": [digest(r.random()) for _ in range(4000)], "n": [r.randrange(10**9) for _ in range(4000)]}
        )

    table = catalog.create_table("db.events", schema=rows().schema)
    table.append(rows())
    return table, rows


def columns_with_filters(table):
    paths = [task.file.file_path for task in table.refresh().scan().plan_files()]
    return [{one.column for one in parquet_bloom.inspect(path)} for path in paths]


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")  # pyiceberg writes no filters
def test_a_policy_brings_a_table_to_what_its_properties_say(iceberg):
    table, rows = iceberg
    with pytest.raises(parquet_bloom.UnsupportedError, match="name no column"):
        parquet_bloom.add(table, table=True, policy=True)
    with table.transaction() as change:
        change.set_properties(
            {
                "write.parquet.bloom-filter-enabled.column.id": "true",
                "write.parquet.bloom-filter-fpp.column.id": "0.05",
                "write.parquet.bloom-filter-enabled.column.n": "false",
            }
        )
    advice = {row.column: row for row in parquet_bloom.advise(table)}
    assert (advice["id"].advice, advice["id"].fpp) == ("add", 0.05)
    assert (advice["n"].advice, advice["n"].reason) == ("not worth it", "the table's properties say no")
    for asked in ("n = 1", "id = NULL"):
        of_asked = parquet_bloom.advise(table, "id", where=asked)
        assert of_asked.columns == {"id": 0.05}, "what a table asks for does not depend on what is looked up"
    (row,) = parquet_bloom.add(table, table=True, policy=True)
    assert {one.column for one in row.filters} == {"id"}
    assert columns_with_filters(table) == [{"id"}]
    before = {task.file.file_path for task in table.refresh().scan().plan_files()}
    table.append(rows())
    parquet_bloom.add(table, table=True, policy=True)
    assert columns_with_filters(table) == [{"id"}, {"id"}]
    assert before < {task.file.file_path for task in table.scan().plan_files()}, "files that have them stay"
    snapshot = table.current_snapshot().snapshot_id
    parquet_bloom.add(table, table=True, policy=True)
    assert table.refresh().current_snapshot().snapshot_id == snapshot


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"write.parquet.bloom-filter-enabled.column.id": "yes"}, "'yes', and not true or false"),
        (
            {
                "write.parquet.bloom-filter-enabled.column.id": "true",
                "write.parquet.bloom-filter-fpp.column.id": "1",
            },
            "'1', and not a rate",
        ),
    ],
)
def test_properties_that_are_not_understood_are_told(iceberg, properties, said):
    table, _ = iceberg
    with table.transaction() as change:
        change.set_properties(properties)
    with pytest.raises(parquet_bloom.UnsupportedError, match=said):
        parquet_bloom.add(table, table=True, policy=True)


def test_delta_has_the_names_of_parquet_java(tmp_path):
    import deltalake

    deltalake.write_deltalake(tmp_path, pa.table({"id": list(range(100)), "n": list(range(100))}))
    (commit,) = (tmp_path / "_delta_log").glob("*.json")  # deltalake itself sets no properties that it does not know
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {
                "parquet.bloom.filter.enabled#n": "true",
                "parquet.bloom.filter.fpp#n": "0.1",
            }
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    (row,) = parquet_bloom.add(tmp_path, table=True, policy=True)
    assert {one.column for one in row.filters} == {"n"}
