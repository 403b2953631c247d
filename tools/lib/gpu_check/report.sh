# shellcheck shell=bash disable=SC2154
# The results of tools/gpu-check as one table and one JSON file.

# The card of the figures in bench/RESULTS.md.
readonly results_card="NVIDIA H200"

# clock_figures FILE: figures of nvidia-smi's samples while the GPU was busy, as lines of name, value and unit. The last
# line has the reasons for lower clocks.
clock_figures() {
  local file=$1 mask=0 code names=() bit
  [[ -s "$file" ]] || return 0
  # nvidia-smi writes "[N/A]" for a value that it doesn't know.
  awk -F', *' '
    $5 !~ /^[0-9.]+$/ || $5 < 50 { next }
    $1 ~ /^[0-9.]+$/ { n++; sm += $1; if (n == 1 || $1 < low) low = $1; if ($1 > high) high = $1 }
    $3 ~ /^[0-9.]+$/ { p++; watts += $3; if ($3 > most) most = $3 }
    $4 ~ /^[0-9.]+$/ && $4 > hot { hot = $4 }
    END {
      if (n) printf "SM clock\t%.0f\tMHz\nlowest SM clock\t%.0f\tMHz\nhighest SM clock\t%.0f\tMHz\n", sm / n, low, high
      if (p) printf "power\t%.0f\tW\nhighest power\t%.0f\tW\n", watts / p, most
      if (hot) printf "temperature\t%.0f\tC\n", hot
    }' "$file"
  while read -r code; do mask=$((mask | code)); done < <(
    awk -F', *' '$6 ~ /^0x[0-9a-fA-F]+$/ { print $6 }' "$file" | sort -u)
  for bit in 2:sw_power_cap 3:hw_slowdown 4:sync_boost 5:sw_thermal_slowdown 6:hw_thermal_slowdown \
    7:hw_power_brake_slowdown 1:applications_clocks_setting 8:display_clock_setting; do
    if (((mask >> ${bit%%:*}) & 1)); then names+=("${bit#*:}"); fi
  done
  printf 'slowed by\t%s\t\n' "${names[*]:-nothing}"
}

