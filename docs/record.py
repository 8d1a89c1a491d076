"""Records the picture of the README: runs commands on the sample and writes docs/pages/terminal.svg.

Run it again when the output of one of the commands changes: python docs/record.py
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent / "pages" / "terminal.svg"
WIDTH = 112
COMMANDS = (
    "parquet-bloom add events -c user_id",
    "parquet-bloom inspect events | head -4",
    "parquet-bloom prune events -w \"user_id = '28ffad1b05bb444861f48830fa5f39bf'\"",
    "parquet-bloom verify events",
)


def main() -> None:
    """Run the commands one after the other and draw what they print."""
    with tempfile.TemporaryDirectory() as folder:
        write_sample(Path(folder, "events"))
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")), soft_wrap=True)
            console.print(Text(run(command, folder)), soft_wrap=True)
        drawing = console.export_svg(title="parquet-bloom", unique_id="terminal")
    without_fonts = re.sub(r"@font-face \{.*?\}\n\s*", "", drawing, flags=re.DOTALL)  # nothing is loaded from elsewhere
    PICTURE.write_text("\n".join(map(str.rstrip, without_fonts.splitlines())) + "\n", "utf-8")


def write_sample(folder: Path) -> None:
    """Write the sample of `demo` without its filters, its key under a name that users know."""
    import pyarrow.parquet as pq

    from parquet_bloom.verbs.demo import ROW_GROUPS, ROWS, _write_sample

    folder.mkdir()
    path = folder / "day.parquet"
    _write_sample(path)
    table = pq.read_table(path).rename_columns(["user_id", "amount"])
    pq.write_table(table, path, row_group_size=ROWS // ROW_GROUPS, compression="zstd")


def run(command: str, folder: str) -> str:
    """Return what a command prints."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH)}
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode in (0, 141), ran.stderr  # `head` closes its pipe early
    return ran.stdout


if __name__ == "__main__":
    main()
