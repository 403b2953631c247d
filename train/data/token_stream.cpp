#include "train/data/token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "text/tokenizer.h"

namespace weft::train {
namespace {

/// Widens the words at the end of `out` to ids from its beginning on: each is read before its bytes are written.
template <class Word>
void widen(std::span<std::int32_t> out, const std::byte* words) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Word word;
    std::memcpy(&word, words + i * sizeof(Word), sizeof(Word));
    const auto id = static_cast<std::int32_t>(word);
    std::memcpy(out.data() + i, &id, sizeof id);
  }
}

void read_ids(const TokenStream::Part& part, std::uint64_t begin, std::span<std::int32_t> out) {
  const std::uint64_t width = bytes_per_token(part.encoding);
  const std::span<std::byte> words = std::as_writable_bytes(out).last(out.size() * width);
  part.file->read(part.offset + begin * width, words);
  if (part.encoding == TokenEncoding::bytes) widen<std::uint8_t>(out, words.data());
  if (part.encoding == TokenEncoding::u16) widen<std::uint16_t>(out, words.data());
}

void expect_below(std::uint32_t vocab, std::span<const std::int32_t> ids, const InputFile& file) {
  const auto outside =
      std::ranges::find_if(ids, [&](std::int32_t id) { return static_cast<std::uint32_t>(id) >= vocab; });
  if (outside == ids.end()) return;
  throw RuntimeFault(fmt::format("{} was changed while it was in use: it holds the id {}, and had ids below {} alone",
                                 in_quotes(file.path()), static_cast<std::uint32_t>(*outside), vocab));
}

}  // namespace

void TokenStream::append(Part part, std::span<const text::IdRange> ignored) {
  const std::uint64_t count = part.count + (part.end_of_text ? 1 : 0);
  if (count == 0) return;
  for (const text::IdRange& range : ignored) ignored_.push_back({size_ + range.begin, size_ + range.end});
  for (const std::uint64_t begin : part.document_begins) document_begins_.push_back(size_ + begin);
  part.document_begins = {};
  parts_.push_back(std::move(part));
  begins_.push_back(size_);
  size_ += count;
}

std::int32_t TokenStream::at(std::uint64_t index) const {
  std::int32_t id = 0;
  copy(index, 1, &id);
  return id;
}

void TokenStream::copy(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const {
  if (begin > size_ || count > size_ - begin) throw std::out_of_range("tokens beyond the end of the stream");
  if (count == 0) return;
  auto index = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin()) - 1;
  for (; count > 0; ++index) {
    const Part& part = parts_[index];
    const std::uint64_t offset = begin - begins_[index];
    const std::span<std::int32_t> ids(out, offset < part.count ? std::min(count, part.count - offset) : 0);
    read_ids(part, offset, ids);
    expect_below(vocab_, ids, *part.file);
    out += ids.size();
    count -= ids.size();
    begin += ids.size();
    if (count > 0 && part.end_of_text) {
      *out++ = text::ByteTokenizer::kEndOfText;
      --count;
      ++begin;
    }
  }
}

void TokenStream::drop_ignored(std::uint64_t begin, std::span<std::int32_t> targets) const {
  for_each_ignored(begin, begin + targets.size(), [&](std::uint64_t from, std::uint64_t to) {
    std::ranges::fill(targets.subspan(from - begin, to - from), -1);
  });
}

std::uint64_t TokenStream::learnt(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t count = end - begin;
  for_each_ignored(begin, end, [&](std::uint64_t from, std::uint64_t to) { count -= to - from; });
  return count;
}

void TokenStream::document_starts(std::uint64_t begin, std::span<std::int32_t> out) const {
  auto next = std::ranges::upper_bound(document_begins_, begin);
  std::int32_t start = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (next != document_begins_.end() && *next == begin + i) {
      start = static_cast<std::int32_t>(i);
      ++next;
    }
    out[i] = start;
  }
}

}  // namespace weft::train
