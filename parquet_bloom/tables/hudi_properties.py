"""What `hoodie.properties` says of a Hudi table, and which of its properties are understood.

A property that is not understood may change what readers of the table see: then nothing that is known of a file proves
anything, and none of its rows are known.

Sources: `HoodieTableConfig` of Hudi 0.15.0, 1.1.1 and 1.2.0, and tables that they wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

BOOTSTRAP = "hoodie.bootstrap.base.path"
DROPPED = "hoodie.datasource.write.drop.partition.columns"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"

_UNDERSTOOD: dict[str, tuple[str, ...] | None] = {
    # The table and its timeline
    "hoodie.database.name": None,
    "hoodie.table.name": None,
    "hoodie.table.type": None,
    "hoodie.table.version": None,
    "hoodie.table.initial.version": None,
    "hoodie.table.format": ("native",),
    "hoodie.table.checksum": None,
    "hoodie.table.timeline.timezone": None,
    "hoodie.timeline.layout.version": None,
    "hoodie.timeline.path": None,
    "hoodie.timeline.history.path": None,
    "hoodie.archivelog.folder": None,
    # Files: what they are is told by their names
    "hoodie.table.base.file.format": None,
    "hoodie.table.log.file.format": None,
    "hoodie.table.ro.file.format": None,
    "hoodie.table.rt.file.format": None,
    "hoodie.table.multiple.base.file.formats.enable": None,
    "hoodie.partition.metafile.use.base.format": None,
    # Columns and keys
    "hoodie.table.create.schema": None,
    "hoodie.table.recordkey.fields": None,
    "hoodie.populate.meta.fields": None,
    "hoodie.allow.operation.metadata.field": ("false",),
    # Partitions
    "hoodie.table.partition.fields": None,
    "hoodie.table.keygenerator.class": None,
    "hoodie.table.keygenerator.type": None,
    "hoodie.keygen.timebased.*": None,
    "hoodie.deltastreamer.keygen.timebased.*": None,
    "hoodie.table.partition_extractor_class": None,
    DROPPED: None,
    HIVE_STYLE: None,
    "hoodie.datasource.write.partitionpath.urlencode": None,
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false",),
    # Bootstrap
    BOOTSTRAP: None,
    "hoodie.bootstrap.index.*": None,
    # How log files are merged: files with newer ones prove nothing in any case
    "hoodie.table.precombine.field": None,
    "hoodie.table.ordering.fields": None,
    "hoodie.compaction.payload.class": None,
    "hoodie.compaction.record.merger.strategy": None,
    "hoodie.record.merge.mode": None,
    "hoodie.record.merge.strategy.id": None,
    "hoodie.record.merge.property.*": None,
    "hoodie.table.legacy.payload.class": None,
    "hoodie.table.partial.update.mode": None,
    "hoodie.table.cdc.enabled": None,
    "hoodie.table.cdc.supplemental.logging.mode": None,
    # What Hudi keeps beside the files
    "hoodie.table.metadata.partitions": None,
    "hoodie.table.metadata.partitions.inflight": None,
    "hoodie.table.secondary.indexes.metadata": None,
    "hoodie.table.index.defs.path": None,
    # Settings of writers, which Spark's SQL notes there
    "hoodie.archive.*": None,
    "hoodie.bloom.*": None,
    "hoodie.bucket.index.*": None,
    "hoodie.bulkinsert.*": None,
    "hoodie.clean.*": None,
    "hoodie.cleaner.*": None,
    "hoodie.clustering.*": None,
    "hoodie.compact.*": None,
    "hoodie.copyonwrite.*": None,
    "hoodie.datasource.hive_sync.*": None,
    "hoodie.datasource.meta.sync.*": None,
    "hoodie.delete.*": None,
    "hoodie.embed.*": None,
    "hoodie.index.*": None,
    "hoodie.insert.*": None,
    "hoodie.keep.*": None,
    "hoodie.logfile.*": None,
    "hoodie.memory.*": None,
    "hoodie.meta.sync.*": None,
    "hoodie.metadata.*": None,
    "hoodie.parquet.*": None,
    "hoodie.rollback.*": None,
    "hoodie.simple.index.*": None,
    "hoodie.upsert.*": None,
    "hoodie.write.concurrency.*": None,
    "hoodie.write.lock.*": None,
}
"""Each property with the values that are understood, None for all; `*` is for whatever follows."""

_BY_VALUE = (
    "SIMPLE",
    "SIMPLE_AVRO",
    "COMPLEX",
    "COMPLEX_AVRO",
    "org.apache.hudi.keygen.SimpleKeyGenerator",
    "org.apache.hudi.keygen.SimpleAvroKeyGenerator",
    "org.apache.hudi.keygen.ComplexKeyGenerator",
    "org.apache.hudi.keygen.ComplexAvroKeyGenerator",
)
"""The key generators that make a partition's path of its columns' values, one folder each, and of nothing else."""


def why_not_understood(settings: Mapping[str, str]) -> str | None:
    """Return the first property of a table that may change what its readers see, as a reason, or None."""
    for name, value in sorted(settings.items()):
        if name.startswith("hoodie.") and not _is_understood(name, value):
            return f"the table's property {name}={value:.60} is not understood"
    return None


def _is_understood(name: str, value: str) -> bool:
    parts = name.split(".")
    families = (".".join((*parts[:end], "*")) for end in range(2, len(parts)))
    key = next((key for key in (name, *families) if key in _UNDERSTOOD), None)
    if key is None:
        return False
    values = _UNDERSTOOD[key]
    return values is None or value.strip().lower() in values


def partition_columns(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return a table's partition columns, in the order of their folders."""
    fields = settings.get("hoodie.table.partition.fields", "").split(",")
    return tuple(name for field in fields if (name := field.partition(":")[0].strip()))


def is_true(settings: Mapping[str, str], name: str) -> bool:
    """Return whether a property that is false by default is set."""
    return settings.get(name, "false").strip().lower() == "true"


def why_no_values_in_paths(settings: Mapping[str, str]) -> str | None:
    """Return why a partition's path does not tell the values of its columns, or None."""
    given = settings.get("hoodie.table.keygenerator.type") or settings.get("hoodie.table.keygenerator.class")
    if given in _BY_VALUE:
        return None
    return f"the key generator {given.rpartition('.')[2]} is not understood" if given else "no key generator is known"


def properties(text: str) -> dict[str, str]:
    """Return the entries of a Java properties file, one a line."""
    entries = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*((?:\\.|[^=:\s\\])+)\s*[=:]?\s*(.*)", line)
        if match and not line.lstrip().startswith(("#", "!")):
            entries[_unescaped(match[1])] = _unescaped(match[2])
    return entries


def _unescaped(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _character, text)


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)


_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
