"""TensorBoard's files, read by their layout."""

import pytest


def events(folder):
    """What is in the files of a folder, in the order of their names, by the layout of TFRecord."""
    protocol = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            found.append(protocol.Event.FromString(data[12 : 12 + size]))
            data = data[size + 16 :]
    return found
