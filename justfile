# Everything that has to pass before a change lands.
check:
    bash .ci/run

# The book, with mdbook (`cargo install mdbook`).
book:
    mdbook build docs
