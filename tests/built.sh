# The binaries that checks run. If EBB and EBB_BENCH do not name them, they are built as releases. A script
# that runs many checks can build them once and set the variables.
ebb_built() {
    [ -n "${EBB:-}" ] || cargo build --release --locked --bin ebb
    EBB=$(realpath "${EBB:-target/release/ebb}")
    [ -x "$EBB" ] || { echo "there is no program $EBB"; exit 2; }
    export EBB
}

# Builds the binaries of all packages at once: a build for one package has other features of its
# dependencies, which would be built again for the next package. The load generator gets a public driver.
ebb_and_bench_built() {
    [ -n "${EBB:-}" ] && [ -n "${EBB_BENCH:-}" ] ||
        cargo build --release --locked --workspace --bins --features ebb-bench/scylla
    EBB=${EBB:-target/release/ebb}
    ebb_built
    EBB_BENCH=$(realpath "${EBB_BENCH:-target/release/ebb-bench}")
    [ -x "$EBB_BENCH" ] || { echo "there is no program $EBB_BENCH"; exit 2; }
    export EBB_BENCH
}
