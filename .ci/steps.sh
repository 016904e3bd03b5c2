# Shared by the gate and the nightly run: named steps that all run, and a list of those that failed.

# The names of the steps that failed.
red=()

# step NAME COMMAND...: runs the command, prints the seconds that it took, and returns 0 whatever its exit
# code is.
step() {
    local name=$1 begin=$SECONDS code=0
    shift
    printf '\n== %s\n' "$name"
    "$@" || code=$?
    if [ "$code" = 0 ]; then
        printf -- '-- %s: passed in %d s\n' "$name" $((SECONDS - begin))
    else
        printf -- '-- %s: FAILED (exit code %d) in %d s\n' "$name" "$code" $((SECONDS - begin))
        red+=("$name")
    fi
}

# within LIMIT COMMAND...: ends a command that hangs, so that the log has the name of the command. The limit
# is no measure of speed: it is far above what the slowest machine needs.
within() {
    local limit=$1 code=0
    shift
    timeout --kill-after=20s "$limit" "$@" || code=$?
    [ "$code" != 124 ] && [ "$code" != 137 ] || echo "ended after $limit: $*"
    return "$code"
}

# some_pass COMMAND...: runs tests that are selected by name, and fails if no test has such a name, because
# for cargo an empty selection is a success.
some_pass() {
    local log code=0
    log=$(mktemp)
    "$@" 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    if [ "$code" = 0 ] && ! grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$log"; then
        echo "no test has that name: $*"
        code=1
    fi
    rm -f "$log"
    return "$code"
}

# no_warnings COMMAND...: fails if the command fails or prints a warning of the compiler. Cargo's warnings
# about network requests that it repeats do not count: they are not the change's fault.
no_warnings() {
    local log code=0
    log=$(mktemp)
    "$@" 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    if grep '^warning: ' "$log" | grep -qv '^warning: spurious network error'; then
        echo "the compiler printed warnings:"
        grep -A 6 '^warning: ' "$log" | head -n 40
        [ "$code" != 0 ] || code=1
    fi
    rm -f "$log"
    return "$code"
}

# machine: prints one line with the facts that explain a slow or failed run. Steal is the share of time that
# the host gave to other machines, since this machine started.
machine() {
    local steal
    steal=$(awk '/^cpu / { total = 0; for (i = 2; i <= 9; i++) total += $i
        printf "%.1f%%", total ? 100 * $9 / total : 0 }' /proc/stat 2>/dev/null)
    printf 'machine: %s cores, load %s, steal %s, %s free on the disk of the target folder\n' \
        "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null)" "${steal:-unknown}" \
        "$(df -h --output=avail . | tail -n 1 | tr -d ' ')"
}

# verdict: prints the steps that failed; returns 1 if there are any.
verdict() {
    echo
    machine
    if [ ${#red[@]} = 0 ]; then
        echo "all steps passed in $SECONDS s"
        return 0
    fi
    echo "${#red[@]} steps FAILED, in $SECONDS s:"
    printf '    %s\n' "${red[@]}"
    return 1
}
