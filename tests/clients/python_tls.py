"""Python's cassandra-driver over TLS: certificates on both sides, and new ones without a restart.

The certificates come from `openssl`. A session that goes on keeps its connections while the
server takes new files; whoever comes afterwards has to trust the new ones.
"""

import os
import ssl
import subprocess
import sys
import tempfile
import time

from cassandra.cluster import Cluster, NoHostAvailable

ROWS = 3000
GIVE_UP_S = 30


def openssl(directory, *args):
    subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)


def authority(directory, name):
    openssl(
        directory,
        *f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} "
        f"-addext keyUsage=critical,keyCertSign -keyout {name}.key -out {name}.pem".split(),
    )


def sign(directory, name, by):
    """A certificate and key for `name`, for this machine, as files that replace others."""
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
    host, port = address.rsplit(":", 1)
    cluster = Cluster(
        [host],
        port=int(port),
        protocol_version=4,
        ssl_context=ssl_context,
        ssl_options={"server_hostname": host} if ssl_context else None,
        connect_timeout=10,
    )
    return cluster, cluster.connect()


def refused(address, ssl_context):
    try:
        cluster, _ = connect(address, ssl_context)
    except NoHostAvailable:
        return
    cluster.shutdown()
    sys.exit("a client was let in that may not come")


with tempfile.TemporaryDirectory() as directory:
    for name in ["old", "new", "stranger"]:
        authority(directory, name)
    sign(directory, "server", "old")
    sign(directory, "client", "old")
    sign(directory, "unknown", "stranger")
    path = lambda name: os.path.join(directory, name)
    server = subprocess.Popen(
        [os.environ["EBB"], "serve", "--data", path("data"), "--cql", "127.0.0.1:0"]
        + ["--tls-cert", path("server.pem"), "--tls-key", path("server.key")]
        + ["--tls-client-ca", path("old.pem")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline()
        assert line.startswith("listening for CQL on "), line
        address = line.split()[-1]
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
        begun = time.monotonic()
        while True:
            try:
                later, _ = connect(address, context(directory, "new", "client"))
                break
            except NoHostAvailable as error:
                if time.monotonic() - begun > GIVE_UP_S:
                    sys.exit(f"the new certificate is not in use: {error}")
        refused(address, context(directory, "old", "client"))
        assert len(list(session.execute(select))) == ROWS
        later.shutdown()
        cluster.shutdown()
    finally:
        server.terminate()
        code = server.wait()
assert code == 0, code
print(f"{ROWS} rows over TLS, four clients refused, a new certificate without a restart")