json_string() {
  local text=$1
  text=${text//\\/\\\\} text=${text//\"/\\\"}
  text=${text//[$'\n\t']/ }
  printf '"%s"' "${text//[[:cntrl:]]/}"
}

# json_figures: JSON from lines of name, value and unit, without the line "slowed by", which has no number.
json_figures() {
  awk -F'\t' '
    function text(value) { gsub(/\\/, "\\\\\\\\", value); gsub(/"/, "\\\"", value); return "\"" value "\"" }
    $1 == "slowed by" { next }
    { printf "%s{\"name\":%s,\"value\":%.10g,\"unit\":%s}", (n++ ? "," : ""), text($1), $2, text($3) }'
}

# kept FILE: its content, or nothing.
kept() { if [[ -f "$1" ]]; then cat "$1"; fi; }
# card_of PART: the name of its card.
card_of() { kept "$out/$1/card" | cut -d, -f1; }

part_json() {
  local name=$1 card="" driver="" id="" clocks slowed compares=false seconds=0
  if [[ -f "$out/$name/card" ]]; then IFS=, read -r card driver id <"$out/$name/card"; fi
  if [[ "$card" == "$results_card" ]]; then compares=true; fi
  if [[ -f "$out/$name/seconds" ]]; then seconds=$(<"$out/$name/seconds"); fi
  clocks=$(clock_figures "$out/$name/clocks.csv")
  slowed=$(sed -n 's/^slowed by\t\(.*\)\t$/\1/p' <<<"$clocks")
  printf '\n{"name":%s,"status":"%s","seconds":%s,"reason":%s' "$(json_string "$name")" "$(status_of "$name")" \
    "$seconds" "$(json_string "$(kept "$out/$name/reason")")"
  printf ',"card":%s,"driver":%s,"card_id":%s,"date":%s,"compares_with_results":%s' "$(json_string "$card")" \
    "$(json_string "${driver# }")" "$(json_string "${id# }")" "$(json_string "$(kept "$out/$name/date")")" "$compares"
  printf ',"figures":[%s],"clocks":[%s],"slowed_by":%s}' "$(kept "$out/$name/figures" | json_figures)" \
    "$(grep . <<<"$clocks" | json_figures || true)" "$(json_string "${slowed:-unknown}")"
}

write_json() {
  local name separator="" card driver id
  IFS=, read -r card driver id <<<"$(this_card)"
  {
    printf '{"version":%s,"kind":%s,"device":%s,"driver":%s,"date":%s,"peak_tflops":%s,"results_card":%s,"missing":[' \
      "$(json_string "$(kept "$out/version")")" "$(json_string "$(kept "$out/kind")")" "$(json_string "$card")" \
      "$(json_string "${driver# }")" "$(json_string "$(date -u +%FT%TZ)")" \
      "$(kept "$out/peak" | grep . || echo "$peak")" "$(json_string "$results_card")"
    for name in "${parts[@]}"; do
      if is_left "$name"; then
        printf '%s%s' "$separator" "$(json_string "$name")"
        separator=,
      fi
    done
    printf '],"parts":['
    separator=""
    for name in "${parts[@]}"; do
      printf '%s%s' "$separator" "$(part_json "$name")"
      separator=,
    done
    printf '\n]}\n'
  } >"$out/results.json.new"
  mv "$out/results.json.new" "$out/results.json"
}

# Everything that a later lease or a reader needs, as one file beside the folder. --table makes results.json of it.
archive_results() {
  tar -C "$out" --exclude=./programs --exclude=./lock --exclude=./tokens.bin -czf "$out.tar.gz.new" .
  mv "$out.tar.gz.new" "$out.tar.gz"
}

show_table() {
  local name result seconds
  echo
  echo "$(kept "$out/version"); $(this_card | cut -d, -f1,2 | sed 's/,/, driver/')"
  echo
  echo "| part | result | s | ms a step | MFU, % | beside others | SM clock, MHz | W | slowed by |"
  echo "|---|---|--:|--:|--:|---|--:|--:|---|"
  for name in "${parts[@]}"; do
    result=$(status_of "$name")
    if [[ -s "$out/$name/reason" ]]; then result+=": $(tr '|\n' '  ' <"$out/$name/reason")"; fi
    seconds=$(kept "$out/$name/seconds")
    { kept "$out/$name/figures"; clock_figures "$out/$name/clocks.csv"; } |
      awk -F'\t' -v head="| $name | $result | $seconds" '
      { value[$1] = $2 }
      $1 ~ /^(step|burst|sustained) over / { over = over (over ? "; " : "") $1 ": " sprintf("%.3f", $2) }
      $3 == "tests" || $3 == "errors" || $3 == "cases" { over = over (over ? "; " : "") $2 " " $1 }
      function number(name, format) { return name in value ? sprintf(format, value[name]) : "" }
      END {
        print head " | " number("step", "%.2f") " | " number("MFU", "%.1f") " | " over " | " number("SM clock", "%s") \
          " | " number("power", "%s") " | " value["slowed by"] " |"
      }'
  done
  show_details
  show_cards
  echo
  echo "All figures: $out/results.json; everything: $out.tar.gz"
}

# Classes of task of each traced step, ways side by side, products.
show_details() {
  local name
  for name in "${parts[@]}"; do
    awk -F'\t' -v name="$name" '
      function add(text) { line = line (line ? "; " : "") text }
      $1 ~ / tasks$/ && $3 == "ms" { sub(/ tasks$/, "", $1); add(sprintf("%s %.2f ms", $1, $2)) }
      $3 == "times" && name == "pairs" { add(sprintf("%s %.3f", $1, $2)) }
      $3 == "TFLOP/s" && name == "products" { add(sprintf("%s %.0f TFLOP/s", $1, $2)) }
      END { if (line) print "\n" name ": " line }' < <(kept "$out/$name/figures")
  done
}

# Figures of two kinds of cards must not be taken for one another.
show_cards() {
  local card name names
  while read -r card; do
    names=""
    for name in "${parts[@]}"; do
      if [[ "$(card_of "$name")" == "$card" ]]; then names+="${names:+, }$name"; fi
    done
    echo
    if [[ "$card" == "$results_card" ]]; then
      echo "$card, the card of bench/RESULTS.md: $names"
    else
      echo "$card: $names. These figures don't compare with those of another card, nor with bench/RESULTS.md" \
        "($results_card)"
    fi
  done < <(for name in "${parts[@]}"; do card_of "$name"; done | sort -u)
}
