# left_out WHAT WHY: reports that a check is left out, because this machine lacks a tool or a registry does
# not answer. If LEFT_OUT names a file, the report is also added to that file, for a script that runs many
# checks.
left_out() {
    echo "$1: left out: $2"
    [ -z "${LEFT_OUT:-}" ] || echo "$1: $2" >>"$LEFT_OUT"
}
