#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode/char_class.h"

namespace weft::text {
namespace {

bool is_space(std::uint32_t code) {
  return (class_table()[code] & kSpace) != 0;
}

bool word_ends(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid_before(text.data() + text.size()).code);
}

bool word_begins(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid(text.data()).code);
}

std::size_t without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    const Decoded last = decode_valid_before(text.data() + text.size());
    if (!is_space(last.code)) break;
    text.remove_suffix(last.length);
  }
  return text.size();
}

std::size_t space_at_begin(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Decoded first = decode_valid(text.data() + size);
    if (!is_space(first.code)) break;
    size += first.length;
  }
  return size;
}

}  // namespace

void AddedTokens::Tree::add(std::string_view text, std::int32_t token) {
  if (text.empty()) return;
  begins[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto [place, is_new] =
        nodes[node].next.emplace(static_cast<unsigned char>(c), static_cast<std::uint32_t>(nodes.size()));
    node = place->second;
    if (is_new) nodes.emplace_back();
  }
  nodes[node].token = token;
  ++tokens;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string_view)>& normalize)
    : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_text_.emplace(token.text, i);
    const std::string text = token.normalized ? normalize(token.text) : token.text;
    (token.normalized ? normalized_ : raw_).add(text, static_cast<std::int32_t>(i));
    const bool word = !text.empty() && word_begins(text.substr(0, 1)) && static_cast<unsigned char>(text[0]) < 0x80;
    crosses_lines_ = crosses_lines_ || word || text.find('\n') != std::string::npos;
  }
}

AddedTokens::Match AddedTokens::longest_at(const Tree& tree, std::string_view text) const {
  Match best;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto& next = tree.nodes[node].next;
    const auto found = next.find(static_cast<unsigned char>(text[i]));
    if (found == next.end()) break;
    node = found->second;
    if (tree.nodes[node].token >= 0) best = {tree.nodes[node].token, i + 1};
  }
  return best;
}

void AddedTokens::split(std::string_view text, bool normalized, bool special,
                        const std::function<void(std::string_view)>& plain,
                        const std::function<void(const AddedToken&)>& token) const {
  const Tree& tree = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  for (std::size_t at = 0; tree.tokens > 0 && at < text.size();) {
    if (!tree.begins[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = longest_at(tree, text.substr(at));
    if (match.token < 0) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + match.size;
    at = end;
    const AddedToken& found = tokens_[static_cast<std::size_t>(match.token)];
    if (found.special && !special) continue;
    if (found.single_word && (word_ends(text.substr(0, begin)) || word_begins(text.substr(end)))) continue;
    if (found.strip_left) begin = std::max(without_space_at_end(text.substr(0, begin)), done);
    if (found.strip_right) end += space_at_begin(text.substr(end));
    if (begin > done) plain(text.substr(done, begin - done));
    token(found);
    done = end;
  }
  if (done < text.size()) plain(text.substr(done));
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view text) const {
  const auto found = by_text_.find(std::string(text));
  return found == by_text_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace weft::text
