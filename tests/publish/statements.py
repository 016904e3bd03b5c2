"""Executes statements of CQL, without a driver.

    statements.py HOST:PORT STATEMENT...
"""

import socket
import struct
import sys

VERSION, RESPONSE = 4, 0x80
ERROR, STARTUP, READY, QUERY, RESULT = 0, 1, 2, 7, 8
CONSISTENCY_ONE = 1


def text(value):
    return struct.pack(">H", len(value)) + value


def received(connection, count):
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        assert part, "the server has closed the connection"
        found += part
    return found


def response(connection, opcode, body):
    """Sends a request, and returns the opcode and the body of the response."""
    connection.sendall(struct.pack(">BBhBI", VERSION, 0, 0, opcode, len(body)) + body)
    version, _, _, opcode, length = struct.unpack(">BBhBI", received(connection, 9))
    assert version == VERSION | RESPONSE, f"the response has version {version:#x}"
    return opcode, received(connection, length)


def main(address, *statements):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        options = struct.pack(">H", 1) + text(b"CQL_VERSION") + text(b"3.0.0")
        opcode, body = response(connection, STARTUP, options)
        assert opcode == READY, body
        for statement in statements:
            query = statement.encode()
            query = struct.pack(">I", len(query)) + query + struct.pack(">HB", CONSISTENCY_ONE, 0)
            opcode, body = response(connection, QUERY, query)
            # The message of an error follows its code and its length.
            assert opcode == RESULT, f"{statement}: {body[6:].decode(errors='replace') if opcode == ERROR else opcode}"


if __name__ == "__main__":
    main(*sys.argv[1:])
