"""The certificate of `verify`: a program that has nothing of ours confirms it, and notices what is not as certified.

A forged certificate is one whose digests were computed again, from the damaged file: what still speaks against it is in
the file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import check_certificate
import pytest
from click.testing import CliRunner
from encrypted import encrypted
from files import FIXTURES, footer_bytes, opened, snapshot, with_footer, write

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.format.footer import FilterLocation
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.verbs import certificate as module

pytestmark = pytest.mark.usefixtures("mtime_stable")

WRITERS = (
    *("pyarrow/small.parquet", "spark/snappy.parquet", "polars/snappy.parquet"),
    *("duckdb/snappy.parquet", "datafusion/fallback.parquet", "clickhouse/snappy.parquet"),
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Files of several engines, one without filters, and one to which we added filters twice."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for name in WRITERS:
        shutil.copy(FIXTURES / name, folder / name.replace("/", "_"))
    write(folder / "none.parquet", 40)
    write(folder / "added.parquet", 400)
    for column in ("id", "name"):
        parquet_bloom.add(folder / "added.parquet", column)
    return folder


@pytest.fixture
def added(tmp_path: Path) -> Path:
    """A file to which we added filters."""
    write(tmp_path / "added.parquet", 400)
    parquet_bloom.add(tmp_path / "added.parquet", ["id", "name"], fpp=1e-6)
    return tmp_path / "added.parquet"


def certified(path: Path) -> dict[str, Any]:
    """Returns what a certificate says of a file or folder, which is written beside it."""
    parquet_bloom.verify(path, certificate=path.with_name("certificate.json"))
    return json.loads(path.with_name("certificate.json").read_bytes())


def complaints(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> list[str]:
    """Returns what the program has against a certificate."""
    capsys.readouterr()
    code = check_certificate.main(str(path.with_name("certificate.json")), "/", *options)
    *said, total = capsys.readouterr().out.splitlines()
    wrong = [line.removeprefix(f"{path}: ") for line in said if not line.endswith(" looked up")]
    assert (code, "not as certified" in total) == (bool(wrong), bool(wrong))
    return wrong


def signed(said: dict[str, Any], target: Path) -> None:
    """Writes a certificate with the digest that fits."""
    said.pop("digest", None)
    text = json.dumps(said).removesuffix("}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    target.write_text(f'{text},\n "digest": "sha256:{digest}"}}')


def ranges(one: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yields all that has a digest of a file, with its place."""
    yield one, 0, one["size"]
    yield one["footer"], one["footer"]["offset"], one["footer"]["length"]
    if one["original"]:
        yield one["original"], 0, one["original"]["size"]
    for chunk in one["chunks"]:
        for each in filter(None, (chunk, chunk["filter"])):
            yield each, each["offset"], each["length"]


def forge(path: Path, said: dict[str, Any]) -> None:
    data = path.read_bytes()
    (one,) = said["files"]
    one["size"], footer = len(data), len(footer_bytes(data))
    one["footer"] |= {"offset": len(data) - 8 - footer, "length": footer}
    for each, start, length in ranges(one):
        each["sha256"] = hashlib.sha256(data[start : start + length]).hexdigest()
    signed(said, path.with_name("certificate.json"))


# ---- what it says ------------------------------------------------------------------------


