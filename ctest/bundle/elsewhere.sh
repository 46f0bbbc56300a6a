#!/usr/bin/env bash
# A packed bundle on a machine that did not build it: unpacked, write-protected, run by somebody else where this user may
# become one; block 0 (on a GPU, if there is one), then gates, whose evidence has to be what the bundle's own reviewer
# derives from it.
#
#   cmake --install build --strip --prefix build/bundle && tar -czf build/bundle.tar.gz -C build/bundle .
#   ctest/bundle/elsewhere.sh build/bundle.tar.gz OUT [GATE...]        # gates by label, block0 if none is named
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- block0
[ -f "$archive" ] || { printf 'elsewhere: %s: no such file, expected a packed bundle\n' "$archive" >&2; exit 2; }
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"

bundle=$scratch/bundle runs=$scratch/runs
mkdir "$bundle"
mkdir -m 777 "$runs"
tar -xf "$archive" -C "$bundle" --strip-components 1 --no-same-owner
chmod -R a-w,a+rX "$bundle"
listed() { (cd "$bundle" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
before=$(listed)
somebody=()
[ "$(id -u)" -ne 0 ] || somebody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
as_somebody() { (cd / && HOME=/nonexistent TMPDIR=$runs "${somebody[@]}" "$@"); }
red() { printf 'elsewhere: %s\n' "$*"; status=1; }

status=0 engine=cpu
[ "$("$bundle/bin/h3_gate" --resources "$scratch/gpus.json")" -eq 0 ] || engine=cuda
printf 'elsewhere: %s, glibc %s, engine %s, as user %s\n' "$(. /etc/os-release && echo "$PRETTY_NAME")" \
  "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" "$engine" "$(as_somebody id -u)"
as_somebody "$bundle/run" block0 tiny --engine "$engine" --out "$runs/block0" || red "block 0 is not accepted"
as_somebody "$bundle/run" test "$@" --out "$runs/gates" || red "a gate is not closed"
for folder in "$runs"/gates/evidence/*/; do
  "$bundle/bin/h3_evidence" verify "$folder" --json >"$runs/review.json" || true # a gate that was skipped is sealed, too
  grep -q '"refused": \[\]' "$runs/review.json" || red "$(basename "$folder"): evidence is refused: $(cat "$runs/review.json")"
  printf 'elsewhere: %s\n' "$(sed -n 's/^ *"summary": "\(.*\)",$/\1/p' "$runs/review.json")"
done
[ "$before" = "$(listed)" ] || red "the bundle is not what it was"
rm -rf "$runs"/gates/tmp "$runs"/block0/tmp "$runs"/review.json
cp -r "$runs/." "$out"
[ "$status" -ne 0 ] || echo "elsewhere: bundle unchanged, evidence sealed and as derived"
exit "$status"
