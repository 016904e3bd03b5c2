# Shared by tests/publish/run, rounds, spark_jobs, newcomer, catalog, power_loss and s3, and by bench/publish/s3,
# which source it in the root of the repository after tests/left_out.sh: the engines from PyPI, a build of the
# program, and a server over a new folder.

engines=$PWD/target/publish/venv
readers=()
work=
server=
address=
export PYTHONDONTWRITEBYTECODE=1

# install_engines CHECK: installs the engines into $engines, at the versions that requirements.txt locks. If
# that is impossible, reports CHECK as left out, and exits.
install_engines() {
    local locked=tests/publish/requirements.txt
    command -v python3 >/dev/null || { left_out "$1" "there is no python3"; exit 0; }
    if ! cmp -s "$locked" "$engines/locked.txt"; then
        rm -rf "$engines"
        python3 -m venv "$engines" &&
            timeout 900 "$engines/bin/pip" install --quiet --disable-pip-version-check --no-deps \
                --requirement "$locked" &&
            cp "$locked" "$engines/locked.txt" ||
            { left_out "$1" "PyPI did not give the engines"; exit 0; }
    fi
}

# find_readers CHECK: sets readers to the engines that can run here. Without Java, reports CHECK in Spark as left
# out.
find_readers() {
    readers=(pyiceberg duckdb polars chdb)
    if command -v java >/dev/null; then
        readers+=(spark)
    else
        left_out "$1 in Spark" "there is no java"
    fi
}

stop_server() {
    [ -z "$server" ] || kill -TERM "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" || true
    [ -z "$work" ] || rm -rf "$work"
}

# build_ebb [FEATURE]: builds ebb, with a feature beside the default ones, into the new folder $work. If EBB names
# a program, which must have the feature, that one is taken.
build_ebb() {
    [ -n "${EBB:-}" ] || cargo build --release --locked --bin ebb ${1:+--features "$1"}
    work=$(mktemp -d)
    # A copy, because other checks build the program with other features at the same path.
    cp "${EBB:-target/release/ebb}" "$work/ebb"
}

# start_server [FOLDER]: builds ebb and starts a server over the new folder $work/FOLDER, by default $work/data.
# Sets server to its process id, and address to its address for CQL.
start_server() {
    build_ebb
    trap stop_server EXIT
    serve "${1:-data}"
}

# serve FOLDER: does what start_server does, with the program that is in $work, over a new or an old folder.
serve() {
    local data=$1
    mkdir -p "$work/$(dirname "$data")"
    "$work/ebb" serve --data "$work/$data" --cql 127.0.0.1:0 --overload-wait 0s \
        >"$work/out" 2>"$work/err" &
    server=$!
    for _ in $(seq 600); do
        grep -q '^listening for CQL on' "$work/out" && break
        kill -0 "$server" || { cat "$work/err"; exit 1; }
        sleep 0.1
    done
    address=$(sed -n 's/^listening for CQL on //p' "$work/out")
    [ -n "$address" ] ||
        { echo "the server does not listen after 60 s:"; cat "$work/out" "$work/err"; exit 1; }
}

# end_server: stops the server that serve has started. The folder stays.
end_server() {
    kill -TERM "$server"
    wait "$server"
    server=
}
