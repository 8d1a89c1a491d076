"""The command line for `python -m parquet_bloom`, and for `spark-submit`, which runs files whose names end in .py."""

import gc
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; where it cannot even be loaded, exit with 2: 1 would be a verdict."""
    gc.set_threshold(50_000)  # what a command imports and reads lives until it ends
    try:
        from parquet_bloom.cli import commands
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except Exception as error:
        sys.stderr.write(f"error: parquet-bloom is not installed whole: {type(error).__name__}: {error}\n")
        sys.exit(2)
    commands.main(prog_name="parquet-bloom")


if __name__ == "__main__":
    if sys.path and Path(sys.path[0]) == Path(__file__).parent:  # run as a file: our modules have no names of their own
        del sys.path[0]
    main()
