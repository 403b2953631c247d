#include "runtime/policy/python/python_policy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "base/python_command.h"
#include "runtime/policy/library/policy_library.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/python/joined_problem.h"
#include "runtime/policy/python/policy_script.h"

namespace weft::policy {
namespace {

using nlohmann::json;

constexpr double kDefaultSeconds = 60, kLeastSeconds = 0.001, kMostSeconds = 86'400;
constexpr std::size_t kAlignment = 64;

/// Memory that this process and a child map, without a name in any folder. Owns the mapping and its descriptor, which a
/// child inherits.
class SharedMemory {
 public:
  /// Zeros. Throws RuntimeFault if the system has no memory for it.
  explicit SharedMemory(std::size_t bytes) : size_(std::max<std::size_t>(bytes, 1)) {
    descriptor_ = ::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void* mapped = MAP_FAILED;
    if (descriptor_ >= 0 && ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) {
      mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    }
    if (mapped == MAP_FAILED) {
      const int error = errno;
      if (descriptor_ >= 0) ::close(descriptor_);
      throw RuntimeFault(fmt::format("no shared memory of {} bytes for a policy: {}", size_, std::strerror(error)));
    }
    data_ = static_cast<std::byte*>(mapped);
    // A child that shrank the memory would end this process by SIGBUS.
    ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  }
  ~SharedMemory() {
    unmap();
    ::close(descriptor_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  /// Ends this process's mapping; from now on nobody can write to the memory.
  void seal() {
    unmap();
    ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_WRITE);
  }

 private:
  void unmap() noexcept {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = nullptr;
  }

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The columns in memory that a child reads, and the description by which it finds them.
struct PlacedColumns {
  std::unique_ptr<SharedMemory> memory;
  json description = json::array();
};

template <class Value>
std::string numpy_type() {
  if constexpr (std::is_same_v<Value, std::string>) return "text";
  const char* const kind = std::is_floating_point_v<Value> ? "f" : std::is_signed_v<Value> ? "i" : "u";
  return fmt::format("<{}{}", kind, sizeof(Value));
}

PlacedColumns place(const std::vector<Column>& columns) {
  PlacedColumns placed;
  std::string all;
  for (const Column& column : columns) {
    const std::size_t offset = all.size();
    std::visit(
        [&]<class Value>(const std::vector<Value>& values) {
          if constexpr (std::is_same_v<Value, std::string>) {
            for (const std::string& text : values) all.append(text.c_str(), text.size() + 1);
          } else {
            all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
          }
          placed.description.push_back({{"table", column.table},
                                        {"name", column.name},
                                        {"type", numpy_type<Value>()},
                                        {"count", values.size()},
                                        {"bytes", all.size() - offset},
                                        {"offset", offset}});
        },
        column.values);
    all.resize((all.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  placed.memory = std::make_unique<SharedMemory>(all.size());
  std::memcpy(placed.memory->bytes().data(), all.data(), all.size());
  placed.memory->seal();
  return placed;
}

/// The arrays that a child and Weft write in turn, one entry a task.
class Exchange {
 public:
  explicit Exchange(std::size_t tasks) : tasks_(tasks), memory_(tasks * (3 * kDoubleBytes + 3 * kIndexBytes)) {}

  int descriptor() const { return memory_.descriptor(); }
  std::span<double> begin_ns() const { return doubles(0); }
  std::span<double> end_ns() const { return doubles(1); }
  std::span<double> priorities() const { return doubles(2); }
  std::span<std::uint32_t> sequence() const { return indices(0); }
  std::span<std::uint32_t> streams() const { return indices(1); }
  std::span<std::uint32_t> reasons() const { return indices(2); }

  json description() const {
    json arrays = json::array();
    const auto add = [&](const char* name, const char* type, const void* at) {
      arrays.push_back({name, type, static_cast<const std::byte*>(at) - memory_.bytes().data()});
    };
    add("begin_ns", "<f8", begin_ns().data());
    add("end_ns", "<f8", end_ns().data());
    add("priorities", "<f8", priorities().data());
    add("sequence", "<u4", sequence().data());
    add("streams", "<u4", streams().data());
    add("reasons", "<u4", reasons().data());
    return arrays;
  }

 private:
  static constexpr std::size_t kDoubleBytes = sizeof(double), kIndexBytes = sizeof(std::uint32_t);

  std::span<double> doubles(std::size_t which) const {
    return {reinterpret_cast<double*>(memory_.bytes().data() + which * tasks_ * kDoubleBytes), tasks_};
  }
  std::span<std::uint32_t> indices(std::size_t which) const {
    std::byte* const after_doubles = memory_.bytes().data() + 3 * tasks_ * kDoubleBytes;
    return {reinterpret_cast<std::uint32_t*>(after_doubles + which * tasks_ * kIndexBytes), tasks_};
  }

  std::size_t tasks_;
  SharedMemory memory_;
};

/// The text that follows the file's name, taken apart.
struct PythonName {
  std::string function;
  std::map<std::string, std::string> parameters;
  double seconds = kDefaultSeconds;
};

PythonName parse_name(const std::string& path, std::string_view text) {
  PythonName name;
  name.function = text.substr(0, text.find(':'));
  if (name.function.empty()) {
    throw UserError(fmt::format("policy {} names no function of that file", path),
                    "a file and a function or class in it", fmt::format("--policy {}:NAME", path));
  }
  PolicyParameters parameters(path + ":" + name.function, text.substr(std::min(text.size(), name.function.size() + 1)));
  name.seconds = parameters.number("seconds", kDefaultSeconds, kLeastSeconds, kMostSeconds);
  name.parameters = parameters.others();
  return name;
}

/// One answer of a child: it is started, served and ended.
class Conversation {
 public:
  Conversation(const std::string& interpreter, const std::string& path, const PythonName& name, const char* function,
               const JoinedProblem& joined)
      : path_(path),
        name_(name),
        joined_(joined),
        exchange_(joined.tasks()),
        columns_(place(joined.columns())),
        child_(python_command(interpreter, kPolicyScript, {path, name.function, "@0", "@1", "@requests", "@answers"}),
               std::array{columns_.memory->descriptor(), exchange_.descriptor()},
               ChildProcess::Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(name.seconds * 1e3))) {
    json head = {{"tasks", joined.tasks()},
                 {"columns", std::move(columns_.description)},
                 {"exchange", exchange_.description()},
                 {"memory_limit", joined.memory_limit()},
                 {"shared_cores", joined.problem().shared_cores},
                 {"seed", joined.problem().seed},
                 {"function", function},
                 {"parameters", json::array()}};
    for (const auto& [key, value] : name.parameters) head["parameters"].push_back({key, value});
    tell(head);
  }

  /// Serves the child until it says that it is done. Its last message, when the child has ended.
  json result() {
    for (;;) {
      json message = next();
      if (message.contains("failed")) {
        child_.stop();
        refuse_library(path_, text_of(message, "failed"), "");
      }
      if (message.contains("done")) {
        child_.stop();  // so that nothing writes to the answer any more
        return message;
      }
      answer(message);
    }
  }

  const Exchange& exchange() const { return exchange_; }

  /// The edges of a message.
  std::vector<weft2_added_edge> edges_of(const json& message) const {
    std::vector<weft2_added_edge> edges;
    const auto found = message.find("edges");
    if (found == message.end()) return edges;
    for (const json& edge : *found) {
      constexpr std::size_t kNumbers = 4;
      std::array<std::uint64_t, kNumbers> numbers{};
      bool right = edge.is_array() && edge.size() == kNumbers;
      for (std::size_t i = 0; right && i < kNumbers; ++i) {
        right = edge[i].is_number_unsigned() && edge[i].get<std::uint64_t>() <= (i < 2 ? UINT32_MAX : UINT8_MAX);
        if (right) numbers.at(i) = edge[i].get<std::uint64_t>();
      }
      if (!right)
        refuse_library(path_, "its edge " + edge.dump() + " isn't one",
                       "(from, to) or (from, to, issued_before, distance)");
      edges.push_back({static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
                       static_cast<std::uint8_t>(numbers[2]), static_cast<std::uint8_t>(numbers[3])});
    }
    return edges;
  }

 private:
  void tell(const json& message) {
    if (child_.write_line(message.dump(-1, ' ', false, json::error_handler_t::replace))) return;
    refuse_end();
  }

  json next() {
    const std::optional<std::string> line = child_.read_line();
    if (!line) refuse_end();
    json message = json::parse(*line, nullptr, false);
    if (!message.is_object()) refuse_library(path_, "it writes to Weft's own pipe", "leave file descriptors alone");
    return message;
  }

  [[noreturn]] void refuse_end() {
    const ChildProcess::End end = child_.why();
    if (end == ChildProcess::End::late) {
      child_.stop();
      refuse_library(path_, fmt::format("{} has no answer after {:g} seconds", name_.function, name_.seconds),
                     fmt::format("make it faster, or give it more time: {}:{}:seconds={:g}", path_, name_.function,
                                 10 * name_.seconds));
    }
    if (end == ChildProcess::End::too_long) refuse_library(path_, "its answer takes more than 1 GiB", "a shorter one");
    const int code = child_.stop();
    refuse_library(path_,
                   code < 0 ? fmt::format("Python was ended by signal {} before the policy answered", -code)
                            : fmt::format("Python ended with exit code {} before the policy answered", code),
                   "see its messages above; policies need NumPy (Debian: python3-numpy; or pip install numpy)");
  }

  std::string text_of(const json& message, const char* key) const {
    const auto found = message.find(key);
    return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
  }

  void answer(const json& message) {
    const std::string asked = text_of(message, "ask");
    if (asked != "simulate" && asked != "schedule")
      refuse_library(path_, "it writes to Weft's own pipe", "leave file descriptors alone");
    const std::vector<weft2_added_edge> edges = edges_of(message);
    json reply = json::object();
    try {
      if (asked == "simulate") {
        const bool times = message.value("times", false), memory = message.value("memory", false);
        std::int64_t scratch = 0;
        reply["step_ns"] =
            joined_.simulate({.sequence = exchange_.sequence(), .streams = exchange_.streams(), .edges = edges},
                             times ? exchange_.begin_ns().data() : nullptr, times ? exchange_.end_ns().data() : nullptr,
                             memory ? &scratch : nullptr);
        if (memory) reply["scratch_bytes"] = scratch;
      } else {
        joined_.schedule(exchange_.priorities().data(), exchange_.sequence(), exchange_.streams());
      }
    } catch (const std::exception& exception) {
      reply = {{"error", exception.what()}};
    }
    tell(reply);
  }

  const std::string& path_;
  const PythonName& name_;
  const JoinedProblem& joined_;
  Exchange exchange_;
  PlacedColumns columns_;
  ChildProcess child_;
};

class PythonPolicy final : public Policy {
 public:
  PythonPolicy(std::string path, std::string_view text, std::string interpreter)
      : path_(std::move(path)), text_(text), interpreter_(std::move(interpreter)), name_(parse_name(path_, text)) {
    if (!std::filesystem::is_regular_file(path_)) {
      throw UserError(fmt::format("can't read the policy {}", path_), "a Python file", "check the path");
    }
  }

  std::string name() const override { return path_ + ":" + text_; }

  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override {
    const auto ask = [this](const weft2_problem* problem, const weft2_host* host) {
      return ask_rewrites_of(JoinedProblem(path_, *problem, *host));
    };
    const std::shared_ptr<const graph::Graph> one = graph::borrowed(graph);
    return LibraryCall(path_, text_, {&one, 1}, options).rewrites(ask);
  }

  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override {
    std::optional<JoinedProblem> joined;  // the orders point to its edges
    const auto ask = [&](const weft2_problem* problem, const weft2_host* host, weft2_order* orders) {
      joined.emplace(path_, *problem, *host);
      ask_order_of(*joined, orders);
      return 0;
    };
    return LibraryCall(path_, text_, classes, options).orders(ask);
  }

 private:
  std::int32_t ask_rewrites_of(const JoinedProblem& joined) const {
    const weft2_host& host = joined.host();
    Conversation conversation(interpreter_, path_, name_, "rewrites", joined);
    const json result = conversation.result();
    for (const json& text : result.value("rewrites", json::array())) {
      if (!text.is_string()) refuse_library(path_, "its rewrites aren't texts", "a list as [\"bucket\"]");
      if (host.add_rewrite(host.context, text.get<std::string>().c_str()) == 0) continue;
      refuse_library(path_, host.error(host.context), "");
    }
    return 0;
  }

  void ask_order_of(JoinedProblem& joined, weft2_order* orders) const {
    const weft2_host& host = joined.host();
    Conversation conversation(interpreter_, path_, name_, "order", joined);
    const json result = conversation.result();
    const Exchange& exchange = conversation.exchange();
    std::vector<std::uint32_t> numbers = {0}, reasons;
    for (const json& text : result.value("reasons", json::array())) {
      numbers.push_back(host.add_reason(host.context, text.get<std::string>().c_str(), 0));
    }
    if (numbers.size() > 1) {
      for (const std::uint32_t reason : exchange.reasons())
        reasons.push_back(reason < numbers.size() ? numbers[reason] : kUnsetEntry);
    }
    joined.divide({exchange.sequence(), exchange.streams(), reasons, conversation.edges_of(result)}, orders);
  }

  std::string path_, text_, interpreter_;
  PythonName name_;
};

}  // namespace

std::unique_ptr<Policy> python_policy(const std::string& path, std::string_view text, const std::string& interpreter) {
  return std::make_unique<PythonPolicy>(path, text, interpreter);
}

}  // namespace weft::policy
