"""Runs targets on mutated inputs for some time each: `drive.py [--seconds N] [--atheris] [--seed N] [TARGET ...]`.

`drive.py --repeat FILE` runs one input. Each target has a process of its own, which an input may take down: it is
written beside the command that repeats it. An input has a limit of time, and the process one of memory.
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import gc
import hashlib
import importlib.util
import logging
import os
import pkgutil
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "support"), str(HERE)]

CORPUS = HERE / "corpus"
INPUT_SECONDS, HANG_SECONDS = 5, 30
SHORT = 2048
"""An input of at most this many bytes is printed, too: the machine that found it may be gone."""
ROOM = 1024**3
"""How much more memory an input may take than there was in use before."""


def limit_memory(room: int = ROOM) -> None:
    """Makes what takes far too much memory a MemoryError."""
    used = int(re.findall(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))


def too_long(*_: Any) -> NoReturn:
    raise TimeoutError(f"one input takes more than {INPUT_SECONDS} seconds of the processor")


def guarded(run: Any, data: bytes) -> None:
    """Runs an input under the limit of time: the processor's, since other work goes on beside it."""
    signal.setitimer(signal.ITIMER_PROF, INPUT_SECONDS)
    try:
        run(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def inputs_of(name: str) -> list[bytes]:
    from all_targets import TARGETS

    return [*TARGETS[name].seeds(), *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]


def fuzz(name: str, seconds: float, seed: int, crashes: Path) -> int:
    """Runs a target in this process; returns how many different failures there were."""
    from all_targets import TARGETS
    from mutating import mutated

    target, dice = TARGETS[name], random.Random(f"{name} {seed}")
    current = os.open(crashes / f"{name}.current", os.O_RDWR | os.O_CREAT)
    signal.signal(signal.SIGPROF, too_long)
    logging.disable()
    inputs, failures, count = inputs_of(name), {}, 0
    limit_memory(8 * ROOM)
    target.run(inputs[0])  # what is imported and made once is not an input's
    limit_memory()
    start = time.monotonic()
    end = start + seconds
    pending, armed = dice.sample(inputs, len(inputs)), 0.0
    while (now := time.monotonic()) < end:
        if now > armed + 1:  # it starts a thread
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)  # of what hangs in C
            armed = now
        data = pending.pop() if pending else mutated(dice.choice(inputs), inputs, target.tokens, dice)
        os.pwrite(current, len(data).to_bytes(8, "little") + data, 0)
        count += 1
        try:
            guarded(target.run, data)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            where = signature(error)
            if where not in failures:
                failures[where] = data
                report(name, data, crashes, error)
            if len(failures) > 20:
                break
    faulthandler.cancel_dump_traceback_later()
    (crashes / f"{name}.current").unlink()
    print(f"{name}: {count:,} inputs in {time.monotonic() - start:.0f} s, {len(failures)} failures", flush=True)
    return len(failures)


def signature(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/fuzz/drive.py" not in f.filename]
    return f"{type(error).__name__} {[(f.name, f.lineno) for f in frames[-3:]]}"


def report(name: str, data: bytes, crashes: Path, error: BaseException | str) -> None:
    path = crashes / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    if isinstance(error, BaseException):
        print("".join(traceback.format_exception(error)[-12:]), end="")
    else:
        print(error)
    if len(data) <= SHORT:
        print(f"{path.name} is {base64.b64encode(data).decode()} in base64")
    print(f"repeat it with: {sys.executable} {os.path.relpath(__file__)} --repeat {path}\n", flush=True)


def take_kernel(path: str) -> None:
    """Puts a kernel that counts its branches in the place of the installed one."""
    name = "parquet_bloom._kernel"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def instrumented(atheris: Any) -> int:
    """Makes all functions of the package count which of their branches were taken; returns how many there are.

    atheris would do so when modules are imported, but not with the loader of an editable install.
    """
    import parquet_bloom

    for module in pkgutil.walk_packages(parquet_bloom.__path__, "parquet_bloom."):
        if not module.name.startswith(("parquet_bloom.spark", "parquet_bloom.cli", "parquet_bloom.__main__")):
            importlib.import_module(module.name)
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and (each.__module__ or "").startswith("parquet_bloom")
    ]
    for function in functions:
        atheris.instrument_func(function)
    return len(functions)


def fuzz_with_atheris(name: str, seconds: float, seed: int, crashes: Path, *, is_empty: bool) -> None:
    """Runs a target in this process under atheris, which sees the code that an input reaches; does not return."""
    if kernel := os.environ.get("FUZZED_KERNEL"):
        take_kernel(kernel)
    import atheris
    from all_targets import TARGETS

    found = crashes / f"{name}.corpus"
    found.mkdir(exist_ok=True)
    for number, data in enumerate(() if is_empty else inputs_of(name)):
        (found / f"seed-{number}").write_bytes(data)
    TARGETS[name].run(next(iter(TARGETS[name].seeds()), b""))
    print(f"{name}: {instrumented(atheris):,} functions count their branches", flush=True)
    options = [f"-max_total_time={seconds:.0f}", f"-seed={seed}", f"-artifact_prefix={crashes}/{name}-"]
    options += [
        f"-timeout={HANG_SECONDS}",
        "-rss_limit_mb=4096",
        "-max_len=16384",
        "-print_final_stats=1",
        "-close_fd_mask=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(found)], TARGETS[name].run)
    atheris.Fuzz()


def repeat(path: Path) -> None:
    from all_targets import TARGETS

    signal.signal(signal.SIGPROF, too_long)
    path = path.resolve()
    name = path.parent.name if path.parent.parent == CORPUS else path.name.rpartition("-")[0].partition("-")[0]
    data = path.read_bytes()
    limit_memory(8 * ROOM)
    print(f"{name}: {data[:200]!r}")
    guarded(TARGETS[name].run, data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at the same time")
    parser.add_argument("--empty", action="store_true", help="let atheris start from no input")
    parser.add_argument("--crashes", type=Path)
    parser.add_argument("--repeat", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.repeat:
        repeat(given.repeat)
        return 0
    crashes = given.crashes or Path(tempfile.mkdtemp(prefix="fuzz-"))
    crashes.mkdir(exist_ok=True)
    if given.here:
        if given.atheris:
            fuzz_with_atheris(given.targets[0], given.seconds, given.seed, crashes, is_empty=given.empty)
        return int(fuzz(given.targets[0], given.seconds, given.seed, crashes) > 0)
    from all_targets import TARGETS

    def succeeds(name: str) -> bool:
        command = [sys.executable, __file__, "--here", "--seconds", str(given.seconds), "--seed", str(given.seed)]
        command += ["--crashes", str(crashes), *(["--atheris"] if given.atheris else [])]
        command += [*(["--empty"] if given.empty else []), name]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8", "errors": "replace"}
        ran = subprocess.run(command, check=False, **options)
        print(ran.stdout, end="", flush=True)
        if (current := crashes / f"{name}.current").exists():
            held, what = current.read_bytes(), f"{name}: the process ended with {ran.returncode}"
            report(name, held[8:][: int.from_bytes(held[:8], "little")], crashes, what)
        return ran.returncode == 0

    names = given.targets or list(TARGETS)
    with ThreadPoolExecutor(given.jobs) as pool:
        failed = [name for name, done in zip(names, pool.map(succeeds, names), strict=True) if not done]
    print(f"failed: {', '.join(failed)}; inputs in {crashes}" if failed else "nothing found")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
