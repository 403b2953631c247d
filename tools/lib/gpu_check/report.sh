# shellcheck shell=bash disable=SC2154
# The results of tools/gpu-check as one table and one JSON file.

# clock_figures PART: figures of nvidia-smi's samples as lines of name, value and unit. The last line has the reasons for
# lower clocks.
clock_figures() {
  local file="$out/$1/clocks.csv" mask=0 code names=() bit
  [[ -s "$file" ]] || return 0
  # nvidia-smi writes "[N/A]" for a value that it doesn't know.
  awk -F', *' '
    $1 ~ /^[0-9.]+$/ { n++; sm += $1; if (n == 1 || $1 < low) low = $1; if ($1 > high) high = $1 }
    $3 ~ /^[0-9.]+$/ { p++; watts += $3; if ($3 > most) most = $3 }
    $4 ~ /^[0-9.]+$/ && $4 > hot { hot = $4 }
    END {
      if (n) printf "SM clock\t%.0f\tMHz\nlowest SM clock\t%.0f\tMHz\nhighest SM clock\t%.0f\tMHz\n", sm / n, low, high
      if (p) printf "power\t%.0f\tW\nhighest power\t%.0f\tW\n", watts / p, most
      if (hot) printf "temperature\t%.0f\tC\n", hot
    }' "$file"
  while read -r code; do mask=$((mask | code)); done < <(awk -F', *' '$6 ~ /^0x[0-9a-fA-F]+$/ { print $6 }' "$file" | sort -u)
  for bit in 2:sw_power_cap 3:hw_slowdown 4:sync_boost 5:sw_thermal_slowdown 6:hw_thermal_slowdown \
    7:hw_power_brake_slowdown 1:applications_clocks_setting 8:display_clock_setting; do
    if (((mask >> ${bit%%:*}) & 1)); then names+=("${bit#*:}"); fi
  done
  printf 'slowed by\t%s\t\n' "${names[*]:-nothing}"
}

json_string() {
  printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\010\013-\037' | tr '\n\t' '  ' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}

# json_figures: JSON from lines of name, value and unit, without the line "slowed by", which has no number.
json_figures() {
  awk -F'\t' '
    function text(value) { gsub(/\\/, "\\\\\\\\", value); gsub(/"/, "\\\"", value); return "\"" value "\"" }
    $1 != "slowed by" { printf "%s{\"name\":%s,\"value\":%.10g,\"unit\":%s}", (n++ ? "," : ""), text($1), $2, text($3) }'
}

write_json() {
  local name separator="" clocks slowed
  {
    printf '{"version":%s,"kind":%s,"device":%s,"driver":%s,"date":%s,"peak_tflops":%s,"parts":[' \
      "$(json_string "$(cat "$out/version" 2>/dev/null || echo unknown)")" \
      "$(json_string "$(cat "$out/kind" 2>/dev/null || echo unknown)")" \
      "$(json_string "$(device_name)")" "$(json_string "$(driver_version)")" "$(json_string "$(date -u +%FT%TZ)")" "$(cat "$out/peak" 2>/dev/null || echo "$peak")"
    for name in "${parts[@]}"; do
      clocks=$(clock_figures "$name")
      slowed=$(sed -n 's/^slowed by\t\(.*\)\t$/\1/p' <<<"$clocks")
      printf '%s\n{"name":%s,"status":"%s","seconds":%s,"reason":%s,"figures":%s,"clocks":%s,"slowed_by":%s}' "$separator" \
        "$(json_string "$name")" "$(status_of "$name")" "$(cat "$out/$name/seconds" 2>/dev/null || echo 0)" \
        "$(json_string "$(cat "$out/$name/reason" 2>/dev/null || true)")" \
        "[$(json_figures < <(cat "$out/$name/figures" 2>/dev/null || true))]" \
        "[$(grep . <<<"$clocks" | json_figures || true)]" "$(json_string "${slowed:-unknown}")"
      separator=,
    done
    printf '\n]}\n'
  } >"$out/results.json.new"
  mv "$out/results.json.new" "$out/results.json"
}

device_name() {
  if [[ -s "$out/device" ]]; then
    cut -d, -f1 "$out/device"
  else
    sed -n '/device 0/{s/.*device 0 *\([^,]*\),.*/\1/p;q}' "$out/doctor/doctor.txt" 2>/dev/null || echo unknown
  fi
}
driver_version() {
  if [[ -s "$out/device" ]]; then cut -d, -f2 "$out/device" | tr -d ' '; else echo unknown; fi
}

show_table() {
  local name result seconds
  echo
  echo "$(cat "$out/version" 2>/dev/null || echo 'unknown version'); $(device_name), driver $(driver_version)"
  echo
  echo "| part | result | s | ms a step | MFU, % | beside others | SM clock, MHz | W | slowed by |"
  echo "|---|---|--:|--:|--:|---|--:|--:|---|"
  for name in "${parts[@]}"; do
    result=$(status_of "$name")
    if [[ -s "$out/$name/reason" ]]; then result+=": $(tr '|\n' '  ' <"$out/$name/reason")"; fi
    seconds=$(cat "$out/$name/seconds" 2>/dev/null || true)
    { cat "$out/$name/figures" 2>/dev/null || true; clock_figures "$name"; } | awk -F'\t' -v head="| $name | $result | $seconds" '
      { value[$1] = $2 }
      $1 ~ /^(step|throughput) over / { over = over (over ? "; " : "") $1 ": " sprintf("%.3f", $2) }
      $3 == "tests" || $3 == "errors" || $3 == "runs" { over = $2 " " $1 }
      function number(name, format) { return name in value ? sprintf(format, value[name]) : "" }
      END {
        print head " | " number("step", "%.2f") " | " number("MFU", "%.1f") " | " over " | " number("SM clock", "%s") " | " \
          number("power", "%s") " | " value["slowed by"] " |"
      }'
  done
  echo
  echo "All figures: $out/results.json"
}
