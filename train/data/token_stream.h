// A long sequence of token ids in text or token files, read on demand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/files/input_file.h"
#include "text/tokenizer.h"

namespace weft::train {

/// The encoding of ids in a file.
enum class TokenEncoding : std::uint8_t { bytes, u16, u32 };

constexpr std::uint64_t bytes_per_token(TokenEncoding encoding) {
  return std::uint64_t{1} << static_cast<unsigned>(encoding);
}

/// A sequence of tokens made of parts of files, which needs no memory for their content. Any number of threads may read
/// it.
class TokenStream {
 public:
  /// `count` ids from byte `offset` on; `end_of_text`: one more token, 256, follows them.
  struct Part {
    std::shared_ptr<const InputFile> file;
    TokenEncoding encoding = TokenEncoding::bytes;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    bool end_of_text = false;
    std::vector<std::uint64_t> document_begins = {};  // ids of the part that begin a document, in order, if known
  };

  TokenStream() = default;
  /// All ids are below `vocab`, or a file was changed since its ids were checked.
  explicit TokenStream(std::uint32_t vocab) : vocab_(vocab) {}

  /// `ignored`: the part's tokens that aren't learnt, as targets; ranges in order, of its `count` ids.
  void append(Part part, std::span<const text::IdRange> ignored = {});
  std::uint64_t size() const { return size_; }
  /// Whether the parts told where documents begin.
  bool has_documents() const { return !document_begins_.empty(); }
  /// The index of each document's first token, if known.
  std::span<const std::uint64_t> document_begins() const { return document_begins_; }
  std::int32_t at(std::uint64_t index) const;
  /// Writes tokens [begin, begin + count) to `out`. Allocates nothing. Throws std::out_of_range beyond the end, and
  /// RuntimeFault, naming the file, if it was truncated or holds an id outside of the vocabulary by now.
  void copy(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const;
  /// For each token of [begin, begin + out.size()), writes the distance from `begin` to the first token of its
  /// document; 0 for a document that begins before them. Only if has_documents().
  void document_starts(std::uint64_t begin, std::span<std::int32_t> out) const;

  /// Calls visit(begin, end) for each range of tokens within [begin, end) that aren't learnt.
  template <class Visit>
  void for_each_ignored(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    auto range = std::ranges::upper_bound(ignored_, begin, {}, &text::IdRange::end);
    for (; range != ignored_.end() && range->begin < end; ++range) {
      visit(std::max(range->begin, begin), std::min(range->end, end));
    }
  }
  /// Writes −1 for each of the targets, tokens [begin, …), that isn't learnt.
  void drop_ignored(std::uint64_t begin, std::span<std::int32_t> targets) const;
  /// Number of tokens in [begin, end) that are learnt.
  std::uint64_t learnt(std::uint64_t begin, std::uint64_t end) const;

 private:
  std::vector<Part> parts_;
  std::vector<std::uint64_t> begins_;           // index of each part's first token
  std::vector<std::uint64_t> document_begins_;  // index of each document's first token, if known
  std::vector<text::IdRange> ignored_;
  std::uint64_t size_ = 0;
  std::uint32_t vocab_ = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace weft::train
