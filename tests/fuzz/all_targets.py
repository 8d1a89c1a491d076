"""All targets, by name."""

import table_targets
import targets
from targets import Target

TARGETS: dict[str, Target] = {
    **targets.TARGETS,
    "delta": Target(table_targets.run_table(table_targets.delta_of, "id = 3"), table_targets.scripts),
    "iceberg": Target(table_targets.iceberg, table_targets.iceberg_scripts),
    "hudi": Target(table_targets.run_table(table_targets.hudi_of, "id = 3"), table_targets.scripts),
    "paimon": Target(table_targets.run_table(table_targets.paimon_of, "id = 3"), table_targets.scripts),
    "index": Target(table_targets.index, table_targets.scripts),
    "states": Target(
        table_targets.states, table_targets.state_seeds, [b"\xff" * 8, b"|", b"\0" * 8, b"1" * 12, b"[", b'"']
    ),
}
