#!/usr/bin/env bash
# The bundle as its user gets it: installed, moved, without write permission, run by somebody else who does not see the
# tree and the build it came from.
#
#   ctest/bundle/test.sh BUILD SOURCE
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
fail() { printf 'bundle: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --strip --prefix "$scratch/installed" >/dev/null
mv "$scratch/installed" "$scratch/moved"
bundle=$scratch/moved runs=$scratch/runs
size=$(du -s --apparent-size --block-size=1000000 "$bundle" | cut -f1)
[ "$size" -le 60 ] || fail "$size MB, expected at most 60"
# What it needs is in it, or the machine's own: the C and C++ libraries, of these versions or later ones.
needed=$(objdump -p "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null | awk '$1 == "NEEDED" { print $2 }' | sort -u)
for library in $needed; do
  case $library in libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | ld-linux-*) continue ;; esac
  [ -e "$bundle/lib/$library" ] || fail "$library is needed and not in the bundle"
done
versions=$(objdump -T "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null | grep -oE '\<(GLIBC|GLIBCXX|CXXABI)_[0-9.]+' | sort -uV |
  awk -F_ '{ last[$1] = $2 } END { printf "glibc %s, GLIBCXX %s, CXXABI %s", last["GLIBC"], last["GLIBCXX"], last["CXXABI"] }')
mkdir -m 777 "$runs"
chmod 755 "$scratch"
chmod -R a-w,a+rX "$bundle"
before=$(cd "$bundle" && find . -type f -print0 | sort -z | xargs -0 sha256sum)

# Somebody else, where this user may become one; an empty folder over tree and build, where this user may mount one.
somebody=(setpriv --reuid 65534 --regid 65534 --clear-groups) who='another user' hidden=yes
hide='for folder in "$1" "$2"; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder" || exit; done; shift 2; exec "$@"'
namespace=(unshare --mount)
if [ "$(id -u)" -ne 0 ]; then  # within a namespace of its own this user is root, and must not write as root
  namespace+=(--user --map-root-user) somebody=(setpriv --bounding-set=-all --inh-caps=-all) who='this user'
fi
if ! "${namespace[@]}" sh -c "$hide" sh "$source" "$build" test ! -e "$source/README.md" 2>/dev/null; then
  hidden='no (no mounts here)' namespace=() hide='shift 2; exec "$@"'
  [ "$(id -u)" -eq 0 ] || somebody=()
fi
elsewhere() {
  (cd / && "${namespace[@]}" sh -c "$hide" sh "$source" "$build" "${somebody[@]}" \
    env -i PATH=/usr/bin:/bin HOME=/nonexistent H3_THREADS=2 TMPDIR="$runs" "$@")
}

elsewhere "$bundle/run" --help | grep -q 'run test rows' || fail "no help"

# Two jobs at once: block 0 at its real width, a gate through CTest.
elsewhere "$bundle/run" block0 tiny --out "$runs/block0" >"$scratch/block0.log" 2>&1 &
first=$!
elsewhere "$bundle/run" ctest --out "$runs/gate" -R '^fullmodel$' >"$scratch/gate.log" 2>&1 || fail "$(cat "$scratch/gate.log")"
wait "$first" || fail "$(cat "$scratch/block0.log")"
grep -q 'verdict  *accepted' "$scratch/block0.log" || fail "$(cat "$scratch/block0.log")"
grep -q '"accepted": true' "$runs/block0/block0-tiny.json" || fail "no accepted report"
grep -q '"verdict": "closed"' "$runs"/gate/evidence/fullmodel/re*.json || fail "the gate has closed nothing"

# A run does not mix with another one, and does not fall back to the tree when its data are gone.
code=0
elsewhere "$bundle/run" block0 tiny --out "$runs/block0" 2>"$scratch/again.log" || code=$?
[ "$code" -eq 2 ] && grep -q 'not empty' "$scratch/again.log" || fail "a second run into one folder: $code, $(cat "$scratch/again.log")"
after=$(cd "$bundle" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
[ "$before" = "$after" ] || fail "the bundle is not what it was"
chmod u+w "$bundle/fixtures"
mv "$bundle/fixtures/device_functions.h5" "$scratch"
code=0
elsewhere "$bundle/run" block0 tiny --out "$runs/without" >"$scratch/without.log" 2>&1 || code=$?
[ "$code" -eq 2 ] && grep -q "$bundle/fixtures/device_functions.h5" "$scratch/without.log" ||
  fail "without a fixture: $code, $(cat "$scratch/without.log")"

echo "bundle: $size MB, asks for $versions; run as $who, tree hidden: $hidden; block 0 accepted, gate fullmodel closed, both at once"
