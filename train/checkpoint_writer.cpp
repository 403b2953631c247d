#include "train/checkpoint_writer.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "train/durable_folder.h"

namespace weft {
namespace {

/// Calls visit(array, bytes) for each array of a parameter; arrays are pointers, to be replaced.
template <class Visit>
void for_each_array(ParameterState& parameter, Visit visit) {
  const auto elements = static_cast<std::size_t>(parameter.spec->rows * parameter.spec->cols);
  visit(parameter.data, elements * size_of(parameter.dtype));
  for (const float** array : {&parameter.m, &parameter.v, &parameter.master}) {
    if (*array != nullptr) visit(*array, elements * sizeof(float));
  }
}

// Arrays begin at cache lines.
std::size_t padded(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

std::int64_t snapshot_bytes(std::span<const ParameterState> parameters) {
  std::size_t total = 0;
  for (ParameterState parameter : parameters) {
    for_each_array(parameter, [&](const auto*, std::size_t bytes) { total += padded(bytes); });
  }
  return static_cast<std::int64_t>(total);
}

CheckpointWriter::CheckpointWriter(std::filesystem::path run_dir, const Retention& retention)
    : run_dir_(std::move(run_dir)), retention_(retention) {
  remove_leftovers(checkpoints_of(run_dir_));
}

void CheckpointWriter::copy(std::span<const ParameterState> parameters) {
  const std::int64_t bytes = snapshot_bytes(parameters);
  if (memory_.size() < bytes) memory_ = Buffer(bytes);
  snapshot_.assign(parameters.begin(), parameters.end());
  std::byte* at = memory_.data();
  for (ParameterState& parameter : snapshot_) {
    for_each_array(parameter, [&](const auto*& array, std::size_t size) {
      std::memcpy(at, array, size);
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
      at += padded(size);
    });
  }
}

void CheckpointWriter::save(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  finish();
  copy(parameters);
  writing_ =
      std::async(std::launch::async, [this, info] { return save_checkpoint(run_dir_, info, snapshot_, retention_); });
}

void CheckpointWriter::save_now(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  finish();
  completed_ = save_checkpoint(run_dir_, info, parameters, retention_);
}

std::optional<std::filesystem::path> CheckpointWriter::written() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
  return std::exchange(completed_, std::nullopt);
}

void CheckpointWriter::finish() {
  if (writing_.valid()) completed_ = writing_.get();
}

}  // namespace weft
