#include "inspect/import/chakra_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/parse_number.h"
#include "base/utf8.h"
#include "inspect/formats/protobuf.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kLongestMessage = 64 << 20;  // bytes of a message
constexpr std::size_t kPiece = 1 << 16;
constexpr double kMostNanoseconds = 4e18;  // so that sums of two times fit into 63 bits

/// Hands out the messages of a file.
class MessageReader {
 public:
  MessageReader(ByteSource source, const std::string& name) : source_(std::move(source)), name_(name) {}

  /// None at the end of the file. The view holds until the next call.
  std::optional<std::string_view> next() {
    std::uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at_ == buffer_.size() && !fill()) {
        if (shift == 0) return std::nullopt;
        refuse("the file breaks off within a length");
      }
      const auto byte = static_cast<std::uint8_t>(buffer_[at_++]);
      length |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
      if (shift > 28) refuse("a length of more than 32 bits");
    }
    if (length > kLongestMessage) refuse(fmt::format("a message of {} bytes", length));
    while (buffer_.size() - at_ < length) {
      if (!fill()) refuse("the file breaks off within a message");
    }
    const std::string_view message = std::string_view(buffer_).substr(at_, length);
    at_ += length;
    return message;
  }

  [[noreturn]] void refuse(std::string_view found) const {
    throw UserError(fmt::format("'{}' byte {}: {}", name_, before_ + at_, found), "a Chakra execution trace",
                    "copy or make the file again");
  }

 private:
  bool fill() {
    buffer_.erase(0, at_);
    before_ += at_;
    at_ = 0;
    const std::size_t held = buffer_.size();
    buffer_.resize(held + kPiece);
    const std::size_t count = source_({buffer_.data() + held, kPiece});
    buffer_.resize(held + count);
    return count > 0;
  }

  ByteSource source_;
  const std::string& name_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t before_ = 0;
};

std::string text_of(std::string_view bytes) {
  return utf8_or_ascii(std::string(bytes));
}

double finite(double number) {
  return std::isfinite(number) && number >= 0 ? number : 0;
}

/// An attribute's value, whichever of the many fields it stands in.
struct AttributeValue {
  double number = 0;
  std::int64_t integer = 0;
  std::string_view text;
};

bool read_attribute(std::string_view message, ChakraNode& node) {
  std::string_view name;
  AttributeValue value;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == 1 && fields.is_bytes()) {
      name = fields.bytes();
    } else if (fields.number() == 29 && fields.is_bytes()) {
      value.text = fields.bytes();
    } else if (!fields.is_bytes() && fields.number() > 2) {
      const bool zigzag = fields.number() == 15 || fields.number() == 17;
      const std::uint64_t bits = fields.value();
      value.integer = static_cast<std::int64_t>(zigzag ? (bits >> 1) ^ (~(bits & 1) + 1) : bits);
      const bool floating = fields.number() == 3 || fields.number() == 5;
      value.number = floating ? fields.as_double() : static_cast<double>(value.integer);
    }
  }
  if (name == "is_cpu_op") node.on_host = value.integer != 0;
  if (name == "stream") node.stream = std::clamp<std::int64_t>(value.integer, -1, INT32_MAX);
  if (name == "num_ops") node.flops = finite(value.number);
  if (name == "tensor_size") node.bytes = finite(value.number);
  if (name == "comm_type") node.comm_type = value.integer;
  if (name == "comm_size") node.comm_bytes = finite(value.number);
  if (name == "comm_dst" && node.type == ChakraType::send) node.peer = value.integer;
  if (name == "comm_src" && node.type == ChakraType::receive) node.peer = value.integer;
  if (name == "pg_name") node.group = text_of(value.text);
  return fields.good();
}

ChakraType type_of(std::uint64_t number) {
  return number <= 7 ? static_cast<ChakraType>(number) : ChakraType::invalid;
}

bool read_node(std::string_view message, ChakraNode& node) {
  bool good = true;
  std::vector<std::string_view> attributes;  // they are told apart by the type, which may come later
  ProtoFields fields(message);
  while (good && fields.next()) {
    const bool bytes = fields.is_bytes();
    switch (fields.number()) {
      case 1:
        node.id = fields.value(), good = !bytes;
        break;
      case 2:
        node.name = text_of(fields.bytes()), good = bytes;
        break;
      case 3:
        node.type = type_of(fields.value()), good = !bytes;
        break;
      case 4:
        good = fields.add_to(node.ctrl_deps);
        break;
      case 5:
        good = fields.add_to(node.data_deps);
        break;
      case 6:
        node.begin_ns = 1e3 * static_cast<double>(fields.value()), good = !bytes;
        break;
      case 7:
        node.ns = 1e3 * static_cast<double>(fields.value()), good = !bytes;
        break;
      case 10:
        attributes.push_back(fields.bytes()), good = bytes;
        break;
      default:
        break;
    }
  }
  for (const std::string_view attribute : attributes) good = good && read_attribute(attribute, node);
  return good && fields.good();
}

