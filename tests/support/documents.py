"""The README and the pages of the documentation, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "pages"
DOCUMENTS = [README, *sorted(PAGES.glob("*.md"))]


def text(path: Path) -> str:
    return path.read_text("utf-8")


def blocks(document: str, *languages: str) -> list[tuple[str, str]]:
    """Returns the language and the lines of each fenced block in one of these languages, top to bottom."""
    return re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)


def without_blocks(document: str) -> str:
    return re.sub(r"^```.*?^```$", "", document, flags=re.MULTILINE | re.DOTALL)
