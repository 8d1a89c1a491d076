"""The statements of Spark that take rows out of a table, and then every byte that is left of them; nothing runs them.

What Spark calls a catalog is not known here, so Iceberg's statements have a placeholder for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CATALOG = "<catalog>"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and what it is for."""

    sql: str
    why: str


@dataclass(frozen=True, slots=True)
class DeltaStatements:
    """The statements for the Delta table at a root."""

    root: str

    @property
    def table(self) -> str:
        """What Spark calls the table."""
        return f"delta.`{self.root}`"

    @property
    def cleanup(self) -> str:
        """The statement by which earlier versions, change data and files of no version leave the store."""
        return f"VACUUM {self.table}"

    @property
    def shorten_log(self) -> str:
        """The statement after which Spark keeps the log for a week only."""
        return f"ALTER TABLE {self.table} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 7 days')"

    def steps(self, condition: str) -> Iterator[Statement]:
        """Yield what takes the rows of a condition out of the table, in order."""
        yield Statement(f"DELETE FROM {self.table} WHERE {condition}", "deletes the rows in the newest version")
        yield Statement(f"REORG TABLE {self.table} APPLY (PURGE)", "writes files again of which rows are only marked")
        yield Statement(
            self.cleanup,
            "removes the old files and the change data, once they are older than delta.deletedFileRetentionDuration "
            "(a week); sooner with RETAIN 0 HOURS, after SET spark.databricks.delta.retentionDurationCheck.enabled = "
            "false, if nothing else reads or writes the table",
        )
        yield Statement(
            self.shorten_log,
            "the log has bounds of the old files, and the condition of the DELETE, until its entries are older than "
            "that (a month) and a checkpoint is written; older ones go by themselves",
        )

    def remedy(self, place: str) -> str | None:
        """Return the statement that removes what is in such a place, or None."""
        if place in ("log", "checkpoint"):
            return f"{self.shorten_log}; it goes with a checkpoint that is written after that time"
        return self.cleanup if place in ("version", "no version", "change data", "deletion vector") else None


@dataclass(frozen=True, slots=True)
class IcebergStatements:
    """The statements for an Iceberg table that its catalog knows by a name, such as `db.events`."""

    name: str
    is_sharing: bool = False
    """Whether the table says that its files may be another table's."""
    references: tuple[tuple[str, bool], ...] = ()
    """Branches and tags besides main, and whether each is a tag."""

    @property
    def expire(self) -> str:
        """The statement by which earlier snapshots leave the store."""
        return self._call("expire_snapshots", "older_than => TIMESTAMP '2999-01-01 00:00:00'", "retain_last => 1")

    @property
    def rewrite_manifests(self) -> str:
        """The statement by which the bounds of files that are gone leave the manifests."""
        return self._call("rewrite_manifests", "use_caching => false")

    @property
    def cleanup(self) -> str:
        """The statements by which earlier versions, and what manifests have of them, leave the store."""
        return f"{self.rewrite_manifests}; {self.expire}"

    @property
    def apply_deletes(self) -> str:
        """The statement by which files are written again without deleted rows, and delete files leave the table."""
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        return self._call("rewrite_data_files", f"options => {options}")

    @property
    def orphans(self) -> str:
        """The statement by which files of no snapshot leave the store."""
        return self._call("remove_orphan_files")

    def _call(self, procedure: str, *arguments: str) -> str:
        given = ", ".join((f"table => '{self.name}'", *arguments))
        return f"CALL {CATALOG}.system.{procedure}({given})"

    def steps(self, condition: str) -> Iterator[Statement]:
        """Yield what takes the rows of a condition out of the table, in order."""
        table = f"{CATALOG}.{self.name}"
        for name, is_tag in self.references:
            kind = "TAG" if is_tag else "BRANCH"
            yield Statement(f"ALTER TABLE {table} DROP {kind} `{name}`", "it keeps a snapshot that may have the rows")
        yield Statement(f"DELETE FROM {table} WHERE {condition}", "deletes the rows in the current snapshot")
        yield Statement(self.apply_deletes, "writes the files again without rows that are only marked as deleted")
        yield Statement(self.rewrite_manifests, "manifests keep the bounds of files that are gone until then")
        refused = (
            "; Spark refuses it, for files may be another table's (gc.enabled is false)" if self.is_sharing else ""
        )
        why = f"removes all earlier snapshots with their files; give an earlier time to keep some of them{refused}"
        yield Statement(self.expire, why)
        yield Statement(self.orphans, "removes files that a killed writer left, if they are older than three days")

    def remedy(self, place: str) -> str | None:
        """Return the statement that removes what is in such a place, or None."""
        match place:
            case "manifest" | "manifest list":
                return self.cleanup
            case "delete file":
                return f"{self.apply_deletes}; {self.expire}"
            case "version":
                return self.expire
            case "no version":
                return self.orphans
            case "metadata":
                return (
                    f"ALTER TABLE {CATALOG}.{self.name} SET TBLPROPERTIES ('write.metadata.delete-after-commit.enabled'"
                    " = 'true', 'write.metadata.previous-versions-max' = '1'); older ones go with the next commits"
                )
        return self.expire if place.endswith("of an earlier version") else None


__all__ = ["DeltaStatements", "IcebergStatements", "Statement"]
