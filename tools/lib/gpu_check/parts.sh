# shellcheck shell=bash disable=SC2034,SC2154
# The parts of tools/gpu-check in their order. A part's function runs in the part's own folder, in a process group of its
# own. It calls figure for each measurement, and skip if the machine lacks something that the part needs.

readonly parts=(doctor test pipeline train-124m train-124m-gelu train-774m train-774m-gelu torch-124m torch-774m kernels machine
  train-1558m train-1558m-gelu replay-124m streams-124m ahead-124m dropout-124m sanitize-memcheck sanitize-racecheck)

# about PART: its purpose. usual_seconds PART: its duration on an H200; of train-1558m a guess.
about() {
  case "$1" in
    doctor) echo "the machine and its software" ;;
    pipeline) echo "two stages on one GPU, by several schedules and communicators: the bits of one stage" ;;
    test) echo "every kernel against the CPU's, training on grids, replayed graphs" ;;
    train-*-gelu) echo "the same with GELU within products (--fuse-gelu on), tuned with that flag" ;;
    train-*) echo "training steps, products tuned, one step traced" ;;
    torch-*) echo "PyTorch's training step (torch.compile), of the same sizes" ;;
    kernels) echo "every kernel beside a copy, products and attention" ;;
    machine) echo "the GPU's machine file, by weft machine measure" ;;
    replay-*) echo "steps replayed as one CUDA graph" ;;
    streams-*) echo "steps on two compute streams (policy lhs)" ;;
    ahead-*) echo "steps each awaited before the next is enqueued, to show the gain of running ahead" ;;
    dropout-*) echo "steps with dropout 0.1" ;;
    sanitize-*) echo "compute-sanitizer's ${1#sanitize-} over small kernel tests" ;;
  esac
}
usual_seconds() {
  if $dry_run; then
    case "$1" in
      test | pipeline) echo 15 ;;
      *) echo 3 ;;
    esac
    return
  fi
  case "$1" in
    doctor | sanitize-*) echo 10 ;;
    train-124m* | kernels) echo 25 ;;
    machine | pipeline) echo 30 ;;
    test) echo 45 ;;
    torch-124m) echo 55 ;;
    train-774m*) echo 75 ;;
    train-* | torch-*) echo 120 ;;
    *) echo 15 ;;
  esac
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

# shape SIZE: layers, hidden, heads, vocabulary, tokens a sequence, sequences a step.
shape() {
  if $dry_run; then
    case "$1" in
      124m) echo 1 32 2 512 32 2 ;;
      774m) echo 2 32 2 512 32 2 ;;
      *) echo 3 32 2 512 32 1 ;;
    esac
    return
  fi
  case "$1" in
    124m) echo 12 768 12 50304 1024 32 ;;
    774m) echo 36 1280 20 50304 1024 32 ;;
    1558m) echo 48 1600 25 50304 1024 8 ;;
  esac
}
# The first steps aren't measured: they load kernels.
if $dry_run; then readonly first_steps=1 timed_steps=3 tune_rounds=1; else readonly first_steps=5 timed_steps=20 tune_rounds=7; fi

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

# model_words SIZE: sets words, the flags of weft that describe the step.
model_words() {
  local layers hidden heads vocabulary tokens sequences
  read -r layers hidden heads vocabulary tokens sequences <<<"$(shape "$1")"
  words=(--model custom --model.family=gpt2 "--model.layers=$layers" "--model.hidden=$hidden" "--model.heads=$heads"
    "--model.kv-heads=$heads" "--model.ffn=$((4 * hidden))" "--model.vocab=$vocabulary" "--model.context=$tokens"
    --dtype bf16 --device cuda --global-batch "$sequences" --micro-batch "$sequences" --seq-len "$tokens")
}

# tune TABLE SIZE FLAG...: tunes the products of a step and writes the table.
tune() {
  local table=$1 size=$2
  shift 2
  model_words "$size"
  "$weft" tune "${words[@]}" "$@" --rounds "$tune_rounds" --json -o "$table.new" >tuned.txt
  mv "$table.new" "$table"
  # Every product with how often a step computes it.
  local usual tuned
  read -r usual tuned <<<"$(tr '{' '\n' <tuned.txt | awk '
    function number(key) {
      return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : 0
    }
    /"chosen_ms"/ { usual += number("default_ms") * number("tasks"); tuned += number("chosen_ms") * number("tasks") }
    END { print usual + 0, tuned + 0 }')"
  figure "products by default" "$usual" ms
  figure "products tuned" "$tuned" ms
}

