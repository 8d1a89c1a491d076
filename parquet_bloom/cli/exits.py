"""How a command ends: exit code 1 is a verdict, so nothing else may exit with it."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from parquet_bloom.cli.output import say, say_lines, sentence, spell_as, without_options
from parquet_bloom.cli.terminal import echo
from parquet_bloom.errors import without_secrets

MATCH, NO_MATCH, ERROR, INTERRUPTED = 0, 1, 2, 130
"""Exit codes, as grep's: might match or clean; cannot match or findings; error."""


class Commands(click.Group):
    """The commands, with our exit codes for all that ends them."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and exit; without `standalone_mode` its errors are raised, as by all of click's commands."""
        if not options.pop("standalone_mode", True):
            return self._run(*args, **options)
        try:
            code = MATCH if self._run(*args, **options) in (None, MATCH) else ERROR
            _flush()
        except BaseException as error:
            code = _exit_code(error)
        sys.exit(code)

    def _run(self, *args: Any, **options: Any) -> Any:
        spell_as(self)
        try:
            return super().main(*args, **{**options, "standalone_mode": False})
        except _KeptError as kept:
            raise kept.error from None

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Read the arguments."""
        with _kept_from_click():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that they name."""
        with _kept_from_click():
            return super().invoke(ctx)


class _KeptError(Exception):
    """An error for which click would end the program on its own: with 1 for a pipe that nobody reads."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


@contextlib.contextmanager
def _kept_from_click() -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, KeyboardInterrupt) as error:
        raise _KeptError(error) from error


class _Verdict(SystemExit):
    """The end of a command of ours; any other `SystemExit` comes from a library that gave up."""


def end_with(code: int) -> NoReturn:
    """End a command with this exit code."""
    raise _Verdict(code)


def verdict_code(might_match: bool, absent: bool) -> int:
    """Return the exit code of a verdict."""
    return MATCH if might_match != absent else NO_MATCH


def _flush() -> None:
    """Write out what is buffered, or raise while the error can still be shown."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _exit_code(error: BaseException) -> int:
    """Print why a command ended, and return the exit code."""
    if isinstance(error, _Verdict):
        try:
            _flush()
        except OSError as failed:
            return _exit_code(failed)
        return int(error.code or MATCH)
    if isinstance(error, SystemExit) and error.code in (None, MATCH):
        return MATCH
    if isinstance(error, BrokenPipeError) and _is_reader_gone():
        _leave_quietly()
    with contextlib.suppress(BaseException):  # the code says it even if nothing can be printed
        _tell(error)
    with contextlib.suppress(Exception):
        _drop_unwritten()
    return INTERRUPTED if isinstance(error, KeyboardInterrupt | click.Abort) else ERROR


def _drop_unwritten() -> None:
    """Give up what standard output does not take: Python would try again at its end, and exit with its own code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(error: BaseException) -> None:
    if os.environ.get("PARQUET_BLOOM_DEBUG") == "1":
        for lines in traceback.format_exception(error):
            echo(without_options(without_secrets(lines)), err=True, nl=False)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        say("interrupted: no file was left half written", err=True)
    elif isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        say_lines(shown.getvalue().rstrip("\n"), err=True)
    else:
        say(f"error: {without_secrets(sentence(error))}", err=True)


def _is_reader_gone() -> bool:
    """Return whether the broken pipe is our output, and not a store's connection."""
    if not hasattr(select, "poll"):  # Windows
        return False
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or no file of the operating system
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _leave_quietly() -> NoReturn:
    """End as grep does when its reader goes away: killed by SIGPIPE, and silently."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(ERROR)  # not reached
