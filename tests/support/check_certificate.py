"""Confirms a certificate of `parquet-bloom verify` from the files alone: CERTIFICATE [FOLDER] [--values].

Plain Python, and nothing of parquet_bloom. Paths are looked up in FOLDER, by default the current one. With `--values`
pyarrow decodes the columns, xxhash hashes each value, and it is looked up here. Exits with 0 if all is as certified and
every verdict is ok, else with 1 and a line for each thing that is not.
"""

import hashlib
import io
import itertools
import json
import mmap
import struct
import sys
from pathlib import Path

SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def number(data):
    byte = data.read(1)[0]
    return byte & 127 | (number(data) << 7 if byte > 127 else 0)


def value(data, kind, in_list=False):
    """Reads a value in Thrift's compact protocol; a struct is a dictionary by the numbers of its fields."""
    if kind in (1, 2):
        return data.read(1) == b"\1" if in_list else kind == 1
    if kind in (3, 7, 8):
        return data.read({3: 1, 7: 8}.get(kind) or number(data))
    if kind in (4, 5, 6):
        return (zigzag := number(data)) >> 1 ^ -(zigzag & 1)
    if kind in (9, 10):
        head = data.read(1)[0]
        return [value(data, head & 15, True) for _ in range(number(data) if head > 239 else head >> 4)]
    assert kind == 12, f"a footer has no value of kind {kind}"
    fields, field = {}, 0
    while head := data.read(1)[0]:
        field = field + (head >> 4) if head >> 4 else value(data, 4)
        fields[field] = value(data, head & 15)
    return fields


def chunks(data):
    """Yields what the footer at the end says of each column chunk: where its pages and its filter are."""
    length = int.from_bytes(data[-8:-4], "little")
    for group, row_group in enumerate(value(io.BytesIO(data[-8 - length : -8]), 12).get(4, [])):
        for leaf, column in enumerate(row_group[1]):
            meta = column.get(3, {})
            names = [name.decode() for name in meta.get(3, [])]
            name = ".".join(f"`{n.replace('`', '``')}`" if {*n} & {*".`"} or not n else n for n in names)
            start = meta.get(11, 0) if 0 < meta.get(11, 0) < meta.get(9, 0) else meta.get(9, 0)
            pages = {"row_group": group, "column": name, "offset": start, "length": meta.get(7, 0)}
            place = (meta[14], meta.get(15)) if meta.get(14, 0) > 4 else None
            yield {"pages": pages, "filter": place, "sealed": 8 in column, "leaf": leaf, "type": meta.get(1)}


def hashes(path, chunk):
    """Returns the hashes of a column chunk's values; None for types that are not looked up here."""
    import xxhash
    from pyarrow import binary, int32, parquet, types

    with parquet.ParquetFile(path) as file:
        paths = [file.schema.column(leaf).path for leaf in range(len(file.schema))]
        name, kind = paths[chunk["leaf"]], chunk["type"]
        array = file.read_row_group(chunk["pages"]["row_group"], columns=[name]).column(0).combine_chunks()
    while types.is_struct(array.type) or types.is_list(array.type):
        array = array.flatten()[0] if types.is_struct(array.type) else array.flatten()
    array = array.view(int32()) if types.is_date32(array.type) else array
    is_known = types.is_integer(array.type) if kind < 3 else array.type in ("float", "double", "string", "binary")
    if paths.count(name) > 1 or not is_known:
        return None
    values = (array.cast(binary()) if kind == 6 else array).to_pylist()
    packs = {4: struct.Struct("<f").pack, 5: struct.Struct("<d").pack, 6: bytes}
    pack = packs.get(kind, lambda one: (one % 2 ** (32 * kind)).to_bytes(4 * kind, "little"))
    return [xxhash.xxh64_intdigest(pack(one)) for one in values if one is not None and one == one]


