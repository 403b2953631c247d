#!/usr/bin/env bash
# The files of a build with all levels: a level's library exports its table alone and uses its own instructions alone,
# all other code runs on any x86-64, and the program takes, refuses and names levels.
#   tests/isa/levels_test.sh BUILD
set -euo pipefail
build=$1
program=$build/bin/weft
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# count FILE PATTERN: instructions that match. Vector instructions of AVX begin with v.
count() { objdump -d --no-show-raw-insn "$1" | grep -cE "$2" || true; }
expect_none() { [[ $(count "$1" "$2") == 0 ]] || fail "$1 has instructions like $2"; }
expect_some() { [[ $(count "$1" "$2") != 0 ]] || fail "$1 has no instructions like $2"; }

for level in v3 v4 v4-bf16; do
  library=$build/lib/weft/libweft_kernels_$level.so
  exported=$(nm -D --defined-only "$library" | awk '{print $3}')
  [[ $exported == weft_kernel_table ]] || fail "$library exports: $exported"
done
pairs='\svdpbf16ps|\svcvtne2?ps2?p?bf16|\svcvtneps2bf16'
expect_none "$program" '%[xyz]mm[0-9]+.*\sv[a-z]|\sv[a-z0-9]+\s.*%[xyz]mm|%[yz]mm'
expect_none "$build/lib/weft/libweft_kernels_v3.so" '%zmm|%k[1-7]'
expect_some "$build/lib/weft/libweft_kernels_v3.so" '\svfmadd.*%ymm'
expect_none "$build/lib/weft/libweft_kernels_v4.so" "$pairs"
expect_some "$build/lib/weft/libweft_kernels_v4.so" '\svfmadd.*%zmm'
expect_some "$build/lib/weft/libweft_kernels_v4-bf16.so" "$pairs"

# expect_refused WORDS... -- PATTERN: exit code 2, and a message with the pattern.
expect_refused() {
  local words=() output code=0
  while [[ $1 != -- ]]; do
    words+=("$1")
    shift
  done
  output=$("$program" "${words[@]}" 2>&1) || code=$?
  [[ $code == 2 && $output == *"$2"* ]] || fail "weft ${words[*]}: exit code $code, $output"
}
[[ $("$program" --version) == *"kernels for v3 v4 v4-bf16)" ]] || fail "--version: $("$program" --version)"
if ! grep -qw avx2 /proc/cpuinfo || ! grep -qw fma /proc/cpuinfo; then
  expect_refused doctor -- "x86-64-v3"
  exit $((failures > 0))
fi
expect_refused doctor --isa v9 -- "did you mean"
grep -qw avx512f /proc/cpuinfo || expect_refused doctor --isa v4 -- "a CPU without this level"
kernels() { "$program" doctor --json "$@" | sed -n '/"name": "kernels"/,/"value"/s/.*"value": "\(.*\)",/\1/p'; }
[[ $(kernels --isa v3) == v3 ]] || fail "doctor --isa v3 names $(kernels --isa v3)"
highest=v3
if grep -qw avx512vl /proc/cpuinfo; then highest=v4; fi
if grep -qw avx512_bf16 /proc/cpuinfo; then highest=v4-bf16; fi
[[ $(kernels) == "$highest" ]] || fail "doctor names $(kernels), the CPU has $highest"

# A program without its libraries, or with libraries of another build, says so.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "$program" "$folder/bin/weft"
program=$folder/bin/weft
expect_refused doctor -- "install Weft again"
echo "levels: $failures failures"
exit $((failures > 0))
