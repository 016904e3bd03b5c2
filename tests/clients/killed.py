"""A server that scripts kill, and what its clients do meanwhile."""

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

# What a request may end with while the server is gone.
FAILURES = (DriverException, ConnectionException, NoHostAvailable, OSError)
GIVE_UP_S = 180
IS_UP = "SELECT key FROM system.local"
# The kernel gives ports from 32768 on to sockets that ask for none.
PORTS = range(20_000, 32_768)
BIND_TRIES = 30


def seed():
    """EBB_SEED; without it a drawn one where EBB_EXPLORE is 1, else always the same."""
    if "EBB_SEED" in os.environ:
        return int(os.environ["EBB_SEED"])
    return random.randrange(1 << 32) if os.environ.get("EBB_EXPLORE") == "1" else 1


def is_free(port):
    """Whether a server can listen on the port of 127.0.0.1. Connections that have ended do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
            return True
        except OSError:
            return False


def free_address():
    """An address for a server that is started again on it. No outgoing connection gets its port while
    the server is down, as it could get one that the kernel chose."""
    first = os.getpid() % len(PORTS)
    for port in [*PORTS[first:], *PORTS[:first]]:
        if is_free(port):
            return f"127.0.0.1:{port}"
    sys.exit(f"no port of {PORTS} is free")


def start(directory, address, *options):
    """Starts a server over this directory, once nobody else listens on its address."""
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
    """The driver, but that it sends nothing twice by itself."""
    profile = {"retry_policy": FallthroughRetryPolicy()}
    return patient_cluster(address, profile, protocol_version=4, **options)


def until_it_works(what):
    """What `what` returns, once the driver has reconnected."""
    begun = time.monotonic()
    while True:
        try:
            return what()
        except FAILURES as error:
            if time.monotonic() - begun > GIVE_UP_S:
                sys.exit(f"the driver did not reconnect: {error}")
            time.sleep(0.05)
