"""Writes hostile files of torch.save into tests/data/fuzz/torch_file, named after their fault.

The first byte says what follows: 'z' a whole file, 'p' a pickle (tools/fuzz/torch_file.cpp).
tests/core/distill/torch_file_test.cpp has the message of each whole file.
Usage: python torch_file_corpus.py
"""
import io
import pickle
import struct
import zipfile
from pathlib import Path

OUT = Path(__file__).parents[2] / "data/fuzz/torch_file"
STORAGE = b"(X\x07\x00\x00\x00storagectorch\n%s\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQ"


def storage(elements=8, kind=b"LongStorage"):
    return STORAGE % (kind, elements)


def sizes(*numbers):
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in numbers) + b"t"


def tensor(offset=0, shape=(2, 4), stride=(4, 1), elements=8, kind=b"LongStorage"):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(elements, kind) + b"\x8a\x08" +
            struct.pack("<q", offset) + sizes(*shape) + sizes(*stride) +
            b"\x89ccollections\nOrderedDict\n)RtR")


def named(body, key=b"t"):
    return b"\x80\x02}X" + struct.pack("<I", len(key)) + key + body + b"s."


def archive(code, method=zipfile.ZIP_STORED, name="a/data.pkl", order=b"little"):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as file:
        for member, content in ((name, code), ("a/byteorder", order), ("a/data/0", bytes(64)),
                                ("a/data/1", bytes(range(64)))):
            file.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), content, method)
    return data.getvalue()


def edited(data, find, at, value):
    """`data` with bytes replaced, counted from the last occurrence of a record's signature."""
    begin = data.rindex(find) + at
    return data[:begin] + value + data[begin + len(value):]


class Evil:
    def __reduce__(self):
        import os
        return os.system, ("true",)


class Plain:
    def __init__(self):
        self.a = 1


GOOD = archive(named(tensor()))
BIG = 1 << 62
WHOLE = {
    "good": GOOD,
    "calls_system": archive(pickle.dumps(Evil(), 2)),
    "calls_eval": archive(b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R."),
    "calls_a_storage": archive(named(b"ctorch\nFloatStorage\n)R")),
    "calls_a_number": archive(named(b"K\x01)R")),
    "object": archive(pickle.dumps(Plain(), 2)),
    "build": archive(named(b"ccollections\nOrderedDict\n)R}b")),
    "old_object": archive(b"(imodule\nName\n."),
    "extension": archive(b"\x80\x02\x82\x01."),
    "ordered_dict_with_items": archive(named(b"ccollections\nOrderedDict\n(]tR")),
    "protocol_9": archive(b"\x80\x09N."),
    "cut_off": archive(b"\x80\x02}X\xff\xff\xff\xffabc"),
    "no_end": archive(b"\x80\x02N"),
    "two_values": archive(b"\x80\x02NN."),
    "empty_stack": archive(b"\x80\x02s."),
    "pops_below_a_mark": archive(b"\x80\x02K\x01(\x85."),
    "no_mark": archive(b"\x80\x02t."),
    "memo_beyond": archive(b"\x80\x02Nr\xff\xff\xff\xff."),
    "memo_missing": archive(b"\x80\x02h\x07."),
    "odd_items": archive(b"\x80\x02}(K\x01u."),
    "item_of_a_number": archive(b"\x80\x02K\x01K\x02K\x03s."),
    "append_to_a_dict": archive(b"\x80\x02}K\x01a."),
    "integer_of_100_bits": archive(b"\x80\x02\x8a\x0d" + bytes(13) + b"."),
    "not_utf8": archive(b"\x80\x02X\x02\x00\x00\x00\xff\xfe."),
    "inside_itself": archive(b"\x80\x02}q\x00K\x01h\x00s."),
    "no_storage": archive(named(tensor()).replace(b"\x000X\x03", b"\x009X\x03")),
    "other_persistent_id": archive(b"\x80\x02K\x01\x85Q."),
    "storage_of_other_size": archive(named(tensor(elements=9))),
    "storage_of_bytes": archive(named(tensor(kind=b"UntypedStorage"))),
    "offset_beyond": archive(named(tensor(offset=1))),
    "negative_offset": archive(named(tensor(offset=-1))),
    "negative_size": archive(named(tensor(shape=(2, -4)))),
    "negative_stride": archive(named(tensor(stride=(4, -1)))),
    "repeated_by_stride_0": archive(named(tensor(shape=(BIG, 1), stride=(0, 1)))),
    "overflowing_shape": archive(named(tensor(shape=(BIG, BIG), stride=(BIG, BIG)))),
    "empty_overflowing": archive(named(tensor(shape=(BIG, BIG, 0), stride=(BIG, BIG, 1)))),
    "size_1_far_away": archive(named(tensor(shape=(1, 4), stride=((1 << 63) - 1, 1), offset=3))),
    "other_rank": archive(named(tensor(stride=(1,)))),
    "nine_dimensions": archive(named(tensor(shape=(1,) * 9, stride=(1,) * 9))),
    "big_endian": archive(named(tensor()), order=b"big"),
    "no_pickle": archive(named(tensor()), name="a/other.pkl"),
    "compressed": archive(named(tensor()) * 9, zipfile.ZIP_DEFLATED),
    "not_a_zip": b"\x80\x02}q\x00.",
    "nothing": b"",
    "half": GOOD[:len(GOOD) // 2],
    "wrong_checksum": GOOD.replace(b"OrderedDict", b"orderedDict"),
    "encrypted": edited(GOOD, b"PK\1\2", 8, b"\1\0"),
    "directory_beyond": edited(GOOD, b"PK\5\6", 16, b"\xf0\xff\xff\x7f"),
    "too_many_members": edited(GOOD, b"PK\5\6", 10, b"\xf0\xff"),
    "zip64_missing": edited(GOOD, b"PK\5\6", 10, b"\xff\xff"),
    "member_beyond": edited(GOOD, b"PK\1\2", 42, b"\xf0\xff\xff\x7f"),
    "member_too_long": edited(GOOD, b"PK\1\2", 20, b"\xf0\xff\xff\x7f\xf0\xff\xff\x7f"),
    "name_too_long": edited(GOOD, b"PK\1\2", 28, b"\xff\xff"),
}
PICKLES = {
    "p_tensor": named(tensor()),
    "p_floats": named(tensor(kind=b"BFloat16Storage", elements=32, shape=(4, 8), stride=(8, 1))),
    "p_halves": named(tensor(kind=b"HalfStorage", elements=32, shape=(8, 4), stride=(1, 8))),
    "p_counts": pickle.dumps({(1, 2): 3, (4, 5): 0.5}, 2),
    "p_values": pickle.dumps({"a": [1, -70000, 1 << 40, None, True, (), "ü"]}, 4),
    "p_nested": b"\x80\x02" + b"]" * 2000 + b"a" * 1999 + b".",
}
for name, data in WHOLE.items():
    (OUT / name).write_bytes(b"z" + data)
for name, data in PICKLES.items():
    (OUT / name).write_bytes(b"p" + data)
