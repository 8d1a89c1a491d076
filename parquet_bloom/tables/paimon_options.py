"""Which options of a Paimon table are understood: those that decide what its readers see, and those that do not.

The options lie in the table's schema, and readers follow them without being asked to. Some choose another state than
the newest snapshot of the branch: another branch, a tag, the changes between two snapshots, a mixture of branches. Such
a table is refused, by the option's name, and so is one with an option of the same families that is not listed. With any
other option that is not listed, nothing proves that a file's rows are not there, and none are returned.

The lists were compared with Paimon 0.9.0 and 1.4.2: each of their options was put into a schema, and the rows that they
read with it were compared with those without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate

from parquet_bloom.errors import UnsupportedError

FOLLOWED = (
    "bucket",
    "data-evolution.enabled",
    "data-file.path-directory",
    "deletion-vectors.enabled",
    "deletion-vectors.merge-on-read",
    "fields.*.default-value",
    "file-index.*",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
    "record-level.expire-time",
    "row-tracking.enabled",
)
"""Options that decide which rows readers see or where files lie, and that are followed: files of theirs may be kept."""

STATES: Mapping[str, tuple[str, ...]] = {
    "batch-scan-mode": ("none",),
    "chain-table.enabled": ("false",),
    "log.scan": ("full", "latest"),
    "query-auth.enabled": ("false",),
    "scan.fallback-branch": ("",),
    "scan.ignore-corrupt-files": ("false",),
    "scan.ignore-lost-files": ("false",),
    "scan.mode": ("default", "full", "latest", "latest-full"),
    "scan.primary-branch": ("",),
    "stream-scan-mode": ("none",),
    "type": ("materialized-table", "table"),
}
"""Options that choose what is read, and the values with which it is all of the newest snapshot."""

STATE_FAMILIES = (
    "batch-scan-mode*",
    "branch*",
    "chain-table*",
    "incremental-*",
    "log.scan*",
    "metastore.tag-to-partition*",
    "query-auth*",
    "scan.*",
    "stream-scan-mode*",
    "type",
)
"""Where options are refused that nothing else here lists."""

NO_EFFECT = (
    # how much is read at once, and by whom
    *("blob.split-by-file-size", "continuous.discovery-interval", "consumer-id", "consumer.*"),
    *("file-reader-async-threshold", "global-index.*", "btree-index.*", "lookup*", "read.batch-size"),
    *("scan.bounded.watermark", "scan.dedicated-split-generation", "scan.infer-parallelism*"),
    *("scan.manifest.parallelism", "scan.max-snapshot.count", "scan.max-splits-per-task", "scan.parallelism"),
    *("scan.plan-sort-partition", "scan.push-down", "scan.remove-normalize", "scan.split-enumerator.*"),
    *("scan.watermark.alignment.*", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout"),
    *(
        "source.checkpoint-align.*",
        "source.split.*",
        "streaming-read-*",
        "streaming.read.snapshot.delay",
        "read.stream.*",
    ),
    *("table-read.sequence-number.enabled", "key-value.sequence_number.enabled"),
    # how rows are written, merged into files and compacted
    *("add-column-before-partition", "aggregation.*", "alter-column-null-to-not-null.disabled", "async-file-write"),
    *("bucket-append-ordered", "bucket-function.type", "bucket-key", "cache-page-size", "changelog*", "clustering.*"),
    *("commit.*", "compaction.*", "cross-partition-upsert.*", "data-file.external-paths*", "data-file.prefix"),
    *(
        "data-file.thin-mode",
        "delete-file.thread-num",
        "delete.force-produce-changelog",
        "deletion-vector.index-file.target-size",
    ),
    *("deletion-vectors.bitmap64", "deletion-vectors.modifiable", "disable-explicit-type-casting"),
    *("dynamic-bucket.*", "dynamic-partition-overwrite", "end-input.*", "fields.default-aggregate-function"),
    *("fields.*.aggregate-function", "fields.*.distinct", "fields.*.ignore-retract", "fields.*.list-agg-delimiter"),
    *("fields.*.nested-key", "fields.*.sequence-group", "file-operation.thread-num", "force-lookup"),
    *(
        "file.block-size",
        "file.compression*",
        "file.format",
        "file.format.per.level",
        "file.suffix.include.compression",
    ),
    *("full-compaction.*", "ignore-update-before", "local-merge-buffer-size"),
    *("ignore-delete", "deduplicate.ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete"),
    *("local-sort.*", "num-levels", "num-sorted-run.*", "overwrite-upgrade", "page-size", "partial-update.*"),
    *("partition.end-input-to-done", "partition.expiration-*", "partition.idle-time-to-*", "partition.mark-done*"),
    *("partition.sink-strategy", "partition.time-interval", "partition.timestamp-*", "postpone.*"),
    *("precommit-compact", "record-level.time-field*", "rowkind.field", "sequence.*", "sink.*", "sort-*", "spill-*"),
    *("target-file-size", "unaware-bucket.*", "upsert-key", "visibility-callback.*", "write-*", "write.*", "zorder.*"),
    # formats, metadata, catalogs, clean-up
    *("auto-create", "avro.*", "csv.*", "json.*", "orc.*", "parquet.*", "text.*", "variant.*"),
    *("comment", "external", "is_managed_location", "location", "owner", "path", "provider"),
    *("kafka.*", "log.changelog-mode", "log.consistency", "log.format", "log.key.format", "log.system*"),
    *("fs.*", "hadoop.*", "hive.*", "oss.*", "s3.*", "s3a.*"),
    *("manifest.*", "materialized-table.*", "metadata.*", "metastore.partitioned-table", "primary-key", "partition"),
    *("parquet-bloom.readers", "rocksdb.*", "snapshot.*", "tag.*"),
)
"""Options with which readers of a batch see the same rows as without them."""

_ENGINES = ("aggregation", "deduplicate", "first-row", "partial-update")


def require_newest_state(options: Mapping[str, str], branch: str | None, root: str) -> None:
    """Raise `UnsupportedError` for options with which readers see something else than a branch's newest snapshot."""
    for name, value in options.items():
        if not _STATE_FAMILIES.fullmatch(name) or _is_understood(name, value) or (name, value) == _own(branch):
            continue
        is_branch = name in ("branch", "scan.fallback-branch", "scan.primary-branch")
        advice = f", or name the branch that you mean, such as {root}$branch_{value}" if is_branch else ""
        raise UnsupportedError(
            f"{root} has the option {name}={value}, with which its readers may see other rows than those of its newest "
            f"snapshot, and that is not supported; remove the option{advice}"
        )


def why_unknown(options: Mapping[str, str]) -> str | None:
    """Return which option is not understood, or None."""
    for name, value in options.items():
        if not _is_understood(name, value) and not _STATE_FAMILIES.fullmatch(name):
            return f"the table's option {name}={value} is not known, and may change what its readers see"
    return None


def _own(branch: str | None) -> tuple[str, str]:
    return "branch", branch or "main"


def _is_understood(name: str, value: str) -> bool:
    if name in STATES:
        return value in STATES[name]
    if name == "merge-engine":
        return value in _ENGINES
    return _UNDERSTOOD.fullmatch(name) is not None


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


_UNDERSTOOD = _any_of((*FOLLOWED, *NO_EFFECT))
_STATE_FAMILIES = _any_of(STATE_FAMILIES)

__all__ = ["FOLLOWED", "NO_EFFECT", "STATES", "STATE_FAMILIES", "require_newest_state", "why_unknown"]