# train SIZE FLAG...: times training steps alone: no checkpoints, no sample.
train() {
  local size=$1 tokens="$out/tokens-$1.bin"
  shift
  model_words "$size"
  if [[ ! -f "$tokens" ]]; then
    local vocabulary count=400000
    vocabulary=$(shape "$size" | cut -d' ' -f4)
    if $dry_run; then count=4000; fi
    write_tokens "$tokens.new" "$vocabulary" "$count"
    mv "$tokens.new" "$tokens"
  fi
  rm -rf run
  "$weft" train "${words[@]}" --data "$tokens" --save=false --steps $((first_steps + timed_steps)) --warmup 0 --clip 0 \
    --eval-sequences 1 --trace-steps 1 --trace-every "$timed_steps" --quiet --run-dir run "$@"
  "$weft" trace summary run >trace.txt
  step_figures "$(shape "$size" | awk '{print $5 * $6}')" <run/metrics.jsonl
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
# against PART: the ratio of this part's step to the step of PART.
against() {
  local own other
  own=$(value_of "$part" step) other=$(value_of "$1" step)
  if [[ -n "$own" && -n "$other" ]]; then figure "step over $1's" "$(awk "BEGIN { print $own / $other }")" times; fi
}

# of_124m FLAG...: runs the steps of train-124m in another way, with its table of tuned products.
of_124m() {
  local table="$out/train-124m/tuned.json"
  [[ -f "$table" ]] || skip "it uses the tuned products of train-124m, which is not done"
  train 124m --gemm-tuning "$table" "$@"
  against train-124m
}
# The steps are the same in another order, so no bit of the loss may differ.
expect_loss_of_124m() {
  local own other
  own=$(value_of "$part" "last loss") other=$(value_of train-124m "last loss")
  [[ "$own" == "$other" ]] || { echo "the last loss is $own, and $other in train-124m: not the same bits"; return 1; }
}

# against_throughput PART: the ratio of throughputs, for steps that may have another size.
against_throughput() {
  local own other
  own=$(value_of "$part" throughput) other=$(value_of "$1" throughput)
  if [[ -n "$other" ]]; then figure "throughput over $1's" "$(awk "BEGIN { print $own / $other }")" times; fi
}

# Repeats the measurement with half of the sequences if all of them don't fit the memory.
run_torch() {
  local layers hidden heads vocabulary tokens sequences all median
  command -v python3 >/dev/null || skip "python3 is not here"
  python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>probe.txt ||
    skip "PyTorch with a GPU is not here: $(tail -n 1 probe.txt | grep . || echo 'it sees no GPU')"
  read -r layers hidden heads vocabulary tokens all <<<"$(shape "$1")"
  for sequences in "$all" $((all / 2)); do
    if python3 "$root/bench/peers/pytorch_gpu_step.py" --layers "$layers" --hidden "$hidden" --heads "$heads" \
      --vocab "$vocabulary" --context "$tokens" --seq "$tokens" --batch "$sequences" --steps "$timed_steps" \
      >torch.json 2>torch.errors; then break; fi
    cat torch.errors
    grep 'out of memory' torch.errors >/dev/null || return 1
    echo "out of memory with $sequences sequences"
    [[ "$sequences" == "$all" ]] || return 1
  done
  cat torch.json
  median=$(tail -n 1 torch.json | sed -n 's/.*"step_ms": *\[\([^]]*\)\].*/\1/p' | tr ',' '\n' | grep . | sort -g |
    awk '{ ms[NR] = $1 } END { print NR % 2 ? ms[(NR + 1) / 2] : (ms[NR / 2] + ms[NR / 2 + 1]) / 2 }')
  figure "sequences" "$sequences" "a step"
  figure "step" "$median" ms
  figure "throughput" "$(awk "BEGIN { print 1e3 * $tokens * $sequences / $median }")" tokens/s
  against_throughput "train-$1"
  against_throughput "train-$1-gelu"
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
  local filter='*' failed=0
  if $dry_run; then filter='CudaNccl.*'; fi
  "$gpu_test" --gtest_brief=1 --gtest_filter="$filter" 2>&1 | tee tests.txt || failed=$?
  figure "tests passed" "$(awk '/^\[  PASSED  \]/ { n += $4 } END { print n + 0 }' tests.txt)" tests
  if [[ "$failed" != 0 ]]; then
    echo "gpu_test failed:$(awk '/^\[  FAILED  \]/ && !seen[$4]++ { printf " %s", $4 }' tests.txt)"
    return 1
  fi
}

# pipeline_steps NAME FLAG...: trains a model whose embedding isn't tied, so that stages change no bit. Writes NAME.txt, a
# line of loss and gradient norm for each step.
pipeline_steps() {
  local name=$1 hidden=512 vocabulary=8192 tokens=256 steps=8
  shift
  if $dry_run; then hidden=32 vocabulary=64 tokens=16 steps=3; fi
  if [[ ! -f tokens.bin ]]; then write_tokens tokens.bin "$vocabulary" $((steps * 8 * tokens + 4 * tokens + 64)); fi
  rm -rf "$name"
  "$weft" train --model custom --model.family=llama --model.tied=false --model.layers=4 "--model.hidden=$hidden" \
    --model.heads=4 --model.kv-heads=2 "--model.ffn=$((2 * hidden))" "--model.vocab=$vocabulary" "--model.context=$tokens" \
    --dtype bf16 --device cuda --data tokens.bin --global-batch 8 --micro-batch 1 --seq-len "$tokens" --dropout 0.1 \
    --clip 0.5 --steps "$steps" --warmup 2 --eval-sequences 2 --save=false --trace-steps 1 --watchdog 60 --quiet \
    --run-dir "$name" "$@"
  sed -E 's/.*"loss":([^,]+).*"grad_norm":([^,]+).*/\1 \2/' "$name/metrics.jsonl" >"$name.txt"
  [[ "$(wc -l <"$name.txt")" == "$steps" ]] || { echo "$name: the metrics have other than $steps steps"; return 1; }
}

# Two ranks of one process share the GPU, by copies on the device or through the host.
run_pipeline() {
  local policy communicator name same=0 differ=""
  pipeline_steps one-stage --grid data=1
  for policy in 1f1b zb-h1 zb-v; do
    for communicator in local staged replayed; do
      name="$policy-$communicator"
      case "$communicator" in
        replayed) pipeline_steps "$name" --grid pipe=2 --policy "$policy" --communicator local --cuda-graph=true ;;
        *) pipeline_steps "$name" --grid pipe=2 --policy "$policy" --communicator "$communicator" ;;
      esac
      if cmp -s one-stage.txt "$name.txt"; then same=$((same + 1)); else differ+=" $name"; fi
    done
  done
  figure "same bits" "$same" runs
  [[ -z "$differ" ]] || { echo "other bits than one stage:$differ"; return 1; }
}

