"""A restart of a busy server: a scan runs that would take hours, and a client does not read its results. Neither
keeps the server from stopping, and all acknowledged writes are there after the start."""

import pathlib
import select
import signal
import socket
import struct
import tempfile

import rehearsal

HEADING = "A restart"
# Opcodes of CQL's native protocol.
ERROR, STARTUP, READY, QUERY = 0, 1, 2, 7
OVERLOADED = 0x1001
# The rows of the result that a client does not read, of a megabyte each: more than the buffers of a connection
# take.
ROWS = range(24)
ROW_BYTES = 1_000_000
# Far above the grace of five seconds, and far below the time after which the scan, or the client that does not
# read, ends by itself.
STOPPED_WITHIN_S = 45


class Client:
    """A client that sends statements, and reads only what it has to."""

    def __init__(self, server):
        self.socket = socket.socket()
        self.socket.settimeout(120)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(server.address)
        texts = [struct.pack(">H", len(text)) + text for text in (b"CQL_VERSION", b"3.0.0")]
        self.send(STARTUP, struct.pack(">H", 1) + b"".join(texts))
        assert self.response()[0] == READY

    def send(self, opcode, body):
        """Sends a request of version 4 of the protocol."""
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)

    def query(self, statement):
        """Sends a statement with consistency ONE and without flags, so that its result is not paged."""
        text = statement.encode()
        self.send(QUERY, struct.pack(">i", len(text)) + text + struct.pack(">HB", 1, 0))

    def response(self):
        """Reads a response, and returns its opcode and its body."""
        opcode, length = struct.unpack(">Bi", self.socket.recv(9, socket.MSG_WAITALL)[4:])
        return opcode, self.socket.recv(length, socket.MSG_WAITALL) if length else b""


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    look = rehearsal.Block([rehearsal.quoted(HEADING, "ebb queries")], [])
    (logged,) = rehearsal.texts(HEADING)
    server = rehearsal.Server(directory, "--request-timeout", "10m")
    server.make_table()
    server.write(ROWS, ROW_BYTES)
    columns = "a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d)"
    server.session.execute(f"CREATE TABLE shop.wide ({columns})")

    # The scan looks for four billion rows, and none of them exists.
    some = ", ".join(str(number) for number in range(256))
    conditions = " AND ".join(f"{column} IN ({some})" for column in "abcd")
    scan = Client(server)
    scan.query(f"SELECT count(*) FROM shop.wide WHERE {conditions}")
    rehearsal.until(lambda: " running " in rehearsal.run(look, directory))
    unread = Client(server)
    unread.query("SELECT * FROM shop.orders")
    # The first bytes of the result have arrived, and the others wait for the client.
    begun, _, _ = select.select([unread.socket], [], [], 120)
    assert begun, "the server sends no result"

    server.write([len(ROWS)])
    server.process.send_signal(signal.SIGTERM)
    opcode, body = scan.response()
    code, length = struct.unpack(">iH", body[:6])
    message = body[6 : 6 + length].decode()
    print(f"the scan ended with {code:#06x}: {message}", flush=True)
    assert (opcode, code, message) == (ERROR, OVERLOADED, "the server is stopping")
    assert server.process.wait(STOPPED_WITHIN_S) == 0
    server.logs(logged)
    server.cluster.shutdown()
    server.end()
    unread.socket.close()

    server = rehearsal.Server(directory)
    assert server.count() == len(ROWS) + 1
    server.stop()
