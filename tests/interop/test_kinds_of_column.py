"""The kinds of column that the engines are tried on are all those of our table."""

from __future__ import annotations

from kinds import KINDS, footer_of

from parquet_bloom.filters import engines


def test_every_entry_of_the_table_is_tried(kind_files):
    tried = {engines._column_kind(footer_of(kind_files(kind)["plain"]).leaves[1]) for kind in KINDS}
    assert tried == set(engines._USERS)
