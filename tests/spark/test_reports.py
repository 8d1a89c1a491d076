"""`inspect`, `verify` and `prune` on executors say what they say on one machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, PredicateError
from parquet_bloom.results import from_row
from parquet_bloom.spark import tasks
from parquet_bloom.spark.tasks import GONE, balanced
from parquet_bloom.verbs.inspect import FileInfo
from parquet_bloom.verbs.verdicts import FileVerdict
from parquet_bloom.verbs.verify import VerifiedFile

pytestmark = [needs_java, pytest.mark.spark]

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of several engines, some damaged."""
    folder = tmp_path_factory.mktemp("mixed")
    files = [*sorted(FIXTURES.glob("*/*.parquet"))[::4], *sorted(FIXTURES.glob("damaged/**/*.parquet"))[::20]]
    for number, file in enumerate(dict.fromkeys(files)):
        shutil.copyfile(file, folder / f"{number:02}.parquet")
    return folder


def records(frame: Any, kind: type) -> dict[str, Any]:
    return {row.path: from_row(kind, row.asDict(recursive=True)) for row in frame.collect()}


def by_path(files: Any) -> dict[str, Any]:
    return {file.path: file for file in files}


def finite(record: Any) -> Any:
    """Returns the record as a row has it: infinities and NaN are NULL there."""
    return record.to_dict()


def num_persisted(session: Any) -> int:
    return session.sparkContext._jsc.getPersistentRDDs().size()


def test_rows_stay_until_they_are_freed(mixed: Path) -> None:
    before = num_persisted(spark())
    found = bloom.prune(spark(), mixed, "length('x') = 1")
    assert num_persisted(spark()) == before + 1
    found.unpersist(blocking=True)
    assert num_persisted(spark()) == before


def test_inspect(mixed: Path) -> None:
    found = records(bloom.inspect(spark(), mixed), FileInfo)
    expected = by_path(parquet_bloom.inspect(mixed).files)
    assert {path: finite(file) for path, file in found.items()} == {p: finite(f) for p, f in expected.items()}
    assert any(file.error for file in expected.values())


def test_verify(mixed: Path) -> None:
    found = records(bloom.verify(spark(), mixed), VerifiedFile)
    expected = by_path(parquet_bloom.verify(mixed).files)
    assert {path: finite(file) for path, file in found.items()} == {p: finite(f) for p, f in expected.items()}


def test_the_driver_says_who_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "raw.parquet"
    pq.write_table(pa.table({"raw": [b"a", b"b"]}), path)
    parquet_bloom.add(path, "raw", accept_hazards=True)
    monkeypatch.setenv("PARQUET_BLOOM_READERS", "duckdb>=1.5")  # executors have the one that they started with
    for verb, here, kind in (
        (bloom.inspect, parquet_bloom.inspect, FileInfo),
        (bloom.verify, parquet_bloom.verify, VerifiedFile),
    ):
        expected = by_path(here(path).files)
        assert "DuckDB" in expected[str(path)].filters[0].hazards[0]
        assert records(verb(spark(), path), kind) == expected
        [named] = records(verb(spark(), path, readers="duckdb>=2"), kind).values()
        assert named.filters[0].hazards == ()
        with pytest.raises(ValueError, match="duckling"):
            verb(spark(), path, readers="duckling")


def test_prune_with_files_in_two_types(tmp_path: Path) -> None:
    session = spark()
    for name, values in (("1", [9, 10]), ("2", [10, 11]), ("3", [400, 500])):
        session.createDataFrame([(v,) for v in values], "n bigint").coalesce(1).write.parquet(f"{tmp_path}/{name}")
    paths = [str(file) for name in "123" for file in (tmp_path / name).glob("*.parquet")]
    assert sum(file.is_kept for file in records(bloom.prune(session, paths, "n = '400'"), FileVerdict).values()) == 1
    session.createDataFrame([("400",)], "n string").coalesce(1).write.parquet(f"{tmp_path}/4")
    paths += map(str, (tmp_path / "4").glob("*.parquet"))
    # Each file is a task of its own, which sees one type; only together do they disagree.
    listed = session.createDataFrame([(path,) for path in paths], "path string")
    found = records(bloom.prune(session, listed, "n = '400'"), FileVerdict)
    assert len(found) == 4
    assert all(file.is_kept for file in found.values())


