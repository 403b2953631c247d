// Tokens that are found in a text before it is split: special tokens and those that a person added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::text {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;
  bool single_word = false;  // only where no word goes on before and behind it
  bool strip_left = false;   // white space before it belongs to it
  bool strip_right = false;  // and behind it
  bool normalized = false;   // it is looked for in the normalized text
};

/// Finds texts in a text: at each place the longest. Any number of threads may search.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// `normalize` is applied to the texts of tokens that are looked for in normalized text.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string_view)>& normalize);

  /// Calls `plain` for the pieces between tokens and `token` for tokens, in order; with `special` false, texts of
  /// special tokens are plain text. `normalized`: looks for the tokens of normalized text, else for the others.
  void split(std::string_view text, bool normalized, bool special, const std::function<void(std::string_view)>& plain,
             const std::function<void(const AddedToken&)>& token) const;

  const std::vector<AddedToken>& all() const { return tokens_; }
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view text) const;
  /// Whether a token could lie across a place where cut_after() cuts.
  bool may_cross_lines() const { return crosses_lines_; }

 private:
  /// A tree of the bytes of texts.
  struct Tree {
    struct Node {
      std::int32_t token = -1;  // the index of the token that ends here
      std::unordered_map<unsigned char, std::uint32_t> next;
    };
    std::vector<Node> nodes = std::vector<Node>(1);
    bool begins[256] = {};
    std::size_t tokens = 0;

    void add(std::string_view text, std::int32_t token);
  };
  struct Match {
    std::int32_t token = -1;
    std::size_t size = 0;
  };
  Match longest_at(const Tree& tree, std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  std::unordered_map<std::string, std::size_t> by_text_;
  Tree raw_, normalized_;
  bool crosses_lines_ = false;
};

}  // namespace weft::text
