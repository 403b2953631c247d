#include "train/run/tensorboard_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <span>
#include <system_error>

#include "base/buffer.h"
#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/input_file.h"
#include "inspect/formats/protobuf.h"

namespace weft::train {
namespace {

std::string little_endian(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8U * static_cast<unsigned>(i)));
  return bytes;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_file_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFault(in_quotes(folder) + " can't be made: " + error.message());
  for (int number = 0;; ++number) {
    std::filesystem::path path = folder / fmt::format("{}{:010d}.{}.{}.{}", kEventFileStart, static_cast<long>(now()),
                                                      host_name(), ::getpid(), number);
    if (!std::filesystem::exists(path)) return path;
  }
}

// TensorFlow masks checksums, since records may hold records.
std::string masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = Crc32c().add(std::as_bytes(std::span(bytes))).value();
  return little_endian(std::rotr(crc, 15) + 0xa282ead8U, 4);
}

/// Tag of TensorBoard, which shows those with one prefix together.
std::string tag_of(std::string_view metric) {
  if (metric == "val_loss") return "val/loss";
  for (const std::string_view name : {"loss", "grad_norm", "lr"}) {
    if (metric == name) return fmt::format("train/{}", name);
  }
  return fmt::format("speed/{}", metric);
}

}  // namespace

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return fmt::format("{}{}{}{}", length, masked_checksum(length), bytes, masked_checksum(bytes));
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, std::int64_t first_step)
    : file_(new_file_in(folder)) {
  file_.append(tfrecord(inspect::ProtoMessage().number(1, now()).text(3, "brain.Event:2").bytes()));
  constexpr std::uint64_t kStart = 1;  // of SessionLog.SessionStatus
  file_.append(tfrecord(inspect::ProtoMessage()
                            .number(1, now())
                            .varint(2, static_cast<std::uint64_t>(first_step))
                            .message(7, inspect::ProtoMessage().varint(1, kStart))
                            .bytes()));
}

void TensorBoardFile::write(const StepMetrics& metrics) {
  inspect::ProtoMessage summary;
  const auto add = [&](std::string_view tag, double value) {
    summary.message(1, inspect::ProtoMessage().text(1, tag).number(2, static_cast<float>(value)));
  };
  for (const Metric& metric : metrics_in_order(metrics)) {
    if (metric.present) add(tag_of(metric.name), metric.value);
  }
  add("memory/peak_bytes", static_cast<double>(metrics.peak_memory_bytes));
  add("data/tokens_seen", static_cast<double>(metrics.tokens_seen));
  file_.append(tfrecord(inspect::ProtoMessage()
                            .number(1, metrics.wall_time)
                            .varint(2, static_cast<std::uint64_t>(metrics.step))
                            .message(5, summary)
                            .bytes()));
}

}  // namespace weft::train
