"""Exits with 1 unless the wheel's kernel needs nothing but Python and musl: `check_musl.py WHEEL COMPILER`."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

OPTIONAL = {"__cxa_finalize", "__gmon_start__", "_ITM_registerTMCloneTable", "_ITM_deregisterTMCloneTable"}


def read(path: Path) -> tuple[set[str], set[str]]:
    """Return the libraries that a shared object needs, and the symbols that it takes from others."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        libraries = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        return libraries, {s.name for s in symbols if s.name and s["st_shndx"] == "SHN_UNDEF"}


def main(wheel: str, compiler: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(zipfile.ZipFile(wheel).extract("parquet_bloom/_kernel.abi3.so", folder))
        libraries, symbols = read(kernel)
        wanted = sorted(name for name in symbols - OPTIONAL if not name.startswith(("Py", "_Py")))
        # A program that links all of them without libraries other than musl's shows that musl has them.
        source = Path(folder, "all.c")
        declared = "".join(f"extern char {name}[];\n" for name in wanted)
        source.write_text(
            f"{declared}char *const all[] = {{{', '.join(wanted)}}};\nint main(void) {{ return !all[0]; }}\n"
        )
        command = [compiler, "-fno-builtin", "-w", str(source), "-o", str(Path(folder, "all"))]
        subprocess.run(command, check=True)
    if libraries != {"libc.so"}:
        return f"{wheel}: needs {sorted(libraries)}"
    print(f"{Path(wheel).name}: needs musl for {', '.join(wanted)}")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
