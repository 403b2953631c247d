# shellcheck shell=bash disable=SC2034,SC2154
# Runs the parts of tools/gpu-check one after the other, each for a limited time. A part's folder keeps status, seconds,
# log, figures, clocks, and the card and the date.

# The longest time of a part and of a call, in seconds.
limit=$(awk "BEGIN { print int(60 * $minutes) }")
if [[ "$limit" -lt 1 ]]; then limit=1; fi
readonly limit

# status_of PART: done, failed, skipped, cut (by the end of a call), or open.
status_of() {
  if [[ -f "$out/$1/status" ]]; then cat "$out/$1/status"; else echo open; fi
}
parts_that_are() {
  local name
  for name in "${parts[@]}"; do
    if [[ "$(status_of "$name")" == "$1" ]]; then echo "$name"; fi
  done
}
is_left() { [[ "$(status_of "$1")" == open || "$(status_of "$1")" == cut ]]; }
seconds_left() {
  local name sum=0
  for name in "$@"; do
    if is_left "$name"; then sum=$((sum + $(usual_seconds "$name"))); fi
  done
  echo "$sum"
}

# say_what_is_left PART...
say_what_is_left() {
  local name missing=""
  for name in "$@"; do
    if ! is_left "$name"; then continue; fi
    missing+="${missing:+, }$name"
    if [[ "$(status_of "$name")" == cut ]]; then missing+=" (cut off)"; fi
  done
  if [[ -z "$missing" ]]; then
    echo "== no part is left"
  else
    echo "== left: $missing; about $(($(seconds_left "$@") / 60 + 1)) min: call again to go on"
  fi
}

list_parts() {
  local name
  for name in "${parts[@]}"; do printf '%-18s %-8s %s\n' "$name" "$(status_of "$name")" "$(about "$name")"; done
}

# program NAME: prints the program's path.
program() {
  local folder prefix="" folders=("$root/bin" "$root/build-gpu" "$root/build-gpu/tests" "$root/build-gpu/bench")
  if $dry_run; then prefix=emulated_ folders=("$root/build/tests"); fi
  if [[ -n "$programs" ]]; then folders=("$programs"); fi
  for folder in "${folders[@]}"; do
    if [[ -x "$folder/$prefix$1" ]]; then
      realpath "$folder/$prefix$1"
      return
    fi
  done
  fail "no program $prefix$1 in ${folders[*]}: tools/gpu-check --build makes it, --pack a folder with it, --programs names another"
}

# The folders of CUDA's libraries that the loader doesn't know: of a toolkit, or of Python's wheels.
cuda_libraries() {
  local file found folders=()
  for file in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2 libnvrtc.so.13; do
    if ldconfig -p 2>/dev/null | grep "$file" >/dev/null; then continue; fi
    found=$(find /usr/local/cuda*/ /usr/lib /usr/local/lib /opt -name "$file" -print -quit 2>/dev/null || true)
    [[ -n "$found" ]] || { echo "note: $file was not found" >&2; continue; }
    folders+=("$(dirname "$found")")
  done
  (IFS=:; echo "${folders[*]-}")
}

# wrapper FILE PROGRAM: writes a script that runs the program with our libraries. Only our programs get them, because
# Python has its own.
wrapper() {
  {
    echo '#!/bin/sh'
    if ! $dry_run; then
      echo "export LD_LIBRARY_PATH='$root/lib${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'"
    fi
    if [[ -d "$root/lib/graphviz" ]]; then echo "export GVBINDIR='$root/lib/graphviz'"; fi
    echo "exec '$2' \"\$@\""
  } >"$1"
  chmod +x "$1"
}

# The card as "name, driver, id". Without nvidia-smi: the name that doctor found, and this machine's start as the id.
this_card() {
  if [[ -s "$out/device" ]]; then
    cat "$out/device"
  else
    echo "$(sed -n '/device 0/{s/.*device 0 *\([^,]*\),.*/\1/p;q}' "$out/doctor/doctor.txt" 2>/dev/null | grep . ||
      echo unknown), unknown, $(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown)"
  fi
}

prepare_run() {
  local name path libraries=""
  # The results of an earlier lease, as they came back.
  if [[ ! -d "$out" && -f "$out.tar.gz" ]]; then
    mkdir -p "$out"
    tar -C "$out" -xzf "$out.tar.gz" || fail "$out.tar.gz can't be unpacked"
  fi
  mkdir -p "$out/programs" 2>/dev/null || fail "$out can't be made: --out names another folder"
  out=$(realpath "$out")
  # Two calls at the same time would write the same files and share the GPU.
  exec 9>"$out/lock"
  flock -n 9 || fail "another call is running with --out $out: wait for its end"
  # Figures of tiny models and figures of a GPU must not mix.
  local kind=gpu
  if $dry_run; then kind=dry-run; fi
  [[ ! -f "$out/kind" || "$(<"$out/kind")" == "$kind" ]] ||
    fail "$out holds the results of a $(<"$out/kind") and this is a $kind: --out names another folder"
  echo "$kind" >"$out/kind"
  echo "$peak" >"$out/peak"
  if [[ -f "$root/programs.tar.gz" && ! -d "$root/lib" ]]; then tar -C "$root" -xzf "$root/programs.tar.gz"; fi
  if ! $dry_run; then libraries=$(cuda_libraries); fi
  for name in weft gpu_test bench_gpu; do
    path=$(program "$name") || exit 2
    wrapper "$out/programs/$name" "$path"
  done
  weft="$out/programs/weft" gpu_test="$out/programs/gpu_test" bench_gpu="$out/programs/bench_gpu"
  "$weft" --version >"$out/version" 2>"$out/version.errors" || fail "weft doesn't start: $(tail -n 1 "$out/version.errors")"
  rm -f "$out/device"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi -i 0 --query-gpu=name,driver_version,uuid --format=csv,noheader >"$out/device" 2>/dev/null || true
  fi
  # Another machine than before is looked at again.
  [[ "$(cat "$out/doctor/card" 2>/dev/null)" == "$(this_card)" ]] || rm -f "$out/doctor/status"
}