CONDITIONS = ["v = 5", "v = 5 OR k > 7", "nothing = 1 AND v = 5", "k = 'x'", "t = TIMESTAMP '2024-01-01'"]


@pytest.mark.parametrize("where", CONDITIONS)
def test_prune_as_on_one_machine(mixed: Path, where: str) -> None:
    session = spark()
    try:
        expected = by_path(parquet_bloom.prune(mixed, where, timezone="UTC", case_sensitive=False).all_files)
    except (ColumnNotFoundError, LiteralError) as error:
        with pytest.raises(type(error)):
            bloom.prune(session, mixed, where)
        return
    assert records(bloom.prune(session, mixed, where), FileVerdict) == expected


def test_exact_as_on_one_machine(tmp_path: Path) -> None:
    for number in range(3):
        rows = pa.table({"n": pa.array(range(number, 3000, 3), pa.int64())})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    found = records(bloom.prune(spark(), tmp_path, "n = 1500", exact=True), FileVerdict)
    assert found == by_path(parquet_bloom.prune(tmp_path, "n = 1500", exact=True).all_files)
    assert [file.is_kept for _, file in sorted(found.items())] == [True, False, False]


def test_what_concerns_every_file_is_raised(mixed: Path) -> None:
    session = spark()
    sound = [file.path for file in parquet_bloom.verify(mixed).files if not file.error][:6]
    for verb, files in ((bloom.inspect, mixed), (bloom.verify, sound)):
        with pytest.raises(ColumnNotFoundError, match="nothing"):
            verb(session, files, "nothing")
    with pytest.raises(PredicateError, match="does not parse"):
        bloom.prune(session, mixed, "v ==== 5")
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        bloom.prune(session, mixed / "nothing", "v = 5")


def test_a_file_that_goes_meanwhile(mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("01", "02", "03"):
        shutil.copyfile(mixed / f"{name}.parquet", tmp_path / f"{name}.parquet")
    listed = tasks.shared_out

    def then_removed(*arguments: Any) -> list[list[str]]:
        shares = listed(*arguments)
        (tmp_path / "02.parquet").unlink(missing_ok=True)
        return shares

    monkeypatch.setattr(tasks, "shared_out", then_removed)
    gone = str(tmp_path / "02.parquet")
    found = records(bloom.inspect(spark(), tmp_path), FileInfo)
    assert (len(found), found[gone].error) == (3, GONE)
    shutil.copyfile(mixed / "02.parquet", gone)
    found = records(bloom.prune(spark(), tmp_path, "length('x') = 1"), FileVerdict)
    assert found[gone].not_pruned == GONE


def test_jobs_are_described_and_progress_is_told(mixed: Path) -> None:
    session = spark()
    told: list[tuple[int, int]] = []
    bloom.verify(session, mixed, progress=lambda done, total: told.append((done, total)))
    assert all(done <= total for done, total in told)
    store = session._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    described = {str(jobs.apply(i).description()) for i in range(jobs.size())}
    assert "Some(parquet_bloom: verifying filters)" in described
    assert session.sparkContext.getLocalProperty("spark.job.description") is None


def test_shares_are_balanced() -> None:
    assert balanced([], 4) == []
    shares = balanced([100, 1, 1, 50, 49, 1, 98], 3)
    assert sorted(index for share in shares for index in share) == list(range(7))
    assert max(sum([100, 1, 1, 50, 49, 1, 98][i] for i in share) for share in shares) <= 101