def lacks(bitset, hash):
    words = struct.unpack_from("<8I", bitset, ((hash >> 32) * (len(bitset) // 32) >> 32) * 32)
    return not all(word >> (hash * salt % 2**32 >> 27) & 1 for word, salt in zip(words, SALT, strict=True))


def of_filter(data, path, said, own, looks_up):
    start, length, is_ok = said["offset"], said["length"], said["verdict"] == "ok"
    header = io.BytesIO(data[start : start + length])
    if not is_ok:
        yield f"{said['verdict']}: {said.get('cause') or said.get('num_missing')}"
    if (length or is_ok) and hashlib.sha256(header.getbuffer()).hexdigest() != said["sha256"]:
        yield "the filter has other bytes"
    if not own["sealed"]:
        if own["filter"] not in ((start, length), (start, None)):
            yield "the footer says that the filter is elsewhere"
        if value(header, 12)[1] + header.tell() != length:
            yield "the filter's header says another size"
        elif looks_up and is_ok and not said["cause"]:
            values, bitset = hashes(path, own), header.read()
            if missing := sum(lacks(bitset, one) for one in values or []):
                yield f"the filter lacks {missing} values"
            print(f"{path}: {own['pages']}: {'not' if values is None else len(values)} looked up")


def of_file(data, path, said, looks_up):
    sealed = [{"sealed": True, "filter": None, "pages": {}}] * len(said["chunks"])
    there = list(chunks(data)) if data[-4:] == b"PAR1" else sealed
    footer, length, taken = said["footer"], int.from_bytes(data[-8:-4], "little"), []
    if (footer["offset"], footer["length"], said["size"]) != (len(data) - 8 - length, length, len(data)):
        yield "the file or its footer has another size"
    ranges = {"the file": said | {"offset": 0, "length": said["size"]}, "the footer": footer}
    if original := said["original"]:
        ranges["the original"] = original | {"offset": 0, "length": original["size"]}
        if [one["pages"] for one in chunks(data[: original["size"]])] != [one["pages"] for one in there]:
            yield "the original has other pages"
    for chunk, own in zip(said["chunks"], there, strict=True):
        filter, at = chunk["filter"], f"row group {chunk['row_group']}, {chunk['column']}"
        ranges |= {f"{at}: its pages": chunk} if chunk["length"] else {}
        if not own["sealed"] and chunk | own["pages"] != chunk:
            yield f"{at}: the footer says that the pages are elsewhere"
        if filter or own["filter"]:
            problems = of_filter(data, path, filter, own, looks_up) if filter else ["its filter is not certified"]
            yield from (f"{at}: {problem}" for problem in problems)
        taken += [(one["offset"], one["offset"] + one["length"]) for one in (chunk, filter) if one and one["offset"]]
    for name, one in ranges.items():
        if hashlib.sha256(data[one["offset"] : one["offset"] + one["length"]]).hexdigest() != one["sha256"]:
            yield f"{name}: other bytes"
    taken += [(0, 4), (footer["offset"], len(data))]
    if any(start < stop for (_, stop), (start, _) in itertools.pairwise(sorted(taken))):
        yield "pages, filters and the footer overlap"


def main(certificate, folder=".", *options):
    text = Path(certificate).read_bytes()
    said, digest = json.loads(text), hashlib.sha256(text.rpartition(b',\n "digest"')[0]).hexdigest()
    wrong = [f"{certificate}: it was changed after it was written"] * (said["digest"] != f"sha256:{digest}")
    for one in said["files"]:
        wrong += [f"{one['path']}: not certified: {one['error']}"] * bool(one["error"])
        try:
            with (path := Path(folder) / one["path"]).open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            found = of_file(data, path, one, "--values" in options) if "sha256" in one else []
            wrong += (f"{one['path']}: {problem}" for problem in found)
        except Exception as error:  # whatever is not as certified
            wrong += [f"{one['path']}: it cannot be read: {error!r}"]
    print("\n".join([*wrong, f"{len(said['files'])} files: {'not ' if wrong else ''}as certified"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sorted(sys.argv[1:], key=lambda argument: argument.startswith("--"))))
