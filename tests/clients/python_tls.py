"""Python's cassandra-driver over TLS: certificates on both sides, and new ones without a restart.

The certificates come from `openssl`. An open session keeps its connections while the server reads new files:
first its own certificate, then the authority of its clients. Clients that connect afterwards must trust
the new certificate, and theirs must be signed by the new authority. A second server also accepts clients
without a certificate, but none with a wrong one.
"""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

from cassandra.cluster import NoHostAvailable

from patient import patient_cluster

ROWS = 3000
GIVE_UP_S = 180


def openssl(directory, *args):
    subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)


def authority(directory, name):
    openssl(
        directory,
        *f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} "
        f"-addext keyUsage=critical,keyCertSign -keyout {name}.key -out {name}.pem".split(),
    )


def sign(directory, name, by):
    """Makes a certificate and key for `name`, for this machine; replaces existing files in one step each."""
    openssl(
        directory,
        *f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} "
        f"-keyout {name}.new.key -out {name}.csr".split(),
    )
    with open(os.path.join(directory, "san"), "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl(
        directory,
        *f"x509 -req -in {name}.csr -CA {by}.pem -CAkey {by}.key -CAcreateserial -days 2 "
        f"-extfile san -out {name}.new.pem".split(),
    )
    for kind in ["key", "pem"]:
        path = os.path.join(directory, name)
        os.rename(f"{path}.new.{kind}", f"{path}.{kind}")


def context(directory, trusts, shows=None):
    made = ssl.create_default_context(cafile=os.path.join(directory, f"{trusts}.pem"))
    if shows:
        path = os.path.join(directory, shows)
        made.load_cert_chain(f"{path}.pem", f"{path}.key")
    return made


def connect(address, ssl_context):
    host = address.rsplit(":", 1)[0]
    cluster = patient_cluster(
        address,
        protocol_version=5,
        ssl_context=ssl_context,
        ssl_options={"server_hostname": host} if ssl_context else None,
    )
    return cluster, cluster.connect()


def refused(address, ssl_context):
    try:
        cluster, _ = connect(address, ssl_context)
    except NoHostAvailable:
        return
    cluster.shutdown()
    sys.exit("a client was accepted that must be refused")


def start(directory, *more):
    """Starts a server over the directory with more arguments; returns it and its address."""
    path = lambda name: os.path.join(directory, name)
    server = subprocess.Popen(
        [os.environ["EBB"], "serve", "--data", path("data"), "--cql", "127.0.0.1:0"]
        + ["--tls-cert", path("server.pem"), "--tls-key", path("server.key")]
        + ["--overload-wait", "0s", *more],
        stdout=subprocess.PIPE,
        text=True,
    )
    line = server.stdout.readline()
    assert line.startswith("listening for CQL on "), line
    return server, line.split()[-1]


def until_accepted(address, ssl_context):
    """Tries to connect until the server has read its new files; returns the cluster."""
    begun = time.monotonic()
    while True:
        try:
            return connect(address, ssl_context)[0]
        except NoHostAvailable as error:
            if time.monotonic() - begun > GIVE_UP_S:
                sys.exit(f"the new files are not in use: {error}")
            time.sleep(0.1)


def stop(server):
    server.terminate()
    code = server.wait()
    assert code == 0, code


with tempfile.TemporaryDirectory() as directory:
    for name in ["old", "new", "stranger"]:
        authority(directory, name)
    sign(directory, "server", "old")
    sign(directory, "client", "old")
    sign(directory, "unknown", "stranger")
    sign(directory, "later", "new")
    clients = os.path.join(directory, "clients.pem")
    shutil.copy(os.path.join(directory, "old.pem"), clients)
    server, address = start(directory, "--tls-client-ca", clients)
    try:
        cluster, session = connect(address, context(directory, "old", "client"))
        session.execute(
            "CREATE KEYSPACE tls WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE tls.t (k int, n int, v text, PRIMARY KEY (k, n))")
        insert = session.prepare("INSERT INTO tls.t (k, n, v) VALUES (0, ?, ?)")
        for future in [session.execute_async(insert, (n, str(n) * 100)) for n in range(ROWS)]:
            future.result()
        select = session.prepare("SELECT n, v FROM tls.t WHERE k = 0")
        select.fetch_size = 700
        rows = list(session.execute(select))
        assert [(row.n, row.v) for row in rows] == [(n, str(n) * 100) for n in range(ROWS)]
        seen = list(session.execute("SELECT ssl_enabled, ssl_protocol FROM system_views.clients"))
        assert seen and all(row.ssl_enabled and row.ssl_protocol == "TLSv1.3" for row in seen), seen

        refused(address, None)
        refused(address, context(directory, "old"))
        refused(address, context(directory, "old", "unknown"))
        refused(address, context(directory, "stranger", "client"))

        sign(directory, "server", "new")
        until_accepted(address, context(directory, "new", "client")).shutdown()
        refused(address, context(directory, "old", "client"))
        refused(address, context(directory, "new", "later"))

        shutil.copy(os.path.join(directory, "new.pem"), clients)
        until_accepted(address, context(directory, "new", "later")).shutdown()
        refused(address, context(directory, "new", "client"))
        assert len(list(session.execute(select))) == ROWS
        cluster.shutdown()
    finally:
        stop(server)

    server, address = start(directory, "--tls-client-ca", clients, "--tls-client-optional")
    try:
        for shows in [None, "later"]:
            cluster, session = connect(address, context(directory, "new", shows))
            assert len(list(session.execute("SELECT n FROM tls.t WHERE k = 0"))) == ROWS
            cluster.shutdown()
        refused(address, context(directory, "new", "unknown"))
        refused(address, None)
    finally:
        stop(server)
print(f"{ROWS} rows over TLS, clients refused, new certificates and authorities without a restart")
