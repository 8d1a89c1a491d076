"""Behind a file's footer, only what `add` was writing there is taken for the rest of an `add` in place."""

from __future__ import annotations

import io
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import SOUND, fixture, footer_bytes, names, opened, with_footer, write
from hypothesis import given, settings
from hypothesis import strategies as st

from parquet_bloom import add, inspect
from parquet_bloom.errors import CorruptFileError, NotParquetError, UnsupportedError
from parquet_bloom.format.footer import Plan
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.recovery import WholeState, find_whole_state
from parquet_bloom.format.sbbf import write_header
from parquet_bloom.format.splice import is_cut_off_splice, splice_filters


def found(data: bytes, watch: Callable[[list[ByteRange]], None] = lambda ranges: None) -> WholeState:
    plan: Plan[WholeState] = find_whole_state(len(data))
    parts = None
    try:
        while True:
            ranges = plan.send(parts)  # type: ignore[arg-type]
            assert all(0 <= r.start <= r.stop <= len(data) for r in ranges)
            watch(ranges)
            parts = [data[r.start : r.stop] for r in ranges]
    except StopIteration as stop:
        state: WholeState = stop.value
        return state


def whole_size(data: bytes) -> int | None:
    """Returns the size of the last whole state, None where none is found."""
    try:
        return found(data).footer.file_size
    except CorruptFileError:
        return None


@pytest.fixture(scope="module")
def versions(tmp_path_factory: Any) -> list[bytes]:
    """A file and what it became: filters, then more of them, then other ones in their place."""
    path = tmp_path_factory.mktemp("versions") / "x.parquet"
    states = [write(path, 60)]
    for options in ({"columns": "id"}, {"columns": "name", "fpp": 0.5}, {"columns": ["name", "id"], "replace": True}):
        assert add(path, **options).rows[0].status == "written"
        states.append(path.read_bytes())
    return states


def nested(rows: list[bytes], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(
        pa.table({"blob": pa.array(rows, pa.binary())}), file, compression="none", use_dictionary=False, **options
    )
    return file.getvalue()


# ---- what add was writing ----------------------------------------------------------------


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_cut_off_at_every_length_the_state_before_is_found(versions: list[bytes], step: int) -> None:
    for old, new in itertools.pairwise(versions):
        assert new.startswith(old)
        for size in {*range(len(old), len(new), step), *range(len(new) - 40, len(new))}:
            assert whole_size(new[:size]) == len(old), size
        assert whole_size(new) == len(new)


@pytest.mark.parametrize("name", names(SOUND))
def test_files_of_all_writers_are_whole_and_are_found_again(name: str, tmp_path: Path) -> None:
    old = fixture(name)
    assert whole_size(old) == len(old)
    path = tmp_path / "x.parquet"
    path.write_bytes(old)
    _, footer = opened(path)
    if not footer.leaves:
        return
    (row,) = add(path, [leaf.name for leaf in footer.leaves], replace=True, allow_large=True).rows
    new = path.read_bytes()
    assert (row.status == "written") == (new != old)
    dice = random.Random(name)
    cuts = settings().max_examples // 2 if new != old else 0
    for size in [len(new), *(dice.randrange(len(old), len(new)) for _ in range(cuts))]:
        assert whole_size(new[:size]) == (len(new) if size == len(new) else len(old))


WITHOUT_LENGTHS = "pyarrow/without_length.parquet"


def test_missing_lengths_that_were_being_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(old := fixture(WITHOUT_LENGTHS))
    columns = list(dict.fromkeys(row.column for row in inspect(path).rows))
    assert add(path, columns, fill_lengths=True).rows[0].status == "written"
    new = path.read_bytes()
    assert not found(new).num_filters
    for size in {*range(len(old), len(new), 7), *range(len(new) - 40, len(new))}:
        assert whole_size(new[:size]) == len(old)
    changed = new[:-9].replace(footer_bytes(new)[-200:-100], bytes(100))
    assert changed != new[:-9]
    assert whole_size(changed) is None


def test_zeros_that_a_power_cut_left_behind_filters(versions: list[bytes]) -> None:
    old, new = versions[:2]
    filters = len(new) - len(footer_bytes(new)) - 8
    for size in range(len(old) + 79, len(new), 7):
        assert whole_size(new[:size] + bytes(len(new) - size)) == len(old)
    assert whole_size(new[:filters] + bytes(9_000_000)) == len(old)
    assert whole_size(new[:filters] + bytes(100_000) + b"x") is None  # far behind the longest footer
    assert whole_size(old + bytes(100)) is None  # which no filter explains


# ---- anything else -----------------------------------------------------------------------

HEADERS = {write_header(64 << k): 64 << k for k in range(25)}
PIECES = [b"PAR1", b"\x15", b"\0" * 8, *(header + bytes(n) for header in map(write_header, (64, 128)) for n in (0, 64))]


def is_explained(tail: bytes, footer: bytes) -> bool:
    """Returns whether filters begin a tail, of which the last is cut off, or something else that was being written."""
    count = 0
    while header := next((header for header in HEADERS if tail.startswith(header)), None):
        if len(tail) < len(header) + HEADERS[header]:
            return True
        tail, count = tail[len(header) + HEADERS[header] :], count + 1
    rest = tail.rstrip(b"\0") if count else tail
    return footer.startswith(rest) or any(header.startswith(rest) for header in HEADERS)


@given(pieces=st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(PIECES)), min_size=1))
def test_a_tail_of_anything_is_explained_by_filters_or_refused(pieces: list[bytes]) -> None:
    tail = b"".join(pieces)
    size = whole_size(SMALL_FILE + tail)
    assert size == (len(SMALL_FILE) if is_explained(tail, footer_bytes(SMALL_FILE)) else None)


