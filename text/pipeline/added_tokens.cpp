#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode/char_class.h"

namespace weft::text {
namespace {

bool word_ends(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid_before(text.data() + text.size()).code);
}

bool word_begins(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid(text.data()).code);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_text_.emplace(token.text, i);
    const std::string text = token.normalized ? normalize(token.text) : token.text;
    if (text.empty()) continue;
    Wanted& wanted = token.normalized ? normalized_ : raw_;
    wanted.tokens[text] = i;
    wanted.begins[static_cast<unsigned char>(text.front())] = true;
    const bool word = word_begins(text.substr(0, 1)) && static_cast<unsigned char>(text[0]) < 0x80;
    crosses_lines_ = crosses_lines_ || word || text.find('\n') != std::string::npos;
  }
}

/// The longest of the texts that `text` begins with; the end if there is none.
AddedTokens::Index::const_iterator AddedTokens::longest_at_begin(const Wanted& wanted, std::string_view text) {
  if (!wanted.begins[static_cast<unsigned char>(text.front())]) return wanted.tokens.end();
  while (true) {
    auto found = wanted.tokens.upper_bound(text);
    if (found == wanted.tokens.begin()) return wanted.tokens.end();
    --found;
    if (text.starts_with(found->first)) return found;
    // What is longer than the part that they share is no beginning of `text`.
    text = text.substr(0, static_cast<std::size_t>(std::ranges::mismatch(found->first, text).in2 - text.begin()));
  }
}

void AddedTokens::split(std::string_view text, bool normalized, bool special,
                        const std::function<void(std::string_view)>& plain,
                        const std::function<void(const AddedToken&)>& token) const {
  const Wanted& wanted = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  for (std::size_t at = 0; !wanted.tokens.empty() && at < text.size();) {
    const auto match = longest_at_begin(wanted, text.substr(at));
    if (match == wanted.tokens.end()) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + match->first.size();
    at = end;
    const AddedToken& found = tokens_[match->second];
    if (found.special && !special) continue;
    if (found.single_word && (word_ends(text.substr(0, begin)) || word_begins(text.substr(end)))) continue;
    if (found.strip_left) begin = std::max(begin - space_at_end(text.substr(0, begin)), done);
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
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? nullptr : &tokens_[found->second];
}

std::optional<std::int32_t> AddedTokens::id_of(std::string_view text) const {
  const AddedToken* token = find(text);
  return token == nullptr ? std::nullopt : std::optional(token->id);
}

}  // namespace weft::text