sampler=0 group=0
# Starts to write the GPU's clocks, power, temperature and reasons for lower clocks, twice a second.
start_clocks() {
  local reasons=clocks_throttle_reasons.active # the name in drivers before 535
  sampler=0
  command -v nvidia-smi >/dev/null || return 0
  if nvidia-smi --help-query-gpu 2>/dev/null | grep clocks_event_reasons.active >/dev/null; then
    reasons=clocks_event_reasons.active
  fi
  nvidia-smi -i 0 --query-gpu="clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,$reasons" \
    --format=csv,noheader,nounits -lms 500 >"$1" 2>/dev/null 9>&- &
  sampler=$!
}
stop_clocks() {
  if [[ "$sampler" != 0 ]]; then
    kill "$sampler" 2>/dev/null || true
    wait "$sampler" 2>/dev/null || true
  fi
  sampler=0
}
end_group() {
  if [[ "$group" == 0 ]]; then return; fi
  kill -TERM -- "-$group" 2>/dev/null || true
  local i
  for ((i = 0; i < 50; ++i)); do
    kill -0 -- "-$group" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$group" 2>/dev/null || true
  group=0
}
trap 'end_group; stop_clocks' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# run_part PART SECONDS: runs the part, for at most this time, which is all that the call has left.
run_part() {
  local name=$1 may_take=$2 begin=$SECONDS status=0 state longest
  longest=$(longest_seconds "$name")
  if [[ "$longest" -gt "$limit" ]]; then longest=$limit; fi
  if [[ "$may_take" -gt "$longest" ]]; then may_take=$longest; fi
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  start_clocks "$out/$name/clocks.csv"
  set -m # a process group of its own, whose processes can be ended together
  (
    set -e
    trap - EXIT INT TERM
    exec 9>&-
    part=$name
    cd "$out/$name"
    do_part "$name"
  ) </dev/null >"$out/$name/log" 2>&1 &
  group=$!
  set +m
  while kill -0 "$group" 2>/dev/null && [[ $((SECONDS - begin)) -lt "$may_take" ]]; do
    if [[ -t 1 ]]; then printf '   %s s; ends after %s s at most \r' $((SECONDS - begin)) "$may_take"; fi
    sleep 0.2
  done
  if kill -0 "$group" 2>/dev/null; then
    end_group
    state='cut'
    if [[ "$may_take" == "$longest" ]]; then state=failed; fi
    echo "ended after $may_take s" | tee -a "$out/$name/log" >"$out/$name/reason"
  else
    wait "$group" || status=$?
    end_group # processes that the part left behind
    state='done'
    if [[ "$status" != 0 ]]; then
      state=failed
      echo "exit code $status: $(awk 'NF { last = $0 } END { print substr(last, 1, 300) }' "$out/$name/log")" >"$out/$name/reason"
    elif [[ -f "$out/$name/skipped" ]]; then
      state=skipped
      mv "$out/$name/skipped" "$out/$name/reason"
    fi
  fi
  stop_clocks
  echo $((SECONDS - begin)) >"$out/$name/seconds"
  this_card >"$out/$name/card"
  date -u +%FT%TZ >"$out/$name/date"
  echo "$state" >"$out/$name/status"
}

run_parts() {
  local begin=$SECONDS name left order=("${parts[@]}") position=0 first=true
  if [[ ${#chosen[@]} -gt 0 ]]; then
    order=("${chosen[@]}")
    for name in "${chosen[@]}"; do rm -f "$out/$name/status"; done
  fi
  for name in "${order[@]}"; do
    position=$((position + 1))
    is_left "$name" || continue
    left=$((limit - (SECONDS - begin)))
    # The first part of a call has all of the call's time. A later part that can't end in time isn't begun.
    if $first; then left=$limit; fi
    if [[ "$left" -lt "$(usual_seconds "$name")" ]] && ! $first; then break; fi
    echo "== $name ($position of ${#order[@]}): $(about "$name"); this and the rest take about" \
      "$(($(seconds_left "${order[@]}") / 60 + 1)) min"
    first=false
    run_part "$name" "$left"
    tail -n 6 "$out/$name/log" | cut -c1-160 | sed 's/^/   /'
    echo "== $name: $(status_of "$name") after $(<"$out/$name/seconds") s"
    if [[ "$name" == doctor && "$(status_of doctor)" == failed ]]; then
      rm -f "$out/doctor/status"
      fail "no usable GPU on this machine; $out/doctor/log has the details"
    fi
    archive_results # so that a call that is ended from outside leaves them
  done
  say_what_is_left "${order[@]}"
}
