#include "study/memorisation/question_model.h"

#include <optional>
#include <utility>

#include "ops/lower.h"
#include "ops/sharding.h"
#include "runtime/execute/program/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/resolved_run.h"
#include "train/data/token_source.h"
#include "train/evaluation.h"
#include "train/generator.h"
#include "train/sampler.h"
#include "train/step/step_config.h"
#include "train/step/training_state.h"

namespace weft::study {
namespace {

double loss_on(execute::Program& program, const train::RunConfig& config, const std::filesystem::path& file) {
  const train::TokenSource source = train::TokenSource::open({.data = {file.string()},
                                                              .val_data = {file.string()},
                                                              .vocab = config.model.vocab,
                                                              .seq_len = config.seq_len,
                                                              .held_out_only = true,
                                                              .documents = true});
  const train::EvalBatches batches = train::eval_batches(config, source.held_out(), train::share_of(config, {}));
  return train::evaluate(program, batches).loss;
}

}  // namespace

std::vector<BucketResult> question_model(comm::World& world, const train::RunConfig& training,
                                         std::span<const QuestionBucket> buckets, std::int64_t tail) {
  train::RunConfig config = training;
  config.grid = {};
  config.ranks = 1;
  config.global_batch = config.micro_batch = 1;
  const std::int64_t prompt = config.seq_len - tail;
  std::vector<execute::ProgramGraph> graphs = train::generation_graphs(config.model, config.dtype, prompt);
  graphs.push_back({"eval", ops::lower_eval(config.model, train::step_config(config))});
  execute::Program program(world, std::move(graphs), {.threads = static_cast<int>(config.threads)});
  const std::vector<ops::ParameterSpec> specs = ops::model_parameters(config.model);
  const auto shards = ops::shard_parameters(config.model, specs, {}, {});
  const std::filesystem::path checkpoint = *train::latest_checkpoint(config.run_dir);
  train::load_parameters(checkpoint, config.model, train::weights_of(program.state(), shards, config.dtype));
  train::set_coordinates(program.state(), {}, {});

  train::Generator generator(program, config.model, prompt);
  train::Sampler greedy({.temperature = 0});
  std::vector<BucketResult> results;
  for (const QuestionBucket& bucket : buckets) {
    BucketResult& result = results.emplace_back();
    result.seen = bucket.seen;
    result.loss = loss_on(program, config, bucket.file);
    for (const DocumentIds& document : bucket.documents) {
      const std::span<const std::int32_t> ids(document);
      std::vector<std::int32_t> written;
      generator.generate(ids.first(static_cast<std::size_t>(prompt)), tail, greedy, [&](std::int32_t token) {
        written.push_back(token);
        return true;
      });
      result.documents.push_back(recall_of(ids.last(static_cast<std::size_t>(tail)), written));
    }
  }
  return results;
}

}  // namespace weft::study