def test_the_files_of_several_engines_are_as_certified(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = certified(lake)
    assert complaints(capsys, lake, "--values") == []
    assert len(said["files"]) == len(WRITERS) + 2


def test_it_says_what_verify_says(lake: Path) -> None:
    said, verified = certified(lake), parquet_bloom.verify(lake)
    filters = [
        (file["path"], chunk["row_group"], chunk["column"], *(chunk["filter"][name] for name in module._VERDICT))
        for file in said["files"]
        for chunk in file["chunks"]
        if chunk["filter"]
    ]
    assert sorted(filters) == sorted(
        (row.path, row.row_group, row.column, *(getattr(row, name) for name in module._VERDICT)) for row in verified
    )
    totals = len(verified.files), len(verified), sum(row.num_values for row in verified)
    assert (said["num_files"], said["num_filters"], said["num_values"]) == totals
    assert (said["num_findings"], said["num_errors"]) == (len(verified.findings), 0)
    assert said["schema_version"] == 1


def test_its_digests_are_those_of_sha256sum(lake: Path) -> None:
    for one in certified(lake)["files"]:
        data = Path(one["path"]).read_bytes()
        assert len(data) == one["size"]
        for each, start, length in ranges(one):
            assert each["sha256"] == hashlib.sha256(data[start : start + length]).hexdigest()


def test_it_has_the_digest_of_the_file_before_filters_were_added(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    before = write(path, 400)
    assert certified(path)["files"][0]["original"] is None
    for column in ("id", "name"):
        parquet_bloom.add(path, column)
    path.with_name("certificate.json").unlink()
    original = certified(path)["files"][0]["original"]
    assert original == {"size": len(before), "sha256": hashlib.sha256(before).hexdigest()}


def test_it_says_what_was_found_but_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.parquet"
    shutil.copy(FIXTURES / "damaged" / "wrong_row_groups.parquet", path)
    said = certified(path)
    assert (said["is_sound"], said["num_errors"]) == (False, 0)
    assert said["num_findings"] > 0
    assert "example" not in json.dumps(said["files"])
    assert all("false negative" in line for line in complaints(capsys, path))
    assert complaints(capsys, path)


def test_a_file_that_cannot_be_read_is_not_certified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.parquet"
    shutil.copy(FIXTURES / "damaged" / "cut_in_footer.parquet", path)
    (one,) = certified(path)["files"]
    assert one.keys() == {"path", "size", "error"}
    (complaint,) = complaints(capsys, path)
    assert complaint.startswith("not certified: ")


@pytest.mark.parametrize("plain_footer", [False, True])
def test_of_an_encrypted_file_the_stored_bytes_are_certified(
    plain_footer: bool, added: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, target = b"0123456789abcdef", added.with_name("certificate.json")
    sealed = encrypted(added.read_bytes(), key, plain_footer=plain_footer, seals_pages=True)
    added.write_bytes(sealed)
    verified = parquet_bloom.verify(added, decryption=parquet_bloom.Decryption(footer_key=key), certificate=target)
    assert (verified.is_sound, len(verified)) == (True, 8)
    assert complaints(capsys, added) == []
    (one,) = json.loads(target.read_bytes())["files"]
    for _, start, _ in ranges(one):
        added.write_bytes(sealed[: start + 9] + bytes([sealed[start + 9] ^ 1]) + sealed[start + 10 :])
        assert complaints(capsys, added)
    target.unlink()
    added.write_bytes(sealed)
    assert parquet_bloom.verify(added, certificate=target).errors


# ---- files that were changed -------------------------------------------------------------


def flipped(place: Callable[[dict[str, Any]], int], bits: int = 1) -> Callable[[bytes, dict[str, Any]], bytes]:
    def flip(data: bytes, one: dict[str, Any]) -> bytes:
        at = place(one) % len(data)
        return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]

    return flip


def filter_of(one: dict[str, Any], chunk: int = 0) -> dict[str, Any]:
    return one["chunks"][chunk]["filter"]


def swapped(data: bytes, one: dict[str, Any]) -> bytes:
    """Returns a file in which two filters of a column have each other's places."""
    first, second = (filter_of(one, chunk) for chunk in (0, 2))
    assert (first["length"], one["chunks"][0]["column"]) == (second["length"], one["chunks"][2]["column"])
    pieces = [data[each["offset"] : each["offset"] + each["length"]] for each in (second, first)]
    for each, piece in zip((first, second), pieces, strict=True):
        data = data[: each["offset"]] + piece + data[each["offset"] + each["length"] :]
    return data


def moved(data: bytes, one: dict[str, Any]) -> bytes:
    """Returns a file whose footer says that a filter is where that of another row group is."""
    other = filter_of(one, 2)
    location = FilterLocation(other["offset"], other["length"])
    return with_footer(data, splice_filters(footer_bytes(data), {(0, 0): location}))


def cleared(data: bytes, one: dict[str, Any]) -> bytes:
    """Returns a file in which the second half of a filter has no bits."""
    stop = filter_of(one)["offset"] + filter_of(one)["length"]
    half = filter_of(one)["length"] // 2
    return data[: stop - half] + bytes(half) + data[stop:]


CHANGES: dict[str, tuple[Callable[[bytes, dict[str, Any]], bytes], str]] = {
    "a byte of the pages": (flipped(lambda one: one["chunks"][1]["offset"] + 9), "row group 0, name: its pages: other"),
    "a byte of a bitset": (flipped(lambda one: filter_of(one)["offset"] + 60), "id: the filter has other bytes"),
    "a byte of a header": (flipped(lambda one: filter_of(one)["offset"] + 1), "id: the filter has other bytes"),
    "a byte of the footer": (flipped(lambda one: one["footer"]["offset"] + 1), "the footer: other bytes"),
    "a byte of the original footer": (flipped(lambda one: one["original"]["size"] - 20), "the original: other bytes"),
    "the first byte": (flipped(lambda one: 0), "the file: other bytes"),
    "the last byte": (flipped(lambda one: -1), "the file: other bytes"),
    "the footer's length": (flipped(lambda one: -8), ""),
    "the end cut off": (lambda data, one: data[:-1], ""),
    "the new footer and filters cut off": (lambda data, one: data[: one["original"]["size"]], "another size"),
    "a byte more": (lambda data, one: data + b"\0", "another size"),
    "filters swapped": (swapped, "id: the filter has other bytes"),
    "an offset moved": (moved, "id: the footer says that the filter is elsewhere"),
    "nothing left": (lambda data, one: b"", "cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_changed_is_noticed(change: str, added: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = certified(added)["files"]
    assert complaints(capsys, added, "--values") == []
    altered, complaint = CHANGES[change]
    added.write_bytes(altered(added.read_bytes(), one))
    assert any(complaint in line for line in complaints(capsys, added))


FORGED: dict[str, tuple[Callable[[bytes, dict[str, Any]], bytes], str]] = {
    "filters swapped": (swapped, "row group 0, id: the filter lacks 100 values"),
    "an offset moved": (moved, "row group 0, id: the footer says that the filter is elsewhere"),
    "bits cleared": (cleared, "row group 0, id: the filter lacks "),
    "another size in a header": (
        flipped(lambda one: filter_of(one)["offset"] + 1, 2),
        "row group 0, id: the filter's header says another size",
    ),
}


@pytest.mark.parametrize("change", FORGED)
def test_a_forged_certificate_does_not_help_a_wrong_filter(
    change: str, added: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = certified(added)
    altered, complaint = FORGED[change]
    data = added.read_bytes()
    added.write_bytes(altered(data, said["files"][0]))
    assert added.read_bytes() != data
    forge(added, said)
    wrong = complaints(capsys, added, "--values")
    assert any(line.startswith(complaint) for line in wrong), wrong


def test_a_file_that_was_removed_is_noticed(added: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certified(added)
    added.unlink()
    assert "FileNotFoundError" in complaints(capsys, added)[0]


# ---- certificates that were changed ------------------------------------------------------


def numbers(said: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the way to each number, digest and verdict in a certificate."""
    for key, each in said.items() if isinstance(said, dict) else enumerate(said):
        if isinstance(each, dict | list):
            yield from numbers(each, *at, key)
        elif isinstance(each, int) or key in ("sha256", "verdict"):
            yield *at, key


def changed(said: dict[str, Any], way: tuple[Any, ...]) -> dict[str, Any]:
    said = json.loads(json.dumps(said))
    inner = said
    for key in way[:-1]:
        inner = inner[key]
    old = inner[way[-1]]
    inner[way[-1]] = old + 1 if isinstance(old, int) else old[::-1]
    return said


def test_every_number_that_was_changed_is_noticed(added: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, target = json.dumps(certified(added)), added.with_name("certificate.json")
    written = target.read_text("utf-8")
    ways = [*numbers(json.loads(text))]
    assert len(ways) > 60
    for way in ways:
        target.write_text(json.dumps(changed(json.loads(text), way)))
        assert any("it was changed after it was written" in line for line in complaints(capsys, added)), way
    target.write_text(written.replace('"num_files": 1', '"num_files": 2'))
    assert complaints(capsys, added) == [f"{target}: it was changed after it was written"]


def test_what_the_file_shows_is_noticed_without_the_digest(added: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = certified(added)
    of_file = {"size", "offset", "length", "sha256", "row_group", "verdict"}
    ways = [way for way in numbers(said) if way[-1] in of_file]
    assert len(ways) > 50
    for way in ways:
        signed(changed(said, way), added.with_name("certificate.json"))
        assert complaints(capsys, added), way
    (one,) = said["files"]
    one["chunks"][0]["filter"] = None
    signed(said, added.with_name("certificate.json"))
    assert complaints(capsys, added) == ["row group 0, id: its filter is not certified"]


# ---- how it is written -------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_verified_is_not_certified(
    added: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = module.digests

    def after_a_change(*arguments: Any) -> Any:
        added.write_bytes(added.read_bytes())
        return original(*arguments)

    monkeypatch.setattr(module, "digests", after_a_change)
    target = added.with_name("certificate.json")
    verified = parquet_bloom.verify(added, certificate=target)
    assert [file.error for file in verified.errors] == [f"{added} changed while it was read"]
    assert verified.rows == ()
    said = json.loads(target.read_bytes())
    assert (said["is_sound"], said["num_errors"], said["files"][0].keys()) == (False, 1, {"path", "size", "error"})
    assert complaints(capsys, added) == [f"not certified: {added} changed while it was read"]


def test_new_files_are_certified_once_their_times_would_show_a_change(
    added: Path, monkeypatch: pytest.MonkeyPatch, sleeps: Any
) -> None:
    from parquet_bloom.storage import listing

    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", 10_000)
    pauses: list[float] = []
    sleeps(listing, pauses.append)
    (one,) = certified(added)["files"]
    assert pauses == [10_000]
    assert "it cannot be certified: it changes too often" in one["error"]


def test_a_file_that_is_there_is_not_replaced(added: Path) -> None:
    before = snapshot(added.parent)
    for target, error in {added: FileExistsError, added.parent / "no" / "c.json": FileNotFoundError}.items():
        with pytest.raises(error, match=str(target if target == added else target.parent)):
            parquet_bloom.verify(added, certificate=target)
    with pytest.raises(ValueError, match="certificate= is about every column, so leave out columns="):
        parquet_bloom.verify(added, "id", certificate=added.with_name("c.json"))
    assert snapshot(added.parent) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_run_leaves_nothing(
    added: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*_: Any) -> None:
        raise error

    before = snapshot(added.parent)
    monkeypatch.setattr(module, "digests", stop)
    with pytest.raises(error):
        parquet_bloom.verify(added, certificate=added.with_name("c.json"))
    assert snapshot(added.parent) == before


def test_only_those_may_read_it_who_may_read_the_files(added: Path) -> None:
    added.chmod(0o600)
    certified(added)
    assert added.with_name("certificate.json").stat().st_mode & 0o777 == 0o600


def test_files_in_a_store_are_certified_too(added: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe("/certified/a.parquet", added.read_bytes())
    try:
        target = added.with_name("certificate.json")
        assert parquet_bloom.verify("memory://certified/a.parquet", certificate=target).is_sound
        said = json.loads(target.read_bytes())
        (one,) = said["files"]
        assert one["path"] == "memory://certified/a.parquet"
        one["path"] = str(added)
        signed(said, target)
        assert complaints(capsys, added, "--values") == []
    finally:
        store.rm("/certified", recursive=True)


def test_the_command_says_where_it_is(added: Path) -> None:
    target = added.with_name("c.json")
    ran = CliRunner().invoke(main, ["verify", str(added), "--certificate", str(target)])
    assert (ran.exit_code, ran.stdout.splitlines()[-1]) == (0, f"certificate: {target}")
    assert json.loads(target.read_bytes())["is_sound"]
    again = CliRunner().invoke(main, ["verify", str(added), "--certificate", str(target)])
    assert (again.exit_code, again.stderr) == (2, f"error: {target}: File exists\n")
    target.unlink()
    plain = CliRunner().invoke(main, ["verify", str(added), "--json", "--certificate", str(target)])
    assert [json.loads(line)["path"] for line in plain.stdout.splitlines()] == [str(added)]
    for words, why in {
        ("--certificate", "-"): "give a file name",
        ("--certificate", "x.json", "--engine", "spark"): "--certificate is written here and not on Spark",
        ("--certificate", "x.json", "-c", "id"): "--certificate is about every column, so leave out --column",
    }.items():
        ran = CliRunner().invoke(main, ["verify", str(added), *words])
        assert (ran.exit_code, why in ran.stderr) == (2, True), ran.stderr


def test_the_program_that_checks_it_is_short_and_has_nothing_of_ours() -> None:
    lines = Path(check_certificate.__file__).read_text("utf-8").splitlines()
    assert len(lines) <= 150
    assert not any("parquet_bloom" in line for line in lines if "import" in line)


def test_footers_that_are_opened_by_the_program_are_read_as_we_read_them() -> None:
    for name in WRITERS:
        path = FIXTURES / name
        _, footer = opened(path)
        read = [one["pages"]["column"] for one in check_certificate.chunks(memoryview(path.read_bytes()))]
        assert read == [leaf.name for _, leaf, _ in footer.chunks()]
