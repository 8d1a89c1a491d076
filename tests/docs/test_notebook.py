"""The notebook of the documentation runs from top to bottom, on fewer files; its cells assert what they tell."""

import os
import subprocess
import sys

import pytest
from documents import PAGES, ROOT
from engines import needs_java

RUN = "import sys, write_story; print(write_story.run(open(sys.argv[1], encoding='utf-8').read()))"


@pytest.mark.spark
@needs_java
def test_the_story_runs():
    environment = {**os.environ, "PARQUET_BLOOM_STORY_FILES": "400", "PYTHONPATH": str(ROOT / "docs")}
    command = [sys.executable, "-c", RUN, PAGES / "story.ipynb"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "3 of 400 files, 3 of 1,200 row groups" in ran.stdout
