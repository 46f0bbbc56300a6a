#!/bin/sh
# A page made here, looked at in a real browser: ctest/page_in_browser.sh H3 SOURCE_FOLDER SCRATCH_FOLDER
# Exit: that of page_in_browser.py, which also has to see planted faults.
set -eu
h3=$1 source=$2 scratch=$3
look="python3 $source/ctest/page_in_browser.py"
command -v python3 >/dev/null || { echo "no python3"; [ "${H3_REQUIRE_BROWSER:-}" = 1 ] && exit 1 || exit 77; }

rm -rf "$scratch" && mkdir -p "$scratch/reports"
# From a gate that ran on two H200, and from the reduced model and block 0, here and now.
"$h3" fullmodel --report "$scratch/reports/full_model.json" >"$scratch/log" 2>&1
"$h3" replay --layout tiny --no-batch-rows --report "$scratch/reports/block0.json" >"$scratch/log" 2>&1
"$h3" ulp swiglu --json >"$scratch/reports/ulp.json"
"$h3" page "$source"/ctest/recorded/parallel_nccl "$scratch/reports" --against "$scratch/reports" \
  --out "$scratch/page" --one-file "$scratch/page.html"
status=0
$look "$scratch/page" --one-file "$scratch/page.html" --screenshots "$scratch/pictures" || status=$?
[ $status -eq 0 ] || exit $status

# Each of these has to be seen.
for fault in '<p style="color:red">styled</p>' '<script>alert(1)</script>' '<img src="https://example.org/x.png" alt="x"/>' \
  '<img src="absent.svg" alt="x"/>' '<pre>a line that is much, much, much, much, much, much, much longer than any phone is wide, and then some</pre>'; do
  rm -rf "$scratch/faulty" && cp -r "$scratch/page" "$scratch/faulty"
  awk -v fault="$fault" '{ sub("</body>", fault "</body>"); print }' "$scratch/page/index.html" >"$scratch/faulty/index.html"
  status=0
  $look "$scratch/faulty" --quick >"$scratch/log" 2>&1 || status=$?
  [ $status -eq 1 ] || { echo "not seen (exit $status): $fault"; cat "$scratch/log"; exit 1; }
done
echo "planted faults: all seen"
