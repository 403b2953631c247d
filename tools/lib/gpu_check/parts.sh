# shellcheck shell=bash disable=SC2034,SC2154
# The parts of tools/gpu-check in their order. A part's function runs in the part's own folder, in a process group of
# its own. It calls figure for each measurement, and skip if the machine lacks something that the part needs.

# The first ten take less than ten minutes together. The others are done when time is left.
readonly parts=(doctor test nccl products train-124m train-350m train-774m train-1558m pairs torch-774m
  cold-124m keys-124m checkpoints kernels machine sanitize)

# about PART: its purpose. usual_seconds PART: its duration on an H100 or H200; of nccl, train-350m, train-1558m, pairs,
# cold-124m, keys-124m and checkpoints a guess.
about() {
  case "$1" in
    doctor) echo "the machine and its software" ;;
    test) echo "every kernel against the CPU's, training on grids, replayed graphs" ;;
    nccl) echo "two and four processes on one GPU over NCCL by sockets: values, replay, a stop, a lost rank" ;;
    products) echo "8192x8192x8192 in a burst and under load, with clocks, by Weft and by PyTorch" ;;
    train-*) echo "training steps of 4 x 8 sequences, products tuned, one step traced by class of task" ;;
    pairs) echo "side by side: attention engines and masks, work within products or after them, NCCL's calls, kernels that are off" ;;
    cold-*) echo "the steps of train-124m, products tuned with other data in the cache before each run" ;;
    keys-*) echo "the same steps as replayed graphs with each key that is off by default" ;;
    torch-*) echo "PyTorch's training steps (torch.compile) of the same size" ;;
    checkpoints) echo "the step after a checkpoint whose state is copied between steps, and beside that step" ;;
    kernels) echo "every kernel beside a copy, products and attention" ;;
    machine) echo "the GPU's machine file, by weft machine measure" ;;
    sanitize) echo "compute-sanitizer's memcheck and racecheck over small kernel tests" ;;
  esac
}
usual_seconds() {
  if $dry_run; then
    case "$1" in
      test | nccl) echo 15 ;;
      *) echo 3 ;;
    esac
    return
  fi
  case "$1" in
    doctor) echo 5 ;;
    test) echo 50 ;;
    nccl) echo 120 ;;
    train-124m | cold-124m | checkpoints | machine) echo 30 ;;
    keys-124m) echo 70 ;;
    pairs) echo 75 ;;
    train-350m) echo 45 ;;
    train-774m) echo 65 ;;
    train-1558m | torch-774m) echo 80 ;;
    sanitize) echo 15 ;;
    *) echo 25 ;;
  esac
}
# longest_seconds PART: the time after which it is taken for stuck, so that the other parts have theirs.
longest_seconds() {
  if $dry_run; then echo "$limit"; else echo $((20 + 3 * $(usual_seconds "$1") / 2)); fi
}

# figure NAME VALUE UNIT: one more of this part's results.
figure() {
  [[ "$2" =~ ^-?[0-9.]+([eE][-+]?[0-9]+)?$ ]] || { echo "$1: '$2' is no number"; return 1; }
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>figures
  echo "$1: $2 $3"
}
# skip REASON: ends this part, which can't be done here.
skip() {
  echo "$1" >skipped
  echo "skipped: $1"
  exit 0
}

# shape SIZE: layers, hidden, heads, vocabulary, tokens a sequence, sequences a micro-batch, steps that aren't measured
# because they load kernels, measured steps. A step has four micro-batches.
shape() {
  if $dry_run; then
    case "$1" in
      124m) echo 1 32 2 512 32 1 1 3 ;;
      350m) echo 2 32 2 512 32 1 1 3 ;;
      774m) echo 3 32 2 512 32 1 1 2 ;;
      1558m) echo 4 32 2 512 32 1 1 2 ;;
    esac
    return
  fi
  case "$1" in
    124m) echo 12 768 12 50304 1024 8 5 20 ;;
    350m) echo 24 1024 16 50304 1024 8 5 20 ;;
    774m) echo 36 1280 20 50304 1024 8 4 12 ;;
    1558m) echo 48 1600 25 50304 1024 8 3 8 ;;
  esac
}
readonly micro_batches=4
if $dry_run; then readonly tune_rounds=1; else readonly tune_rounds=7; fi

