# shellcheck shell=bash disable=SC2034,SC2154
# For scripts that run many things and end with a table of what passed. Sourced: it takes `out`, the folder of logs, and `steps`,
# the names asked for between spaces, and keeps `table` and `status`.
table=() status=0

asked_for() { [[ $steps == *" $1 "* ]]; }

# step NAME COMMAND...: its output in OUT/NAME.log, and what came of it.
step() {
  local name=$1 start=$SECONDS result=passed
  shift
  if ! "$@" >"$out/$name.log" 2>&1; then
    result=FAILED status=1
    tail -n 25 "$out/$name.log"
  fi
  table+=("$(printf '%-18s %-7s %5d s  %s' "$name" "$result" $((SECONDS - start)) "$(tail -n 1 "$out/$name.log" | cut -c1-100)")")
}
