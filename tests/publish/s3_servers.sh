# Shared by tests/publish/s3, tests/publish/rounds and bench/publish/s3, which source it in the root of the repository
# after tests/left_out.sh: two servers that speak the protocol of S3, from PyPI.

s3_venv=$PWD/target/publish/s3
s3_server=
port=

# install_s3 CHECK: installs the servers into $s3_venv, at the versions of requirements-s3.txt, and sets the
# variables AWS_... for them. If that is impossible, reports CHECK as left out, and exits.
install_s3() {
    local locked=tests/publish/requirements-s3.txt name
    command -v python3 >/dev/null || { left_out "$1" "there is no python3"; exit 0; }
    if ! cmp -s "$locked" "$s3_venv/locked.txt"; then
        rm -rf "$s3_venv"
        python3 -m venv "$s3_venv" &&
            timeout 600 "$s3_venv/bin/pip" install --quiet --disable-pip-version-check \
                --requirement "$locked" &&
            cp "$locked" "$s3_venv/locked.txt" ||
            { left_out "$1" "PyPI did not give the servers of S3"; exit 0; }
    fi
    # The servers accept any credentials. Settings of the user's environment must not take effect.
    for name in $(compgen -e AWS_ || true); do unset "$name"; done
    export AWS_ACCESS_KEY_ID=ebb AWS_SECRET_ACCESS_KEY=not-a-secret AWS_DEFAULT_REGION=us-east-1
    export AWS_ALLOW_HTTP=true NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
}

# Prints the numbers of $1 free ports. SeaweedFS must know all of its own in advance.
free_ports() {
    python3 - "$1" <<'END'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])
END
}

seaweedfs() {
    local master master_grpc volume volume_grpc filer filer_grpc s3_grpc
    read -r port master master_grpc volume volume_grpc filer filer_grpc s3_grpc < <(free_ports 8)
    mkdir "$work/seaweedfs"
    # Its only identity is that of the two variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
    "$s3_venv/bin/weed" -logtostderr=true server -dir="$work/seaweedfs" -ip=127.0.0.1 \
        -ip.bind=127.0.0.1 -master.port="$master" -master.port.grpc="$master_grpc" \
        -master.telemetry=false -master.volumeSizeLimitMB=256 -volume.port="$volume" \
        -volume.port.grpc="$volume_grpc" -volume.max=50 -volume.preStopSeconds=1 \
        -filer.port="$filer" -filer.port.grpc="$filer_grpc" -s3 -s3.port="$port" \
        -s3.port.grpc="$s3_grpc" -s3.port.iceberg=0 -s3.port.lance=0 >"$work/seaweedfs.log" 2>&1 &
    s3_server=$!
}

moto() {
    read -r port < <(free_ports 1)
    # Moto looks for an object and creates it in two steps, so it serves one request at a time here.
    "$s3_venv/bin/python" - "$port" >"$work/moto.log" 2>&1 <<'END' &
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
application = DomainDispatcherApplication(create_backend_app)
run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=False)
END
    s3_server=$!
}

# Creates the bucket of the tests; fails while the server does not answer.
create_bucket() {
    "$s3_venv/bin/python" -c 'import boto3; boto3.client("s3").create_bucket(Bucket="ebb")'
}

# start_s3 NAME: starts the server seaweedfs or moto over files in the folder $work, with an empty bucket ebb.
# Sets AWS_ENDPOINT_URL. Its log is $work/NAME.log.
start_s3() {
    local attempt
    case $1 in
    seaweedfs | moto) ;;
    *) echo "there is no server $1: there are seaweedfs and moto"; exit 2 ;;
    esac
    "$1"
    export AWS_ENDPOINT_URL=http://127.0.0.1:$port
    for attempt in $(seq 60); do
        create_bucket 2>"$work/bucket.log" && return
        kill -0 "$s3_server" && [ "$attempt" != 60 ] || { cat "$work/$1.log" "$work/bucket.log"; exit 1; }
        sleep 0.5
    done
}

stop_s3() {
    [ -z "$s3_server" ] || kill -TERM "$s3_server" 2>/dev/null || true
    [ -z "$s3_server" ] || wait "$s3_server" || true
    s3_server=
}
