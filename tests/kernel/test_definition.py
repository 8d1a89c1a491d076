"""The kernel's filters are those of the format's definition: a sample of `.ci/prove kernel`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "parquet_bloom" / "kernel"
COMPILER = shutil.which(os.environ.get("CC", "cc"))
SAMPLE = 65536  # the first and the last batch of so many

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

BLOCK = "(size_t)((hash >> 32) * num_blocks >> 32)"
BITS = "bits_of(hash)"
LOADED = "_mm256_loadu_si256(block)"
LOOP = "for (int w = 0; w < WORDS_PER_BLOCK; w++) {\n            "
MISTAKES = {
    "a salt": ("0x8824ad5bU", "0x8824ad59U"),
    "two salts for each other": ("0x9efc4947U, 0x5c6bfb31U", "0x5c6bfb31U, 0x9efc4947U"),
    "a bit of plain C": ("SALT[word] >> 27", "SALT[word] >> 28"),
    "another bit of plain C": ("SALT[word] >> 27", "SALT[word] >> 26"),
    "a bit of AVX2": ("_mm256_srli_epi32(product, 27)", "_mm256_srli_epi32(product, 28)"),
    "a block twice as far": (BLOCK, "(size_t)((hash >> 32) * num_blocks >> 31)"),
    "a block half as far": (BLOCK, "(size_t)((hash >> 32) * num_blocks >> 33)"),
    "the last block never": (BLOCK, "(size_t)((hash >> 32) * (num_blocks - 1) >> 32)"),
    "a block of the lower half": (BLOCK, "(size_t)((hash & 0xffffffff) * num_blocks >> 32)"),
    "a product of 56 bits": (BLOCK, "(size_t)(((hash >> 32) * num_blocks & 0xffffffffffffff) >> 32)"),
    "a word that insert skips": (LOOP + "store", LOOP.replace("w = 0", "w = 1") + "store"),
    "a word that check skips": (LOOP + "missing", LOOP.replace("w = 0", "w = 1") + "missing"),
    "check of any bit": ("found[i] = missing == 0", "found[i] = missing != 0xffffffffU"),
    "check that always finds": (f"(uint8_t)_mm256_testc_si256({LOADED}, {BITS})", "1"),
    "find the other way round": (
        f"if (_mm256_testc_si256({LOADED}, {BITS}",
        f"if (_mm256_testc_si256({BITS}, {LOADED}",
    ),
    "find that always finds": ("if (missing == 0)", "if (missing != 1)"),
    "insert that sets all": (f"_mm256_or_si256({LOADED}, {BITS})", "_mm256_set1_epi32(-1)"),
    "insert that forgets": (f"_mm256_or_si256({LOADED}, {BITS})", BITS),
}


def compared(kernel: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Returns the outcome of the sample, with the sources in `kernel`."""
    assert COMPILER
    program = folder / "prove_kernel"
    source = ROOT / "tests" / "support" / "prove_kernel.c"
    options = ["-std=c11", "-O2", "-DPARQUET_BLOOM_SIMD", f"-I{kernel}"]
    subprocess.run([COMPILER, *options, str(source), "-o", str(program)], check=True)
    return subprocess.run([program, "0", "1", str(SAMPLE)], check=False, capture_output=True, text=True)


def test_a_sample_of_all_hashes_and_sizes(tmp_path: Path) -> None:
    outcome = compared(KERNEL, tmp_path)
    cases, differences, _ = outcome.stdout.split(maxsplit=2)
    assert (outcome.returncode, int(differences)) == (0, 0), outcome.stderr
    assert int(cases) > 10_000_000


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_sample_notices(mistake: str, tmp_path: Path) -> None:
    right, wrong = MISTAKES[mistake]
    source = (KERNEL / "sbbf.c").read_text("utf-8")
    assert right in source
    (tmp_path / "sbbf.c").write_text(source.replace(right, wrong), "utf-8")
    shutil.copy(KERNEL / "kernel.h", tmp_path)
    outcome = compared(tmp_path, tmp_path)
    assert outcome.returncode not in (0, 2), outcome.stdout
