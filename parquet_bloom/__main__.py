"""The command line for `python -m parquet_bloom`, and for `spark-submit`, which runs files whose names end in .py."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path and Path(sys.path[0]) == Path(__file__).parent:  # run as a file: our modules have no names of their own
        del sys.path[0]
    from parquet_bloom.cli import main

    main(prog_name="parquet-bloom")
