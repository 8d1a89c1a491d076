"""What each feature of a Delta table requires of a swap of files, by the feature's name in the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

THROUGH_DELTALAKE = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)
"""Features that deltalake can commit to."""

BY_ENTRY = frozenset(
    {
        "allowColumnDefaults",  # a rule for new rows only
        "checkpointProtection",  # a rule for cleaning up the log
        "clustering",  # statistics and the clustering's name stay with the file
        "domainMetadata",  # no domain changes
        "icebergCompatV1",  # a copy is as convertible as its file, and has its tags
        "icebergCompatV2",
        "identityColumns",  # a rule for new rows only
        "inCommitTimestamp",  # each commit has its time, later than the one before
        "typeWidening",  # a copy has its file's types, which readers widen
        "vacuumProtocolCheck",  # a rule for VACUUM only
    }
)
"""Features that deltalake cannot commit to, but that only need to be carried along."""

_MANAGED = "its commits must go through the catalog that manages the table, which parquet-bloom cannot do"
_ROW_IDS = "new files need new row ids and must keep the old ones in columns, which a copy of a file does not have"

_REFUSED = {
    "rowTracking": _ROW_IDS,
    "icebergCompatV3": _ROW_IDS,
    "icebergWriterCompatV1": "it sets rules for new files that parquet-bloom does not know",
    "icebergWriterCompatV3": "it sets rules for new files that parquet-bloom does not know",
    "materializePartitionColumns": "new files must contain the partition columns, and a copy of an older file may not",
    "typeWidening-preview": "a file's types depend on the version that added it, and a copy is added by a later one",
    "catalogManaged": _MANAGED,
    "catalogOwned-preview": _MANAGED,
    "coordinatedCommits-preview": _MANAGED,
    "managedCommit-preview": _MANAGED,
}

_OF_VERSION = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
"""The features that each writer version before 7 implies."""

_NAMED = 7
"""The writer version that names the features."""


def writer_features(protocol: Mapping[str, Any]) -> frozenset[str]:
    """Return the features that those who write to a table of this protocol must know."""
    version = protocol.get("minWriterVersion") or 1
    if version == _NAMED:
        return frozenset(protocol.get("writerFeatures") or ())
    return frozenset(name for since, names in _OF_VERSION.items() if since <= version for name in names)


def refused_feature(protocol: Mapping[str, Any]) -> str | None:
    """Return why no file of a table of this protocol can be swapped, naming the feature; or None."""
    version = protocol.get("minWriterVersion") or 1
    if version > _NAMED:
        return f"it needs writer version {version}, which is not supported"
    for name in sorted(writer_features(protocol) - THROUGH_DELTALAKE - BY_ENTRY):
        return f"it has the feature {name}: {_REFUSED.get(name, 'what it requires of new files is not known')}"
    return None


def features_for_entry(protocol: Mapping[str, Any]) -> frozenset[str]:
    """Return the features for which deltalake refuses to commit to a table of this protocol."""
    return writer_features(protocol) - THROUGH_DELTALAKE


__all__ = ["features_for_entry", "refused_feature", "writer_features"]