run_sanitizer() {
  command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not here"
  compute-sanitizer --tool "$1" --error-exitcode 9 "$gpu_test" --gtest_brief=1 --gtest_filter="$(printf '%s:' \
    CudaLayouts.TransposeMovesEveryBit CudaTasks.{BiasGradient,NormsOfParts,Rope,Dropout,Decode})" 2>&1 | tee sanitizer.txt
  figure "errors" "$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/.*RACECHECK SUMMARY:.*(\([0-9]*\) error.*/\1/p' \
    sanitizer.txt | tail -n 1)" errors
}

run_doctor() {
  "$weft" doctor | tee doctor.txt
  grep -q 'device 0' doctor.txt || { echo "no usable GPU"; return 1; }
  if command -v nvidia-smi >/dev/null; then nvidia-smi -q -i 0; else echo "nvidia-smi is not here"; fi
}

# do_part PART
do_part() {
  local size
  case "$1" in
    doctor) run_doctor ;;
    test) run_tests ;;
    pipeline) run_pipeline ;;
    train-*)
      size=${1#train-}
      local gelu=off
      if [[ "$size" == *-gelu ]]; then gelu=on; fi
      size=${size%-gelu}
      tune "$out/$1/tuned.json" "$size" --fuse-gelu "$gelu"
      train "$size" --fuse-gelu "$gelu" --gemm-tuning "$out/$1/tuned.json"
      if [[ "$gelu" == on ]]; then against "train-$size"; fi ;;
    torch-*) run_torch "${1#torch-}" ;;
    kernels) run_kernels ;;
    machine) run_machine ;;
    replay-124m)
      of_124m --cuda-graph=true
      expect_loss_of_124m ;;
    streams-124m)
      of_124m --streams 2 --policy lhs
      expect_loss_of_124m ;;
    ahead-124m)
      # The loop awaits a step that an evaluation follows.
      of_124m --eval-every 1
      expect_loss_of_124m ;;
    dropout-124m) of_124m --dropout 0.1 ;;
    sanitize-*) run_sanitizer "${1#sanitize-}" ;;
  esac
}
