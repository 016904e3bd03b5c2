"""A proxy in front of an S3 server that can stall: it holds all bytes for a time while uploads wait.

An upload is here a request that sends a part of a multipart upload. The proxy runs in a process of its own, so
that it does not share the interpreter's lock with a load.
"""

import asyncio
import multiprocessing
import re
import time

CHUNK_BYTES = 256 << 10
HEAD_END = b"\r\n\r\n"
# PUT of a part, as S3 names it.
IS_UPLOAD = re.compile(rb"PUT [^ ]*[?&]partNumber=")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


class NoUploads(Exception):
    """There was no stall, because no upload came in time."""


class StallingProxy:
    """The proxy before the server at `host` and `port`, as its user sees it. `url` is its address."""

    def __init__(self, host, port):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, host, port), daemon=True)
        self.process.start()
        # So that a read from the pipe fails once the process has ended.
        other.close()
        self.url = f"http://127.0.0.1:{self.pipe.recv()}"

    def begin_stall(self, uploads, seconds, limit_s):
        """Has the proxy answer no upload until `uploads` of them wait, at most for `limit_s`, and then pass nothing
        for `seconds`."""
        self.pipe.send((uploads, seconds, limit_s))

    def stalled(self):
        """Waits for the end of the stall. Returns when it began and ended, by the monotonic clock, and the number of
        uploads that waited."""
        found = self.pipe.recv()
        if found is None:
            raise NoUploads("no upload of a part came")
        return found

    def stop(self):
        self.pipe.send(None)
        self.process.join()


def serve(pipe, host, port):
    asyncio.run(Gate(host, port).serve(pipe))


class Gate:
    """The state that all connections share. `holds_answers`: uploads get no answers; `holds_all`: nothing passes."""

    def __init__(self, host, port):
        self.address = host, port
        self.holds_answers = self.holds_all = False
        self.uploads = 0
        self.changed = asyncio.Condition()

    async def serve(self, pipe):
        server = await asyncio.start_server(self.connect, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        while order := await loop.run_in_executor(None, pipe.recv):
            pipe.send(await self.stall(*order))
        server.close()

    async def stall(self, uploads, seconds, limit_s):
        await self.set(holds_answers=True)
        try:
            await asyncio.wait_for(self.gather(uploads), limit_s)
        except asyncio.TimeoutError:
            if not self.uploads:
                await self.set(holds_answers=False)
                return None
        await self.set(holds_all=True)
        waiting, begin_s = self.uploads, time.monotonic()
        await asyncio.sleep(seconds)
        end_s = time.monotonic()
        await self.set(holds_answers=False, holds_all=False)
        return begin_s, end_s, waiting

    async def gather(self, uploads):
        async with self.changed:
            await self.changed.wait_for(lambda: self.uploads >= uploads)

    async def set(self, **values):
        async with self.changed:
            vars(self).update(values)
            self.changed.notify_all()

    async def count(self, uploads):
        async with self.changed:
            self.uploads += uploads
            self.changed.notify_all()

    async def pass_request(self):
        async with self.changed:
            await self.changed.wait_for(lambda: not self.holds_all)

    async def pass_answer(self, is_upload):
        async with self.changed:
            await self.changed.wait_for(lambda: not self.holds_all and not (is_upload and self.holds_answers))

    async def connect(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection(*self.address)
        except OSError:
            writer.close()
            return
        connection = Connection(self)
        ways = [
            asyncio.create_task(connection.requests(reader, server_writer)),
            asyncio.create_task(connection.answers(server_reader, writer)),
        ]
        # Each way ends with its connection; then the other one has nothing to do.
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        errors = await asyncio.gather(*ways, return_exceptions=True)
        await connection.end_upload()
        for end in (writer, server_writer):
            end.close()
        for error in errors:
            if isinstance(error, ValueError):
                raise error


class Connection:
    """A connection, with one request under way at most."""

    def __init__(self, gate):
        self.gate = gate
        self.is_upload = False

    async def requests(self, reader, writer):
        """Passes requests on, each as a head and a body of a known length."""
        try:
            while True:
                head = await reader.readuntil(HEAD_END)
                if CHUNKED.search(head):
                    raise ValueError("the proxy knows no chunked requests")
                if IS_UPLOAD.match(head):
                    self.is_upload = True
                    await self.gate.count(1)
                await self.send(writer, head)
                length = LENGTH.search(head)
                left = int(length[1]) if length else 0
                while left:
                    chunk = await reader.read(min(left, CHUNK_BYTES))
                    if not chunk:
                        return
                    left -= len(chunk)
                    await self.send(writer, chunk)
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def send(self, writer, data):
        await self.gate.pass_request()
        writer.write(data)
        await writer.drain()

    async def answers(self, reader, writer):
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await self.gate.pass_answer(self.is_upload)
                await self.end_upload()
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            return

    async def end_upload(self):
        if self.is_upload:
            self.is_upload = False
            await self.gate.count(-1)
