#include "train/run/resumed_run.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "train/config/config_table.h"
#include "train/config/saved_model.h"
#include "train/step/step_data.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

/// A difference from the run before, by the key that accepts it.
struct RunChange {
  std::string key, text;
};

void compare_key(std::string_view key, const RunConfig& config, const std::optional<RunConfig>& before,
                 std::vector<RunChange>& changes) {
  if (!before) return;
  const ConfigKey& entry = find_key(key, "");
  if (entry.get(config) == entry.get(*before)) return;
  changes.push_back({entry.name, fmt::format("{} = {}, before {}", key, entry.get(config), entry.get(*before))});
}

std::string digests_text(std::uint64_t now, std::uint64_t before) {
  const auto text = [](std::uint64_t digest) { return digest == 0 ? "none" : hex_fingerprint(digest); };
  return fmt::format("{}, before {}", text(now), text(before));
}

std::vector<RunChange> changes_of(const RunConfig& config, const CheckpointInfo& info, const TokenSource& source) {
  const std::optional<RunConfig> before = stored_config(info);
  std::vector<RunChange> changes;
  if (before && before->seq_len > 0) compare_key("seq-len", config, before, changes);
  compare_key("packing", config, before, changes);
  if (!info.data) {
    compare_key("val-split", config, before, changes);
    return changes;
  }
  const DataMark &now = source.mark, &then = *info.data;
  if (now.digest != then.digest && source.grew) {
    changes.push_back({"data", fmt::format("the data grew at its end: {} files, the last of them before of {} tokens, "
                                           "begin as before",
                                           then.files, then.last_tokens)});
  } else if (now.digest != then.digest) {
    changes.push_back({"data", "the data changed: digest " + digests_text(now.digest, then.digest)});
  }
  if (now.val_digest != then.val_digest) {
    changes.push_back({"val-data", "held-out files: digest " + digests_text(now.val_digest, then.val_digest)});
  }
  if (now.digest != then.digest) {
    compare_key("val-split", config, before, changes);  // alone tells, where files differ
  } else if (now.val_digest == then.val_digest && now.split != then.split) {
    changes.push_back({"val-split", "other tokens of the same files are held out"});
  }
  return changes;
}

}  // namespace

std::vector<std::string> expect_same_run(const RunConfig& config, const CheckpointInfo& before, TokenSource& source) {
  if (!before.data) {
    source.notes.push_back(fmt::format(
        "the checkpoint of step {} has no digests of its data and tokenizer, so they aren't compared; the next one has",
        before.step));
  }
  std::vector<std::string> refused, accepts, warnings;
  for (const RunChange& change : changes_of(config, before, source)) {
    if (config.accepted.contains(change.key)) {
      warnings.push_back(fmt::format("{}: accepted; the run goes on at token {}", change.text, before.tokens_seen));
      continue;
    }
    refused.push_back(change.text);
    accepts.push_back("--accept " + change.key);
  }
  if (!refused.empty()) {
    throw UserError(
        join(refused, "; "), fmt::format("the run as it was until step {}", before.step),
        fmt::format("give it what it had; or {} to go on at the same token all the same", join(accepts, " ")));
  }
  const std::optional<RunConfig> stored = stored_config(before);
  if (stored && stored->global_batch != config.global_batch) {
    warnings.push_back(fmt::format("global-batch = {}, before {}: the run goes on at token {}", config.global_batch,
                                   stored->global_batch, before.tokens_seen));
  }
  return warnings;
}

void warn_of_jump(const RunConfig& config, const CheckpointInfo& before, const BatchPlan& plan, const Log& log) {
  std::optional<RunConfig> stored = stored_config(before);
  if (!stored || before.step == 0 || config.max_time > 0 || stored->max_time > 0) return;
  if (stored->epochs > 0) stored->steps = steps_of_epochs(*stored, plan);
  if (stored->steps == config.steps) return;
  const double was = learning_rate(*stored, before.step - 1), as_planned = learning_rate(*stored, before.step);
  const double now = learning_rate(config, before.step);
  constexpr double kJump = 0.01;  // of the peak
  if (std::abs(now - as_planned) <= kJump * config.lr) return;
  log.warning(
      "steps = {}, before {}: the learning rate jumps from {:.3g} to {:.3g} at step {}; --schedule constant with a "
      "lower --lr avoids it",
      config.steps, stored->steps, was, now, before.step);
}

}  // namespace weft::train
