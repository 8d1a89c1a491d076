"""Runs the notebook docs/pages/story.ipynb, and writes it with what it printed, and the page that shows the same.

Run it by hand when what it shows changes; it takes a quarter of an hour, and 6 GB: python docs/write_story.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "pages" / "story.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")


def run(text: str) -> str:
    """Return a notebook with the outputs of its cells; the first that fails raises."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(notebook, timeout=None, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:  # Java's warnings are no result
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}  # and not the version of the one who ran it
    return nbformat.writes(notebook, indent=1) + "\n"


def page(notebook: dict[str, Any]) -> str:
    """Return the notebook as Markdown."""
    return "\n\n".join(block for cell in notebook["cells"] for block in _blocks(cell)) + "\n"


def _blocks(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    said = "".join("".join(_text(output)) for output in cell["outputs"]).rstrip("\n")
    return [f"```python\n{source}\n```", *([f"```text\n{said}\n```"] if said else [])]


def _text(output: dict[str, Any]) -> str | list[str]:
    if output["output_type"] == "stream":
        return output["text"]  # type: ignore[no-any-return]
    return output.get("data", {}).get("text/plain", "")  # type: ignore[no-any-return]


if __name__ == "__main__":
    NOTEBOOK.write_text(run(NOTEBOOK.read_text("utf-8")), "utf-8")
    PAGE.write_text(page(json.loads(NOTEBOOK.read_text("utf-8"))), "utf-8")
