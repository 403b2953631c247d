#include "runtime/plan/order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace weft::plan {
namespace {

constexpr std::uint32_t kMagic = 0x34464557;  // "WEF4" in memory: the format's version is its last digit

class Writer {
 public:
  template <class T>
  void put(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void put_size(std::size_t size) { put(static_cast<std::uint32_t>(size)); }
  void put_text(std::string_view text) {
    put_size(text.size());
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    require(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  /// A count of items of at least `item_bytes` each. A count that the remaining bytes can't hold is refused before
  /// anything is allocated.
  std::size_t get_count(std::size_t item_bytes) {
    const std::size_t count = get<std::uint32_t>();
    if (count > (bytes_.size() - at_) / item_bytes) fail("it is cut short");
    return count;
  }
  std::string get_text() {
    const std::size_t size = get_count(1);
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }
  /// An index into `size` items.
  std::uint32_t get_index(std::size_t size, const char* what) {
    const auto index = get<std::uint32_t>();
    if (index >= size) {
      fail("it names " + std::string(what) + " " + std::to_string(index) + " of " + std::to_string(size));
    }
    return index;
  }
  template <class Enum>
  Enum get_enum(Enum last, const char* what) {
    const auto value = get<std::uint8_t>();
    if (value > static_cast<std::uint8_t>(last)) fail("unknown " + std::string(what));
    return static_cast<Enum>(value);
  }
  void finish() const {
    if (at_ != bytes_.size()) fail("bytes are left over");
  }
  double get_ns() {
    const auto ns = get<double>();
    if (!std::isfinite(ns) || ns < 0) fail("a time is negative or not finite");
    return ns;
  }
  [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error("malformed order: " + why); }

 private:
  void require(std::size_t size) const {
    if (bytes_.size() - at_ < size) fail("it is cut short");
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

constexpr std::size_t kLeastReason = 8;  // bytes

// The name of the table, "" for a text. Only data that the reason's text has take bytes.
void put_reason(Writer& out, const Reason& reason) {
  out.put_text(reason.table == nullptr ? std::string_view() : reason.table->name);
  if (reason.table == nullptr) {
    out.put_text(reason.text);
  } else {
    out.put(reason.code);
    const ReasonData data = data_of(reason);
    for (std::size_t i = 0; i < data.numbers; ++i) out.put(reason.numbers[i]);
    for (std::size_t i = 0; i < data.ns; ++i) out.put(reason.ns[i]);
  }
  out.put(static_cast<std::uint8_t>(reason.selection.has_value()));
  if (!reason.selection) return;
  out.put_text(reason.selection->order);
  out.put(reason.selection->orders);
  out.put(reason.selection->memory_limit);
  out.put(static_cast<std::uint8_t>(reason.selection->keeps_limit));
  out.put(reason.selection->makespan_ns);
  out.put_text(reason.selection->rewrites);
}

Reason get_coded(Reader& in, const std::string& name, ReasonTables tables) {
  const auto table = std::ranges::find(tables, name, &ReasonTable::name);
  if (table == tables.end()) Reader::fail("unknown table of reasons");
  Reason reason{.table = *table, .code = in.get<std::uint16_t>()};
  if (reason.code >= reason.table->texts.size()) Reader::fail("unknown code of a reason");
  const ReasonData data = data_of(reason);
  for (std::size_t i = 0; i < data.numbers; ++i) reason.numbers[i] = in.get<std::uint64_t>();
  for (std::size_t i = 0; i < data.ns; ++i) reason.ns[i] = in.get_ns();
  if (!data_of(reason).has_words) Reader::fail("unknown word of a reason");
  return reason;
}

Reason get_reason(Reader& in, ReasonTables tables) {
  const std::string table = in.get_text();
  Reason reason = table.empty() ? Reason{.text = in.get_text()} : get_coded(in, table, tables);
  if (in.get_enum(std::uint8_t{1}, "mark of a selection") == 0) return reason;
  Selection& selection = reason.selection.emplace();
  selection.order = in.get_text();
  selection.orders = in.get<std::uint64_t>();
  selection.memory_limit = in.get<std::uint64_t>();
  selection.keeps_limit = in.get_enum(std::uint8_t{1}, "mark of a kept limit") != 0;
  selection.makespan_ns = in.get_ns();
  selection.rewrites = in.get_text();
  return reason;
}

}  // namespace

std::vector<std::byte> encode(const Order& order) {
  Writer out;
  out.put(kMagic);
  out.put_size(order.streams.size());
  for (const Stream& stream : order.streams) {
    out.put_text(stream.name);
    out.put(static_cast<std::uint8_t>(stream.compute));
    out.put(static_cast<std::uint8_t>(stream.channel));
  }
  out.put_size(order.reasons.size());
  for (const Reason& reason : order.reasons) put_reason(out, reason);
  out.put_size(order.sequence.size());
  for (const Placement& placement : order.sequence) {
    out.put(placement.task.value);
    out.put(placement.stream.value);
    out.put(placement.reason);
  }
  out.put_size(order.added_edges.size());
  for (const graph::Edge& edge : order.added_edges) {
    out.put(edge.from.value);
    out.put(edge.to.value);
    out.put(static_cast<std::uint8_t>(edge.kind));
    out.put(static_cast<std::uint8_t>(edge.reason));
    out.put(edge.distance);
    out.put(edge.tensor.value);
  }
  return std::move(out).take();
}

Order decode_order(std::span<const std::byte> bytes, const graph::Graph& graph, ReasonTables tables) {
  Reader in(bytes);
  if (in.get<std::uint32_t>() != kMagic) Reader::fail("the bytes aren't an order of this version");
  Order order;
  order.streams.resize(in.get_count(6));
  for (Stream& stream : order.streams) {
    stream.name = in.get_text();
    stream.compute = in.get_enum(std::uint8_t{1}, "kind of stream") != 0;
    stream.channel = in.get_enum(graph::Channel::receive_next, "channel");
  }
  for (std::size_t left = in.get_count(kLeastReason); left > 0; --left) order.reasons.push_back(get_reason(in, tables));
  order.sequence.resize(in.get_count(12));
  for (Placement& placement : order.sequence) {
    placement.task = graph::TaskId(std::size_t{in.get_index(graph.tasks().size(), "task")});
    placement.stream = StreamId(std::size_t{in.get_index(order.streams.size(), "stream")});
    placement.reason = in.get_index(order.reasons.size(), "reason");
  }
  order.added_edges.resize(in.get_count(15));
  for (graph::Edge& edge : order.added_edges) {
    edge.from = graph::TaskId(std::size_t{in.get_index(graph.tasks().size(), "task")});
    edge.to = graph::TaskId(std::size_t{in.get_index(graph.tasks().size(), "task")});
    edge.kind = in.get_enum(graph::EdgeKind::issued_before, "kind of edge");
    edge.reason = in.get_enum(graph::EdgeReason::policy, "reason of an edge");
    edge.distance = in.get_enum(std::uint8_t{1}, "distance of an edge");
    edge.tensor.value = in.get<std::uint32_t>();
    if (edge.tensor.valid() && edge.tensor.index() >= graph.tensors().size()) Reader::fail("it names no tensor");
  }
  in.finish();
  return order;
}

}  // namespace weft::plan
