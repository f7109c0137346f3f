"""GGUF files byte by byte: good ones, and one for every way a file can lie.

`CASES` names each with the error it must give, None where it is well formed. The test of
`ac4k.gguf` goes through them, and `python tests/fuzz/gguf_cases.py` writes them as the seeds of the
fuzzer (tests/fuzz/corpus/gguf), which the C++ tests read too.
"""

from __future__ import annotations

import struct
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "gguf"

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q4_0, T_Q8_0, T_Q4_K, T_I8, T_MXFP4 = 0, 1, 2, 8, 12, 24, 39
HUGE = 2**64 - 1


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: bytes, length: int | None = None) -> bytes:
    return u64(len(value) if length is None else length) + value


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + u32(kind) + value


def array(kind: int, count: int, values: bytes = b"") -> bytes:
    return u32(kind) + u64(count) + values


def tensor(name: bytes, dims: list[int], kind: int, offset: int) -> bytes:
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def file(
    entries: list[bytes] = (),  # type: ignore[assignment]
    tensors: list[bytes] = (),  # type: ignore[assignment]
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_entries: int | None = None,
    alignment: int = 32,
) -> bytes:
    head = magic + u32(version)
    head += u64(len(tensors) if num_tensors is None else num_tensors)
    head += u64(len(entries) if num_entries is None else num_entries)
    head += b"".join(entries) + b"".join(tensors)
    return head + (bytes(-len(head) % alignment) if data else b"") + data


def one(dims: list[int], kind: int, offset: int = 0, size: int = 0) -> bytes:
    return file(tensors=[tensor(b"w", dims, kind, offset)], data=bytes(size))


NUMBERS = [
    entry(b"u8", U8, b"\xff"),
    entry(b"i8", I8, b"\xff"),
    entry(b"u16", U16, b"\xfe\xff"),
    entry(b"i16", I16, b"\xfe\xff"),
    entry(b"u32", U32, b"\xfd\xff\xff\xff"),
    entry(b"i32", I32, b"\xfd\xff\xff\xff"),
    entry(b"f32", F32, struct.pack("<f", 1.5)),
    entry(b"bool", BOOL, b"\x01"),
    entry(b"u64", U64, u64(HUGE)),
    entry(b"i64", I64, u64(HUGE)),
    entry(b"f64", F64, struct.pack("<d", 0.1)),
    entry(b"string", STRING, text("größe 🎈\n".encode())),
    entry(b"empty", STRING, text(b"")),
]
STRINGS = array(STRING, 3, text(b"a") + text(b"") + text(b"ccc"))
ARRAYS = [
    entry(b"bytes", ARRAY, array(U8, 3, b"\x01\x02\x03")),
    entry(b"floats", ARRAY, array(F32, 2, struct.pack("<2f", -0.0, 2.5))),
    entry(b"bools", ARRAY, array(BOOL, 3, b"\x01\x00\x01")),
    entry(b"strings", ARRAY, STRINGS),
    entry(b"none", ARRAY, array(U64, 0)),
    entry(
        b"nested", ARRAY, array(ARRAY, 3, STRINGS + array(I16, 1, b"\x05\x00") + array(ARRAY, 0))
    ),
    entry(b"deep", ARRAY, array(ARRAY, 1, array(ARRAY, 1, array(ARRAY, 1, array(U8, 1, b"\x07"))))),
]
TENSORS = [
    tensor(b"scalar", [], T_F32, 0),
    tensor(b"bias", [5], T_F16, 32),
    tensor(b"blk.0.up.weight", [64, 3], T_Q4_0, 64),
    tensor(b"experts", [256, 2, 2], T_Q4_K, 192),
    tensor(b"nothing", [32, 0, 7], T_MXFP4, 768),
    tensor(b"four", [1, 2, 3, 4], T_I8, 768),
]
DATA = bytes(range(256)) * 3 + bytes(24)