# write_tokens FILE VOCABULARY COUNT: ids that look random, in llm.c's format: 256 ints, then two bytes each. The bytes
# pass as octal escapes, because awk knows no zero byte.
write_tokens() {
  local escapes
  escapes=$(awk -v vocabulary="$2" -v count="$3" '
    function byte(value) { printf "\\%03o", value }
    BEGIN {
      header[0] = 20240520; header[1] = 1; header[2] = count
      for (i = 0; i < 256; ++i) {
        value = header[i] + 0
        for (b = 0; b < 4; ++b) { byte(value % 256); value = int(value / 256) }
      }
      state = 1
      for (i = 0; i < count; ++i) {
        state = state * 16807 % 2147483647
        id = int(state / 7) % vocabulary
        byte(id % 256); byte(int(id / 256))
      }
    }')
  # shellcheck disable=SC2059  # the format is the bytes
  printf "$escapes" >"$1"
}

# read_shape SIZE: sets the words of shape().
read_shape() {
  read -r layers hidden heads vocabulary tokens sequences first_steps timed_steps <<<"$(shape "$1")"
}

# model_words SIZE: sets words, the flags of weft that describe the step.
model_words() {
  read_shape "$1"
  words=(--model custom --model.family=gpt2 "--model.layers=$layers" "--model.hidden=$hidden" "--model.heads=$heads"
    "--model.kv-heads=$heads" "--model.ffn=$((4 * hidden))" "--model.vocab=$vocabulary" "--model.context=$tokens"
    --dtype bf16 --device cuda --global-batch $((micro_batches * sequences)) --micro-batch "$sequences"
    --seq-len "$tokens")
}

# json_values KEY...: the values of each object in compact JSON that has all keys, as a line of words.
json_values() {
  tr '{' '\n' | awk -v keys="$*" '
    function value(key) {
      if (!match($0, "\"" key "\":(\"[^\"]*\"|[-0-9.e+]+)")) return ""
      return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    }
    BEGIN { count = split(keys, key, " ") }
    {
      line = ""
      for (i = 1; i <= count; ++i) {
        found = value(key[i])
        gsub(/"/, "", found)
        if (found == "") next
        line = line (i > 1 ? " " : "") found
      }
      print line
    }'
}

# tune SIZE FLAG...: tunes the products of a step and writes tuned.json.
tune() {
  local usual tuned kind
  model_words "$1"
  shift
  "$weft" tune "${words[@]}" "$@" --rounds "$tune_rounds" --json -o tuned.json >tuned.txt
  # Every product, and every attention, with how often a step computes it.
  for kind in product attention; do
    read -r usual tuned <<<"$(json_values default_ms chosen_ms tasks "$kind" <tuned.txt |
      awk '{ usual += $1 * $3; tuned += $2 * $3 } END { print usual + 0, tuned + 0 }')"
    figure "${kind/%product/products} by default" "$usual" ms
    figure "${kind/%product/products} tuned" "$tuned" ms
  done
}

# make_tokens SIZE: reads the shape, and makes the file of tokens where it is missing.
make_tokens() {
  model_words "$1"
  if [[ ! -f "$out/tokens.bin" ]]; then
    local count=400000
    if $dry_run; then count=4000; fi
    write_tokens "$out/tokens.bin.new" "$vocabulary" "$count"
    mv "$out/tokens.bin.new" "$out/tokens.bin"
  fi
}

# train SIZE FLAG...: times training steps, and the classes of tasks in one of them.
train() {
  train_steps "$@"
  step_figures $((tokens * sequences * micro_batches)) <run/metrics.jsonl
  class_figures
}
# train_steps SIZE FLAG...: training steps alone: no checkpoints, no sample.
train_steps() {
  make_tokens "$1"
  shift
  rm -rf run
  "$weft" train "${words[@]}" --data "$out/tokens.bin" --save=false --steps $((first_steps + timed_steps)) --warmup 0 \
    --clip 0 --eval-sequences 1 --trace-steps 1 --trace-every "$timed_steps" --quiet --run-dir run "$@"
}

# train_keys SIZE: steps without and with each key that is off by default. Each run tunes the products that it alone has.
train_keys() {
  local size=$1 key plain median
  for key in "" --rewrites=fuse-residual --rewrites=fuse-bias-gradient --fuse-gelu=on --gpu-kernels=early-start \
    --gpu-kernels=clustered-loss --attention-gradient=fastest; do
    train_steps "$size" --gemm-tuning auto --cuda-graph true ${key:+"$key"}
    median=$(median_step <run/metrics.jsonl)
    if [[ -z "$key" ]]; then
      plain=$median
      figure "step" "$median" ms
    else
      figure "step with $key" "$median" ms
      figure "plain step over that with $key" "$(awk "BEGIN { print $plain / $median }")" times
    fi
  done
}
# median_step: milliseconds, of the metrics' lines without the first steps.
median_step() {
  sed -n 's/.*"step_ms":\([-0-9.e+]*\).*/\1/p' | tail -n +$((first_steps + 1)) | sort -g |
    awk '{ ms[NR] = $1 } END { print NR % 2 ? ms[(NR + 1) / 2] : (ms[NR / 2] + ms[NR / 2 + 1]) / 2 }'
}

# run_checkpoints: the wall time of the steps that follow a checkpoint, and of the others. A checkpoint is on the disk
# before the next one is due.
run_checkpoints() {
  local copy after other every=60
  if $dry_run; then every=4; fi
  make_tokens 124m
  for copy in between beside; do
    rm -rf run
    "$weft" train "${words[@]}" --data "$out/tokens.bin" --save-every "$every" --keep-last 1 \
      --steps $((3 * every + 2)) --warmup 0 \
      --eval-sequences 1 --trace-steps 0 --quiet --run-dir run --checkpoint-copy "$copy"
    read -r after other <<<"$(sed -n 's/.*"step":\([0-9]*\).*"wall_time":\([0-9.]*\).*/\1 \2/p' run/metrics.jsonl |
      awk -v every="$every" '
      NR > every && NR % every == 1 { after += $2 - last; ++n }
      NR > 3 && NR % every != 1 { other += $2 - last; ++m }
      { last = $2 }
      END { print 1e3 * after / n, 1e3 * other / m }')"
    figure "step after a checkpoint, copied $copy $([[ $copy == beside ]] && echo it || echo steps)" "$after" ms
    figure "other steps, copied $copy" "$other" ms
  done
}

# class_figures: the time of each class of task in the traced step, which runs its tasks one by one.
class_figures() {
  local name ns idle
  "$weft" trace summary run --json >trace.json
  read -r ns idle <<<"$(json_values step_ns idle_ns <trace.json | tail -n 1)"
  figure "traced step" "$(awk "BEGIN { print $ns / 1e6 }")" ms
  figure "without a task" "$(awk "BEGIN { print $idle / 1e6 }")" ms
  while read -r name ns; do
    figure "$name tasks" "$(awk "BEGIN { print $ns / 1e6 }")" ms
  done < <(json_values name busy_ns <trace.json)
}

# step_figures TOKENS: figures from the metrics' lines, without the first steps.
step_figures() {
  local median least most tflops loss
  read -r median least most tflops loss <<<"$(awk -v skip="$first_steps" '
    function number(key) {
      if (!match($0, "\"" key "\":[-0-9.e+]+")) return "none"
      return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    }
    NR > skip {
      ms[++n] = number("step_ms") + 0
      flops = number("model_tflops") * number("step_ms")
      loss = number("loss")
    }
    END {
      for (i = 2; i <= n; ++i) {
        value = ms[i]
        for (j = i - 1; j >= 1 && ms[j] > value; --j) ms[j + 1] = ms[j]
        ms[j + 1] = value
      }
      median = n % 2 ? ms[(n + 1) / 2] : (ms[n / 2] + ms[n / 2 + 1]) / 2
      if (n > 0) print median, ms[1], ms[n], flops / median, loss
    }')"
  [[ -n "$loss" ]] || { echo "the metrics have no step after the first $first_steps"; return 1; }
  figure "step" "$median" ms
  figure "fastest step" "$least" ms
  figure "slowest step" "$most" ms
  figure "throughput" "$(awk "BEGIN { print 1e3 * $1 / $median }")" tokens/s
  figure "model rate" "$tflops" TFLOP/s
  figure "MFU" "$(awk "BEGIN { print 100 * $tflops / $peak }")" %
  figure "last loss" "$loss" nats
}

# value_of PART FIGURE: prints the figure, or nothing if the part has none.
value_of() {
  awk -F'\t' -v name="$2" '$1 == name { print $2 }' "$out/$1/figures" 2>/dev/null || true
}
# same_card PART: whether the part was done on this card. Cards of one kind differ by some percent, of two by far.
same_card() { [[ "$(cat "$out/$1/card" 2>/dev/null)" == "$(this_card)" ]]; }
# against PART: the ratio of this part's step to the step of PART.
against() {
  local own other
  own=$(value_of "$part" step) other=$(value_of "$1" step)
  [[ -n "$own" && -n "$other" ]] || return 0
  if same_card "$1"; then
    figure "step over $1's" "$(awk "BEGIN { print $own / $other }")" times
  else
    echo "no ratio to $1, which was done on another card"
  fi
}

# tabbed_figures PREFIX COMMAND...: figures from the command's lines of name, value and unit.
tabbed_figures() {
  local prefix=$1 failed=0 name value unit
  shift
  "$@" >lines.txt 2>errors.txt || failed=$?
  while IFS=$'\t' read -r name value unit; do
    if [[ -n "$unit" ]]; then figure "$prefix$name" "$value" "$unit"; else echo "$name"; fi
  done <lines.txt
  cat errors.txt
  return "$failed"
}

# has_torch: whether PyTorch sees a GPU; why it doesn't is in probe.txt.
has_torch() {
  echo "python3 is not here" >probe.txt
  command -v python3 >/dev/null || return 1
  echo "it sees no GPU" >probe.txt
  python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>>probe.txt
}

run_torch() {
  has_torch || skip "PyTorch with a GPU is not here: $(tail -n 1 probe.txt)"
  local layers hidden heads vocabulary tokens sequences first_steps timed_steps median
  read_shape "$1"
  python3 "$root/bench/peers/pytorch_gpu_step.py" --layers "$layers" --hidden "$hidden" --heads "$heads" \
    --vocab "$vocabulary" --context "$tokens" --seq "$tokens" --batch "$sequences" --accumulate "$micro_batches" \
    --warmup 4 --steps 10 | tee torch.json
  median=$(tail -n 1 torch.json | sed -n 's/.*"step_ms": *\[\([^]]*\)\].*/\1/p' | tr ',' '\n' | grep . | sort -g |
    awk '{ ms[NR] = $1 } END { print NR % 2 ? ms[(NR + 1) / 2] : (ms[NR / 2] + ms[NR / 2 + 1]) / 2 }')
  figure "step" "$median" ms
  figure "throughput" "$(awk "BEGIN { print 1e3 * $tokens * $sequences * $micro_batches / $median }")" tokens/s
  against "train-$1"
}

# loaded NAME COMMAND...: figures of the command, and of the clocks meanwhile.
loaded() {
  local name=$1 label value unit failed=0
  shift
  start_clocks "$name.csv"
  tabbed_figures "$name, " "$@" || failed=$?
  stop_clocks
  while IFS=$'\t' read -r label value unit; do
    if [[ -n "$unit" ]]; then figure "$name, $label" "$value" "$unit"; else echo "$name, $label $value"; fi
  done < <(clock_figures "$name.csv")
  return "$failed"
}

run_products() {
  local seconds=7 quick=() what own other
  if $dry_run; then seconds=0.2 quick=(--quick); fi
  loaded Weft "$bench_gpu" --rate "$seconds" ${quick[@]+"${quick[@]}"}
  if ! has_torch; then
    echo "no comparison: PyTorch with a GPU is not here: $(tail -n 1 probe.txt)"
    return
  fi
  loaded PyTorch python3 "$root/bench/peers/pytorch_product.py" --seconds "$seconds" ${quick[@]+"${quick[@]}"}
  for what in burst sustained; do
    own=$(value_of "$part" "Weft, $what") other=$(value_of "$part" "PyTorch, $what")
    figure "$what over PyTorch's" "$(awk "BEGIN { print $own / $other }")" times
  done
}

run_pairs() {
  local quick=()
  if $dry_run; then quick=(--quick); fi
  tabbed_figures "" "$bench_gpu" --pairs ${quick[@]+"${quick[@]}"}
}

# In a process of their own, which opens no GPU before it forks ranks. Each case ends ranks that hang. What remains after two minutes is left.
run_nccl() {
  local filter='*NcclProcesses*' longest=150 failed=0
  if $dry_run; then filter='*NcclProcesses*/2Ranks' longest=$limit; fi
  timeout --foreground "$longest" "$gpu_test" --gtest_filter="$filter" 2>&1 | tee cases.txt || failed=$?
  # "[       OK ] Of/NcclProcesses.Collectives/2Ranks (1234 ms)"
  while read -r name ms; do figure "$name" "$(awk "BEGIN { print $ms / 1e3 }")" s; done < <(
    sed -n 's/^\[       OK \] [^.]*\.\([^ ]*\) (\([0-9]*\) ms)$/\1 \2/p' cases.txt)
  figure "cases passed" "$(grep -c '^\[       OK \]' cases.txt || true)" cases
  if [[ "$failed" != 0 ]] || grep -q '^\[  SKIPPED \]' cases.txt; then
    # A case without an end: its name is the last that was begun.
    echo "cases that failed:$(awk '
      /^\[ RUN / { open = $4 }
      /^\[       OK / { open = "" }
      /^\[  (FAILED|SKIPPED) / && $0 ~ /ms\)$/ { open = ""; sub(/,$/, "", $4); printf " %s", $4 }
      END { if (open != "") printf " %s (cut off)", open }' cases.txt)"
    return 1
  fi
}

run_kernels() {
  local words=()
  if $dry_run; then words=(--quick --filter "layer norm" --tokens 64 --hidden 64); fi
  "$bench_gpu" ${words[@]+"${words[@]}"} | tee kernels.txt
  # "gelu forward   0.107 ms   4160 GB/s   97 % of the copy", "gemm qkv dx   0.2 ms   700 TFLOP/s  tuned 0.19 ms …",
  # "attention …   forward 1.2 ms 307 TFLOP/s, own …; backward 4.3 ms 220 …"
  awk '
    function name() { text = substr($0, 1, 34); sub(/ +$/, "", text); return text }
    / GB\/s/ { rest = substr($0, 35); split(rest, word, " "); print name() "\t" word[3] "\tGB/s" }
    / % of the copy/ { print name() ", of the copy\t" word[5] "\t%" }
    / tuned / { rest = substr($0, 35); split(rest, word, " ")
                print name() "\t" word[3] "\tTFLOP/s"; print name() ", tuned\t" word[8] "\tTFLOP/s" }
    /^attention/ { rest = substr($0, 35); gsub(/[,;]/, "", rest); split(rest, word, " ")
                   print name() ", forward\t" word[4] "\tTFLOP/s"; print name() ", backward\t" word[13] "\tTFLOP/s" }
  ' kernels.txt >kernels.tsv
  [[ -s kernels.tsv ]] || { echo "bench_gpu printed no line that this script understands"; return 1; }
  local title value unit
  while IFS=$'\t' read -r title value unit; do figure "$title" "$value" "$unit"; done <kernels.tsv
}

run_machine() {
  if $dry_run; then skip "emulated GPUs are too slow for products of a GPU's size"; fi
  "$weft" machine measure --device cuda --quiet -o machine.toml
  "$weft" machine show machine.toml
  "$weft" machine check machine.toml | tail -n 1 || true # the model may be further off than it says
  figure "products in bf16" "$(in_units flops-bf16 1e12)" TFLOP/s
  figure "products in f32" "$(in_units flops-f32 1e12)" TFLOP/s
  figure "memory" "$(in_units memory-bandwidth 1e9)" GB/s
  figure "start of a task" "$(in_units task-overhead 1e-6)" us
}
# in_units KEY UNIT: prints a measured number of machine.toml.
in_units() {
  awk -v key="$1" -v unit="$2" '$1 == key && $2 == "=" { gsub(/,/, "", $6); print $6 / unit; exit }' machine.toml
}

run_tests() {
  local filter='-*NcclProcesses*' failed=0
  if $dry_run; then filter='CudaNccl.*'; fi
  "$gpu_test" --gtest_brief=1 --gtest_filter="$filter" 2>&1 | tee tests.txt || failed=$?
  figure "tests passed" "$(awk '/^\[  PASSED  \]/ { n += $4 } END { print n + 0 }' tests.txt)" tests
  if [[ "$failed" != 0 ]]; then
    echo "gpu_test failed:$(awk '/^\[  FAILED  \]/ && !seen[$4]++ { printf " %s", $4 }' tests.txt)"
    return 1
  fi
}

run_sanitizer() {
  local tool filter
  command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not here"
  filter=$(printf '%s:' CudaLayouts.TransposeMovesEveryBit CudaTasks.{BiasGradient,NormsOfParts,Rope,Dropout,Decode} \
    CudaRowMoves.GoToTheirPlaces)
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$gpu_test" --gtest_brief=1 --gtest_filter="$filter" 2>&1 |
      tee "$tool.txt"
    figure "errors of $tool" "$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p
      s/.*RACECHECK SUMMARY:.*(\([0-9]*\) error.*/\1/p' "$tool.txt" | tail -n 1)" errors
  done
}

run_doctor() {
  "$weft" doctor | tee doctor.txt
  grep -q 'device 0' doctor.txt || { echo "no usable GPU"; return 1; }
  if command -v nvidia-smi >/dev/null; then nvidia-smi -q -i 0; else echo "nvidia-smi is not here"; fi
}

# do_part PART
do_part() {
  case "$1" in
    doctor) run_doctor ;;
    test) run_tests ;;
    nccl) run_nccl ;;
    products) run_products ;;
    train-*)
      local layers hidden heads vocabulary tokens sequences first_steps timed_steps words
      tune "${1#train-}"
      train "${1#train-}" --gemm-tuning tuned.json ;;
    cold-*)
      local layers hidden heads vocabulary tokens sequences first_steps timed_steps words
      tune "${1#cold-}" --cold
      train "${1#cold-}" --gemm-tuning tuned.json
      against "train-${1#cold-}" ;;
    keys-*)
      local layers hidden heads vocabulary tokens sequences first_steps timed_steps words
      train_keys "${1#keys-}" ;;
    checkpoints)
      local layers hidden heads vocabulary tokens sequences first_steps timed_steps words
      run_checkpoints ;;
    pairs) run_pairs ;;
    torch-*) run_torch "${1#torch-}" ;;
    kernels) run_kernels ;;
    machine) run_machine ;;
    sanitize) run_sanitizer ;;
  esac
}
