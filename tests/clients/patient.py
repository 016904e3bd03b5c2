"""The driver with time limits that only end a hang.

With its default limits (2 s for the control connection, 5 s to connect, 10 s for a request) a test fails on
a slow machine.
"""

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

LIMIT_S = 60


def patient_cluster(address, profile=(), **options):
    """Returns a cluster of the one server at `address`, which is HOST:PORT. `profile` has more options of the
    execution profile."""
    host, port = address.rsplit(":", 1)
    default = ExecutionProfile(request_timeout=LIMIT_S, **dict(profile))
    return Cluster(
        [host],
        port=int(port),
        connect_timeout=LIMIT_S,
        control_connection_timeout=LIMIT_S,
        execution_profiles={EXEC_PROFILE_DEFAULT: default},
        **options,
    )