CASES: dict[str, tuple[bytes, str | None]] = {
    # ---- Well formed ----
    "ok_empty": (file(), None),
    "ok_version_2": (file(NUMBERS, version=2), None),
    "ok_numbers": (file(NUMBERS), None),
    "ok_arrays": (file(ARRAYS), None),
    "ok_tensors": (file(NUMBERS + ARRAYS, TENSORS, DATA), None),
    "ok_alignment_64": (
        file(
            [entry(b"general.alignment", U32, u32(64))],
            [tensor(b"a", [1], T_F32, 0), tensor(b"b", [3], T_F32, 64)],
            bytes(64 + 12),
            alignment=64,
        ),
        None,
    ),
    "ok_any_order": (
        file(tensors=[tensor(b"b", [4], T_F32, 32), tensor(b"a", [4], T_F32, 0)], data=bytes(48)),
        None,
    ),
    "ok_trailing_bytes": (file(data=bytes(100)), None),
    # ---- Header ----
    "bad_nothing": (b"", "magic: expected the bytes 'GGUF', got a file of 0 bytes"),
    "bad_short_magic": (b"GG", "magic: .* 2 bytes"),
    "bad_magic": (file(magic=b"GGML"), "magic: expected the bytes 'GGUF'"),
    "bad_version_0": (file(version=0), "version: expected 2 or 3, got 0"),
    "bad_version_1": (file(version=1), "version: expected 2 or 3, got 1"),
    "bad_version_4": (file(version=4), "version: expected 2 or 3, got 4"),
    "bad_big_endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version: .*got 3 in big-endian"),
    "bad_no_version": (b"GGUF", "version: expected more bytes"),
    "bad_no_tensor_count": (file()[:12], "tensor_count: expected more bytes"),
    "bad_no_kv_count": (file()[:20], "metadata_kv_count: expected more bytes"),
    "bad_tensor_count": (file(num_tensors=HUGE), "tensor_count: expected at most 0, .*got 184467"),
    "bad_tensor_count_1": (file(num_tensors=1), "tensor_count: expected at most 0"),
    "bad_kv_count": (file(NUMBERS, num_entries=HUGE), "metadata_kv_count: expected at most"),
    "bad_kv_count_1": (file(NUMBERS, num_entries=len(NUMBERS) + 1), "metadata key 13: .* end of"),
    "bad_kv_count_less": (
        file(NUMBERS, num_entries=2, num_tensors=1),
        "tensor 'u16': type: .*got 67108352",
    ),
    # ---- Metadata ----
    "bad_key_length": (file([text(b"key", HUGE) + bytes(99)]), "metadata key 0: expected more"),
    "bad_key_too_long": (
        file([entry(b"k" * 65536, U8, b"\x00")]),
        "metadata key 0: expected at most 65535 bytes, got 65536",
    ),
    "bad_key_not_utf8": (file([entry(b"\xff", U8, b"\x00")]), "metadata key 0: expected UTF-8"),
    "bad_value_type": (file([entry(b"key", 13, bytes(8))]), "metadata 'key': type: .*got 13"),
    "bad_value_type_huge": (file([entry(b"key", 2**32 - 1, bytes(8))]), "metadata 'key': type"),
    "bad_value_missing": (file([entry(b"key", F64, bytes(7))]), "metadata 'key': value: .* end"),
    "bad_type_missing": (file([text(b"some.key") + b"\x00"]), "metadata 'some.key': type: .* end"),
    "bad_bool": (file([entry(b"flag", BOOL, b"\x02")]), "metadata 'flag': value: .*got 2"),
    "bad_bool_in_array": (
        file([entry(b"flags", ARRAY, array(BOOL, 3, b"\x00\x01\xff"))]),
        "metadata 'flags': value: .*got 255",
    ),
    "bad_string_length": (
        file([entry(b"key", STRING, text(b"abc", 2**63))]),
        "metadata 'key': string: expected more bytes",
    ),
    "bad_string_not_utf8": (
        file([entry(b"key", STRING, text(b"\xed\xa0\x80"))]),  # a surrogate
        "metadata 'key': string: expected UTF-8",
    ),
    "bad_array_type": (
        file([entry(b"key", ARRAY, array(99, 1, bytes(8)))]),
        "metadata 'key': array type: .*got 99",
    ),
    "bad_array_length": (
        file([entry(b"key", ARRAY, array(U64, 2**61, bytes(64)))]),
        "metadata 'key': array length: expected at most 8, .*got 2305843009213693952",
    ),
    "bad_array_of_strings": (
        file([entry(b"key", ARRAY, array(STRING, HUGE, bytes(64)))]),
        "metadata 'key': array length: expected at most 8",
    ),
    "bad_array_of_arrays": (
        file([entry(b"key", ARRAY, array(ARRAY, 2, array(U8, 0)))]),
        "metadata 'key': array length: expected at most 1",
    ),
    "bad_string_in_array": (
        file([entry(b"key", ARRAY, array(STRING, 2, text(b"a") + text(b"b", 99)))]),
        "metadata 'key': string: expected more bytes",
    ),
    "bad_nesting": (
        file([entry(b"key", ARRAY, (u32(ARRAY) + u64(1)) * 5 + array(U8, 0))]),
        "metadata 'key': expected at most 4 levels",
    ),
    "bad_nesting_deep": (
        file([entry(b"key", ARRAY, (u32(ARRAY) + u64(1)) * 1000)]),
        "metadata 'key': expected at most 4 levels",
    ),
    "bad_key_twice": (
        file([*NUMBERS, entry(b"u8", STRING, text(b"x"))]),
        "metadata 'u8': .*twice",
    ),
    "bad_alignment_0": (
        file([entry(b"general.alignment", U32, u32(0))]),
        "metadata 'general.alignment': value: .*power of two.*got 0",
    ),
    "bad_alignment_24": (
        file([entry(b"general.alignment", U32, u32(24))]),
        "metadata 'general.alignment': value: .*got 24",
    ),
    "bad_alignment_4": (
        file([entry(b"general.alignment", U32, u32(4))]),
        "metadata 'general.alignment': value: .*got 4",
    ),
    "bad_alignment_type": (
        file([entry(b"general.alignment", U64, u64(32))]),
        "metadata 'general.alignment': type: expected 4",
    ),
    # ---- Tensors ----
    "bad_name_not_utf8": (
        file(tensors=[tensor(b"\xc0\xaf", [1], T_F32, 0)], data=bytes(4)),  # an overlong slash
        "tensor name 0: expected UTF-8",
    ),
    "bad_name_controls": (
        file(tensors=[tensor(b"\x1b[2J" + b"x" * 200, [1], 5, 0)], data=bytes(4)),
        r"tensor '\\x1b\[2Jx+\.\.\.': type",
    ),
    "bad_name_twice": (
        file(tensors=[tensor(b"w", [1], T_F32, 0), tensor(b"w", [1], T_F32, 32)], data=bytes(64)),
        "tensor 'w': .*twice",
    ),
    "bad_n_dims": (one([1, 1, 1, 1, 1], T_F32, 0, 4), "tensor 'w': n_dims: .*at most 4, got 5"),
    "bad_dims_missing": (
        file(tensors=[text(b"weight") + u32(4) + u64(1) + u64(2)]),
        "tensor 'weight': dim 2: .* end",
    ),
    "bad_dim_overflow": (
        one([2**62, 4], T_I8, 0, 4),
        "tensor 'w': dim 1: .*2\\^63.*got a size of 4",
    ),
    "bad_dim_negative": (one([HUGE], T_I8, 0, 4), "tensor 'w': dim 0: .*2\\^63"),
    "bad_dim_behind_zero": (one([0, HUGE, 2], T_I8, 0, 4), "tensor 'w': dim 1"),
    "bad_bytes_overflow": (one([2**62], T_F32, 0, 4), "tensor 'w': dims: .*2\\^64 bytes"),
    "bad_type_4": (
        one([32], 4, 0, 64),
        r"tensor 'w': type: expected a tensor type in use, at most 42, got 4",
    ),
    "bad_type_43": (one([32], 43, 0, 64), "tensor 'w': type: .*got 43"),
    "bad_type_huge": (one([32], 2**32 - 1, 0, 64), "tensor 'w': type: .*got 4294967295"),
    "bad_block": (one([33], T_Q4_0, 0, 64), "tensor 'w': dim 0: .*multiple of 32 for q4_0, got 33"),
    "bad_block_256": (
        one([32, 8], T_Q4_K, 0, 999),
        "tensor 'w': dim 0: .*multiple of 256 for q4_k",
    ),
    "bad_block_scalar": (one([], T_Q8_0, 0, 64), "tensor 'w': dim 0: .*got 1"),
    "bad_offset_misaligned": (
        one([1], T_F32, 33, 64),
        "tensor 'w': offset: .*multiple of 32, got 33",
    ),
    "bad_offset_huge": (one([1], T_F32, 2**64 - 32, 64), "tensor 'w': offset 18446744073709551584"),
    "bad_offset_at_end": (one([8], T_F32, 64, 64), "tensor 'w': offset 64: expected 32 bytes"),
    "bad_data_missing": (one([64, 3], T_Q4_0, 0, 107), "tensor 'w': .*expected 108 .*with 107"),
    "bad_no_data": (one([1], T_F32), "tensor 'w': offset 0: expected 4 bytes .*with 0"),
    "bad_offset_missing": (
        file(tensors=[text(b"w") + u32(1) + u64(4) + u32(0)]),
        "tensor 'w': offset: .* end",
    ),
    "bad_offset_cut": (
        file(tensors=[text(b"weight") + u32(1) + u64(4) + u32(0) + b"\x00"]),
        "tensor 'weight': offset: .* end",
    ),
    "bad_overlap": (
        file(tensors=[tensor(b"a", [9], T_F32, 0), tensor(b"b", [1], T_F32, 32)], data=bytes(64)),
        "tensor 'b': offset: expected at least 36, the end of 'a', got 32",
    ),
    "bad_same_place": (
        file(tensors=[tensor(b"a", [1], T_F32, 32), tensor(b"b", [1], T_F32, 32)], data=bytes(64)),
        "tensor '[ab]': offset: expected at least 36",
    ),
}


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, (content, _) in CASES.items():
        if len(content) < 8192:  # the fuzzer needs no long ones
            (CORPUS / f"{name}.gguf").write_bytes(content)


if __name__ == "__main__":
    main()
