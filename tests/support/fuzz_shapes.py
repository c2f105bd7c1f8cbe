"""The dictionary of the fuzzing: odd values, and ways to change documents, bytes and files."""

import json
import os

import numpy as np

DEEP = 3_000

VALUES = [
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**64),
    10**19, 10**400, "", "x", "NaN", "Infinity", "-Infinity", "1e999", "=cmd()", "+1", "../up", "/abs", "..", ".",
    "a/b", "a\\b", "nul\0", "\ud800", "\udcff", "\x1b]0;PWN\x07", "\x9d0;PWN\x9c", "\u202e", "é" * 90, "a" * 100_000,
    [], {}, [[]], [None], [1, 2], {"name": "x"}, {"name": 5}, {"": 0}, float("nan"), float("inf"), "<script>", "$x$",
    "1970-01-01",
]  # fmt: skip
LITERALS = ["1e999", "-1e999", "9" * 400, "9" * 5000, "nan", "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP]
CELLS = ["", "nan", "1e999", "9" * 400, "-1", "1.5", "x", "=1+1", '"a,b"', '"', "\0", "\x1b[2J", "é", "1e308", "-1e308",
         "9007199254740993", "9223372036854775807", "True", "1970-01-01", "a" * 1000,
         "0x10", "1_000", " 1", "∞"]  # fmt: skip


def mutate_document(rng, document):
    """A JSON document with one to three places changed, as text; some are no JSON any more."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        document = _changed(rng, document)
    text = json.dumps(document)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        text = text.replace(json.dumps("@literal"), rng.choice(LITERALS), 1)
    return text


def _changed(rng, value):
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice([*value])
        what = rng.random()
        if what < 0.12:
            return {name: own for name, own in value.items() if name != key}
        if what < 0.2:
            return value | {rng.choice(["", "x", "\ud800", "a.b", "__class__"]): rng.choice(VALUES)}
        return value | {key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        index = rng.randrange(len(value))
        what = rng.random()
        if what < 0.15:
            return value[:index] + value[index + 1 :]
        if what < 0.25:
            return [*value, value[index]]
        return [*value[:index], _changed(rng, value[index]), *value[index + 1 :]]
    return rng.choice([*VALUES, "@literal"])


def mutate_bytes(rng, data):
    """Bytes flipped, cut, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place:]
            case 2:
                data[place:place] = data[place : place + rng.randrange(1, 200)]
            case _:
                data[place:place] = rng.choice([b"\0", b"\xff\xfe", b"{", b"]", b"\n", b"\x1b[2J", b"9" * 400])
    return bytes(data)


def mutate_file(rng, path, victim, *, pipes=True):
    """Change a file, or put something else in its place."""
    what = rng.random()
    if what < 0.14:
        path.unlink()
        match rng.randrange(6):
            case 0:
                path.symlink_to(victim / "thesis.tex")
            case 1:
                path.symlink_to("nowhere")
            case 2:
                path.symlink_to(path.name)
            case 3:
                path.mkdir()
            case 4 if pipes:
                os.mkfifo(path)
        return
    data = path.read_bytes()
    if path.suffix == ".json" and what < 0.8:
        path.write_text(mutate_document(rng, json.loads(data)))
    elif path.suffix == ".jsonl" and what < 0.8:
        rows = data.decode().splitlines() or ["{}"]
        index = rng.randrange(len(rows))
        rows[index] = mutate_document(rng, json.loads(rows[index]))
        path.write_text("\n".join(rows) + rng.choice(["\n", ""]))
    else:
        path.write_bytes(mutate_bytes(rng, data))


def odd_array(rng, numbers, usual):
    """An array, or something else in its place: of another kind, shape or size, or with a mask."""
    match rng.randrange(9):
        case 0:
            return rng.choice(VALUES)
        case 1:
            return np.ma.masked_array(usual, numbers.random(usual.shape) < 0.3)
        case 2:
            return usual.astype(rng.choice(["U8", "O", "f2", "c8", "i1", "?", "S4"]))
        case 3:
            return np.zeros(usual.shape, rng.choice(["M8[D]", "m8[s]", "V4"]))
        case 4:
            return usual * rng.choice([1e308, -1.0, 1e-320, float("inf"), float("nan"), 0.0])
        case 5:
            return numbers.random(tuple(rng.choice([0, 1, 2, 3]) for _ in range(rng.randrange(5))))
        case 6:
            return [*usual.tolist()[:1], rng.choice(VALUES)]
        case 7:
            return rng.choice([1 - 1e-9, 1 - 1e-15, 1.0, 0.0, -0.0, np.float32(0.9), np.array(0.9), "0.9"])
        case _:
            return usual
