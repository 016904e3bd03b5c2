# How often: `quick` after each change, `test` before a commit, `check` before it lands, `nightly`
# each night, `bench` when speed may have changed.

# Format, clippy and unit tests of what changed since main: a minute or two.
quick:
    bash .ci/quick

# All tests; the README's command.
test:
    cargo test --workspace

# The landing gate: everything that has to pass before a change lands.
check:
    bash .ci/run

# What draws seeds, measures, or needs other tools: all parts, or `just nightly mutations soak`.
nightly *parts:
    bash .ci/nightly {{parts}}

# Unmodified drivers and cqlsh against `ebb serve`: `just clients python`, or all of them.
clients *names:
    bash tests/clients/run {{names}}

# The book, with mdbook (`cargo install mdbook`).
book:
    mdbook build docs

# A measurement: `just bench ycsb --workload a`; without arguments, what there is.
bench *arguments="--help":
    cargo run --release --locked -p ebb-bench -- {{arguments}}