/// A node of the oldest schema, whose files begin without metadata.
bool read_first_schema_node(std::string_view message, ChakraNode& node) {
  constexpr std::array<ChakraType, 7> kTypes = {ChakraType::invalid,     ChakraType::load, ChakraType::store,
                                                ChakraType::computation, ChakraType::send, ChakraType::receive,
                                                ChakraType::collective};
  constexpr std::array<std::int64_t, 5> kCollectives = {-1, 0, 6, 2, 7};  // in the numbers of the later schema
  bool good = true;
  std::int64_t source = -1, target = -1;
  ProtoFields fields(message);
  while (good && fields.next()) {
    const std::uint64_t value = fields.value();
    switch (fields.number()) {
      case 1:
        node.id = value, good = !fields.is_bytes();
        break;
      case 2:
        node.name = text_of(fields.bytes()), good = fields.is_bytes();
        break;
      case 3:
        node.type = value < kTypes.size() ? kTypes[value] : ChakraType::invalid;
        break;
      case 4:
        good = fields.add_to(node.data_deps);
        break;
      case 6:
        node.bytes = static_cast<double>(value);
        break;
      case 7:
        node.ns = 1e3 * static_cast<double>(value);
        break;
      case 12:
        node.flops = static_cast<double>(value);
        break;
      case 13:
        node.comm_type = value < kCollectives.size() ? kCollectives[value] : -1;
        break;
      case 15:
        node.group = std::to_string(value);
        break;
      case 16:
        source = static_cast<std::int64_t>(value);
        break;
      case 17:
        target = static_cast<std::int64_t>(value);
        break;
      case 18:
        node.comm_bytes = static_cast<double>(value);
        break;
      default:
        break;
    }
  }
  node.peer = node.type == ChakraType::send ? target : node.type == ChakraType::receive ? source : -1;
  return good && fields.good();
}

/// Whether a file's first message is the metadata of the later schemas, whose fields are texts and messages, and not a
/// node, which begins with its number.
bool is_metadata(std::string_view message) {
  ProtoFields fields(message);
  return !fields.next() || fields.is_bytes();
}

std::string schema_of(std::string_view metadata) {
  ProtoFields fields(metadata);
  const bool told = fields.next() && fields.number() == 1 && fields.is_bytes();
  // The schema before 0.0.4 has attributes in this place.
  const bool version = told && fields.bytes().size() < 16 &&
                       std::ranges::all_of(fields.bytes(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  return version ? std::string(fields.bytes()) : "";
}

std::int64_t rank_before_suffix(const std::string& path) {
  std::string file = std::filesystem::path(path).filename().string();
  for (const std::string_view suffix : {".gz", ".et", ".chakra"}) {
    if (file.ends_with(suffix)) file.resize(file.size() - suffix.size());
  }
  const std::size_t digits = file.find_last_not_of("0123456789") + 1;
  const auto rank = number_in<std::int64_t>(std::string_view(file).substr(digits));
  return rank && *rank <= 1 << 24 ? *rank : -1;
}

/// Zeros aren't written: where some nodes have times, the others begin at 0 or take none.
void fill_in_zeros(std::vector<ChakraNode>& nodes) {
  const bool begins = std::ranges::any_of(nodes, [](const ChakraNode& node) { return node.begin_ns >= 0; });
  const bool lengths = std::ranges::any_of(nodes, [](const ChakraNode& node) { return node.ns >= 0; });
  for (ChakraNode& node : nodes) {
    if (begins) node.begin_ns = std::max(node.begin_ns, 0.0);
    if (lengths) node.ns = std::max(node.ns, 0.0);
  }
}

}  // namespace

std::string_view chakra_collective(std::int64_t type) {
  constexpr std::array<std::string_view, 10> kNames = {"all_reduce",     "reduce",    "all_gather", "gather",
                                                       "scatter",        "broadcast", "all_to_all", "reduce_scatter",
                                                       "reduce_scatter", "barrier"};
  return type >= 0 && type < static_cast<std::int64_t>(kNames.size()) ? kNames[static_cast<std::size_t>(type)]
                                                                      : "collective";
}

ChakraFile parse_chakra(ByteSource source, const std::string& name) {
  ChakraFile out;
  out.name = name;
  out.rank = rank_before_suffix(name);
  MessageReader messages(std::move(source), name);
  std::optional<std::string_view> message = messages.next();
  if (!message) messages.refuse("the file is empty");
  const bool first_schema = !is_metadata(*message);
  if (!first_schema) {
    out.schema = schema_of(*message);
    message = messages.next();
  }
  for (; message; message = messages.next()) {
    ChakraNode node;
    const bool good = first_schema ? read_first_schema_node(*message, node) : read_node(*message, node);
    if (!good) messages.refuse(fmt::format("node {} of the file is no message of the schema", out.nodes.size()));
    if (std::max(node.begin_ns, node.ns) > kMostNanoseconds) {
      messages.refuse(fmt::format("node {} of the file has a time above 4e15 microseconds", out.nodes.size()));
    }
    out.nodes.push_back(std::move(node));
  }
  fill_in_zeros(out.nodes);
  return out;
}

}  // namespace weft::inspect
