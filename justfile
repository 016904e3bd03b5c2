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

# latte and the workloads that it ships, against `ebb serve`.
latte *cycles:
    bash tests/clients/latte {{cycles}}

# The tests of Python's driver against `ebb serve`: `just suites`, or `just suites CHECKOUT`.
suites *checkout:
    bash tests/clients/driver_suites {{checkout}}

# The console: `just console` after a change of its sources; `just console-browser` looks at it.
console:
    cd server/console && npm ci --ignore-scripts && npm run build && npm run check

# The console in Chromium, against `ebb serve`.
console-browser:
    bash tests/console/run

# The runbook of the book, rehearsed: `just runbook restore`, or all of it.
runbook *pages:
    bash tests/runbook/run {{pages}}

# The first steps of the book, as a newcomer takes them.
first-steps:
    bash tests/first_steps/run

# The pictures of the console in the book, of a demo that runs.
book-pictures:
    bash tests/console/book

# The unit of systemd and the Dockerfile, checked.
service:
    bash tests/service/run

# The book, with mdbook (`cargo install mdbook`).
book:
    mdbook build docs

# A measurement: `just bench ycsb --workload a`; without arguments, what there is.
bench *arguments="--help":
    cargo run --release --locked -p ebb-bench -- {{arguments}}
