"""--quiet leaves errors and warnings; --verbose adds how full filters are."""

import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import FIXTURES

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.cli.output import bars


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    for name, count in (("a", 100), ("b", 5000)):
        table = pa.table({"id": list(range(count)), "flag": [True] * count})
        pq.write_table(table, folder / f"{name}.parquet")
    (folder / "keys.txt").write_text("5\n")
    return folder


LINES = [
    ("add {} -c id --dry-run", "would add"),
    ("add {} -c id", "added"),
    ("verify {}", "ok"),
    ("index create {} -c id", "1 column"),
    ("index refresh {}", "1 column"),
    ("index drop {}", "dropped"),
    ("erase {} -c id -k {}/keys.txt --yes --keep-empty", "1 row"),
    ("drop {} --restore", ""),
    ("recover {}", ""),
]


def test_quiet_prints_nothing_where_all_is_well(lake, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(lake, other)
    for line, said in LINES:
        loud = run(*line.format(lake, lake).split())
        assert loud.output, line
        assert said in loud.output, line
        quiet = run(*line.format(other, other).split(), "-q")
        assert (quiet.output, quiet.exit_code) == ("", loud.exit_code), line


def test_quiet_still_prints_errors_and_warnings(lake):
    refused = run("add", lake, "-c", "flag", "--quiet")
    assert refused.exit_code == 2
    assert "column flag" in refused.output
    damaged = FIXTURES / "damaged" / "cut_five.parquet"
    assert str(damaged) in run("verify", damaged, "--quiet").output
    large = run("add", lake, "-c", "id", "--fpp", "1e-5", "--quiet")
    assert large.output.splitlines() == [line for line in large.output.splitlines() if "of the file" in line]


def test_a_histogram_has_a_sign_for_each_twentieth():
    low, _, *between, high = bars([0.0, 1.0, 1.0])
    assert (set(between), len(between)) == ({" "}, 17)
    assert bars([0.5]) == " " * 10 + high + " " * 9
    assert low not in (" ", high)


def test_verbose_shows_how_full_filters_are(tmp_path):
    path = tmp_path / "x.parquet"
    r = random.Random(1)
    pq.write_table(pa.table({"id": [r.getrandbits(60) for _ in range(3000)]}), path, row_group_size=1000)
    parquet_bloom.add(path, "id", ndv=1000, fpp=0.01)
    ran = run("inspect", path, "--verbose")
    assert ran.exit_code == 0
    (line,) = [line for line in ran.output.splitlines() if "|" in line]
    name, bars, count, *shares = line.split()[0], line.split("|")[1], *line.rpartition("|")[2].split()
    assert (name, len(bars), count) == ("id", 20, "3")
    fills = sorted(one.fill for one in parquet_bloom.inspect(path))
    assert [float(share.rstrip("%")) for share in shares] == [pytest.approx(100 * fill, abs=0.01) for fill in fills]
    assert bars[int(fills[1] * 20)] != " "
    assert "|" not in run("inspect", path).output
