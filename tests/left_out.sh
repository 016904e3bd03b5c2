# What a check says that cannot be done here, for want of a tool or a registry: `left_out WHAT WHY`.
# Where LEFT_OUT names a file, it is also written there, for whoever runs many checks.
left_out() {
    echo "$1: left out: $2"
    [ -z "${LEFT_OUT:-}" ] || echo "$1: $2" >>"$LEFT_OUT"
}
