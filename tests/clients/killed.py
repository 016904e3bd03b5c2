"""A server that scripts kill, and helpers for its clients meanwhile."""

import os
import random
import socket
import subprocess
import sys
import time

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.policies import FallthroughRetryPolicy

from patient import patient_cluster

# The exceptions with which a request may end while the server is down.
FAILURES = (DriverException, ConnectionException, NoHostAvailable, OSError)
GIVE_UP_S = 180
IS_UP = "SELECT key FROM system.local"
# Below 32768: from there on the kernel gives ports to sockets that do not choose one.
PORTS = range(20_000, 32_768)
BIND_TRIES = 30


def seed():
    """Returns EBB_SEED. If it is not set: a random seed if EBB_EXPLORE is 1, else 1."""
    if "EBB_SEED" in os.environ:
        return int(os.environ["EBB_SEED"])
    return random.randrange(1 << 32) if os.environ.get("EBB_EXPLORE") == "1" else 1


def is_free(port):
    """Returns whether a server can listen on the port of 127.0.0.1. Connections that have ended do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
            return True
        except OSError:
            return False


def free_address():
    """Returns an address for a server that is started several times. While the server is down, no outgoing
    connection gets the port, because the kernel does not choose ports of this range."""
    first = os.getpid() % len(PORTS)
    for port in [*PORTS[first:], *PORTS[:first]]:
        if is_free(port):
            return f"127.0.0.1:{port}"
    sys.exit(f"no port of {PORTS} is free")


def start(directory, address, *options):
    """Starts a server over this directory, once no other process listens on the address."""
    port = int(address.rsplit(":", 1)[1])
    for _ in range(BIND_TRIES):
        if is_free(port):
            break
        time.sleep(1)
    server = subprocess.Popen(
        [os.environ["EBB"], "serve", "--data", directory, "--cql", address]
        + ["--overload-wait", "0s", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    line = server.stdout.readline()
    assert line.startswith(f"listening for CQL on {address}"), line
    return server


def cluster_of(address, **options):
    """Returns a cluster of the driver that does not repeat requests by itself."""
    profile = {"retry_policy": FallthroughRetryPolicy()}
    return patient_cluster(address, profile, protocol_version=4, **options)


def until_it_works(request):
    """Calls `request` until the driver has reconnected, and returns its result."""
    begun = time.monotonic()
    while True:
        try:
            return request()
        except FAILURES as error:
            if time.monotonic() - begun > GIVE_UP_S:
                sys.exit(f"the driver did not reconnect: {error}")
            time.sleep(0.05)
