"""Writes what each command's --help prints into the pages, in the block below `<!-- help: COMMAND -->`.

Run it again when an option changes: python docs/write_help.py
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from parquet_bloom.cli.commands import main as program

PAGES = Path(__file__).parent / "pages"
WIDTH = 78  # that fits the column of text on a screen of 1,280 pixels
BLOCK = re.compile(r"(<!-- help: ([a-z -]*) -->\n\n```text\n).*?(^```$)", re.MULTILINE | re.DOTALL)


def help_text(words: str) -> str:
    """Return the help of a command such as `index create`; of the program itself for no words."""
    names = program.context_settings["help_option_names"]
    context = click.Context(program, info_name="parquet-bloom", terminal_width=WIDTH, help_option_names=names)
    command: click.Command = program
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.commands[word]
        context = click.Context(command, info_name=word, parent=context, terminal_width=WIDTH)
    return command.get_help(context)


def with_help(page: str) -> str:
    """Return a page's text with every block of help as it is now."""
    return BLOCK.sub(lambda block: f"{block[1]}{help_text(block[2].strip())}\n{block[3]}", page)


if __name__ == "__main__":
    for path in PAGES.glob("*.md"):
        path.write_text(with_help(path.read_text("utf-8")), "utf-8")
