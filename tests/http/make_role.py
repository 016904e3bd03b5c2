"""Creates a role that may log in and has no permissions, by frames of CQL's native protocol, version 4.

Usage: make_role.py ADDRESS NAME
"""

import socket
import struct
import sys

# Opcodes.
STARTUP, READY, QUERY, RESULT = 0x01, 0x02, 0x07, 0x08
CONSISTENCY_ONE = 1
# Version, flags, stream, opcode, and the length of the body.
HEADER = struct.Struct(">BBhBi")


def string(text):
    return struct.pack(">H", len(text)) + text.encode()


def main(address, name):
    host, port = address.rsplit(":", 1)
    statement = f"CREATE ROLE {name} WITH LOGIN = true".encode()
    query = struct.pack(">i", len(statement)) + statement + struct.pack(">HB", CONSISTENCY_ONE, 0)
    options = struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0")
    requests = [(STARTUP, options, READY), (QUERY, query, RESULT)]
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        stream = connection.makefile("rb")
        for opcode, body, expected in requests:
            connection.sendall(HEADER.pack(4, 0, 0, opcode, len(body)) + body)
            *_, answered, length = HEADER.unpack(stream.read(HEADER.size))
            body = stream.read(length)
            assert answered == expected, f"opcode {answered:#x}: {body}"


if __name__ == "__main__":
    main(*sys.argv[1:])