SMALL_FILE = nested([b"a", b"b"])


@pytest.mark.parametrize("seed", range(3))
def test_a_byte_that_is_not_ours_behind_the_filters_is_never_cut_away(versions: list[bytes], seed: int) -> None:
    old, new = versions[seed : seed + 2]
    start = len(new) - len(footer_bytes(new)) - 8
    dice = random.Random(seed)
    for _ in range(300):
        at = dice.randrange(start, len(new) - 1)
        changed = bytearray(new[: dice.randrange(at + 1, len(new))])
        changed[at] ^= 1 << dice.randrange(8)
        size = whole_size(bytes(changed))
        if size is not None:  # an offset's last bytes were cut off with what follows, or name another of the filters
            assert size == len(old)
            assert is_cut_off_splice(footer_bytes(old), bytes(changed[start:]), filters_behind(old, new))
    for at in filters_behind(old, new):
        changed = bytearray(new[:start])
        changed[at + dice.randrange(15)] ^= 0xFF
        assert whole_size(bytes(changed)) is None


def filters_behind(old: bytes, new: bytes) -> dict[int, int]:
    state = found(new)
    lengths = {}
    for _, _, chunk in state.footer.chunks():
        if (chunk.bloom_filter_offset or 0) >= len(old):
            lengths[chunk.bloom_filter_offset] = chunk.bloom_filter_length
    return lengths


def test_a_footer_with_a_filter_that_is_not_there_is_refused(versions: list[bytes]) -> None:
    old, new = versions[:2]
    start = len(new) - len(footer_bytes(new)) - 8
    lies = splice_filters(footer_bytes(old), {(0, 0): (len(old) + 1, 79)})
    assert whole_size(new[:start] + lies[:-1]) is None
    renamed = footer_bytes(new).replace(b"name", b"nome")
    assert whole_size(new[:start] + renamed[:-1]) is None
    assert whole_size(new + b"\n") is None
    assert whole_size(new[:-4]) == len(old)
    assert whole_size(new[:-4] + b"PARE"[:2]) is not None  # PA, as of PAR1


def test_parquet_files_in_a_column_are_not_taken_for_the_file(versions: list[bytes]) -> None:
    # Small first pages, which might pass for the pages of the file inside.
    for rows in ([versions[1]], [b"x", versions[0] + write_header(64) + bytes(64)], [b"x" * 100, *versions]):
        data = nested(rows, data_page_size=64, write_batch_size=1)
        assert whole_size(data) == len(data)
        for size in sizes_around_footers(data):
            assert whole_size(data[:size]) is None, size
        assert whole_size(data + b"\x15") == len(data)


def test_a_whole_file_that_is_a_value_at_the_beginning_is_not_the_file() -> None:
    # The offsets of the file inside would fit, but there are no such pages at them.
    data = nested([nested([b"y" * 50]), b"z" * 1000])
    for size in range(12, len(data)):
        assert whole_size(data[:size]) is None, size


def sizes_around_footers(data: bytes) -> set[int]:
    """Returns sizes to cut a file at: some, and all behind a magic."""
    sizes = set(range(12, len(data), 101))
    for end in re.finditer(b"PAR1", data):
        sizes |= set(range(max(12, end.end()), min(len(data), end.end() + 24)))
    return sizes


def test_what_is_not_parquet(versions: list[bytes]) -> None:
    for data in (b"", b"PAR1", b"x" * 1000, b"PAR1" + bytes(1000), b"PAR1" * 1000):
        with pytest.raises(CorruptFileError):
            found(data)
    with pytest.raises(NotParquetError, match="does not begin with PAR1"):
        found(b"x" + versions[0][1:])
    with pytest.raises(UnsupportedError, match="encrypted"):
        found(versions[0][:-4] + b"PARE")


@pytest.mark.parametrize(
    "piece", [b"PAR1", b"PAR1\x15\x02\x19", b"\x04\0\0\0PAR1\x15\x02\x19", b"PAR1" + write_header(64)]
)
def test_hostile_files_cost_a_multiple_of_their_size(piece: bytes) -> None:
    data = b"PAR1" + piece * (1_000_000 // len(piece))
    read = 0

    def count(ranges: list[ByteRange]) -> None:
        nonlocal read
        read += sum(map(len, ranges))

    with pytest.raises(CorruptFileError):
        found(data, count)
    assert read < 20_000_000


def test_an_own_footer_s_length_may_be_anything(versions: list[bytes]) -> None:
    old = versions[0]
    for length in (0, 1, len(old), 2**32 - 1):
        assert whole_size(old[:-8] + length.to_bytes(4, "little") + b"PAR1" + write_header(64)) is None
    assert whole_size(with_footer(old, footer_bytes(old))) == len(old)
