"""Exits with 1 unless the wheel holds what it should and nothing else: `check_wheel.py WHEEL`."""

import sys
import zipfile

WANTED = (
    "parquet_bloom/_kernel.abi3.so",
    "parquet_bloom/_kernel.pyi",
    "parquet_bloom/py.typed",
    "parquet_bloom/cli/commands.py",
    "parquet_bloom/drawing/page.css",
    "parquet_bloom/drawing/page.html",
    "parquet_bloom/drawing/page.js",
    "parquet_bloom/format/_parquet_thrift/ttypes.py",
)


def main(wheel: str) -> str | None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [name for name in WANTED if name not in names]
    foreign = [n for n in names if not n.startswith("parquet_bloom") or n.endswith((".c", ".h", ".txt", ".pyc"))]
    foreign = [n for n in foreign if not (".dist-info/" in n and n.endswith(".txt"))]
    if missing or foreign or "-cp311-abi3-" not in wheel:
        return f"{wheel}: missing {missing}, foreign {foreign}"
    print(f"{wheel.rpartition('/')[2]}: {len(names)} files")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
