# What is run how often: `quick` after each change, `test` before a commit, `check` before
# it lands; `proof` and `bench` when their subject changed.

# Format, clippy and unit tests of what changed since main: a minute or two.
quick:
    bash .ci/quick

# All tests; the README's command.
test:
    cargo test --workspace

# Every proof of the storage engine: mutations, loom, schedules, soak. A quarter of an hour.
proof:
    bash .ci/proof

# Everything that has to pass before a change lands.
check:
    bash .ci/run

# Unmodified drivers and cqlsh against `ebb serve`: `just clients python`, or all of them.
clients *names:
    bash tests/clients/run {{names}}

# The book, with mdbook (`cargo install mdbook`).
book:
    mdbook build docs

# A measurement: `just bench ycsb --workload a`; without arguments, what there is.
bench *arguments="--help":
    cargo run --release --locked -p ebb-bench -- {{arguments}}
