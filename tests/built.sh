# The binaries that checks run. EBB and EBB_BENCH name them; else they are built, as releases.
# Whoever runs many checks builds them once for all.
ebb_built() {
    [ -n "${EBB:-}" ] || cargo build --release --locked --bin ebb
    EBB=$(realpath "${EBB:-target/release/ebb}")
    [ -x "$EBB" ] || { echo "there is no program $EBB"; exit 2; }
    export EBB
}

# With the binaries of all packages: what is built for one of them has other features of what it
# uses, and would be built again for the next. The load generator can use a public driver.
ebb_and_bench_built() {
    [ -n "${EBB:-}" ] && [ -n "${EBB_BENCH:-}" ] ||
        cargo build --release --locked --workspace --bins --features ebb-bench/scylla
    EBB=${EBB:-target/release/ebb}
    ebb_built
    EBB_BENCH=$(realpath "${EBB_BENCH:-target/release/ebb-bench}")
    [ -x "$EBB_BENCH" ] || { echo "there is no program $EBB_BENCH"; exit 2; }
    export EBB_BENCH
}
