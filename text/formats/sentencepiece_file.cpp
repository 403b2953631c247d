// SentencePiece's models (tokenizer.model), by its library.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/utf8.h"
#include "text/formats/tokenizer_file.h"
#include "text/pipeline/pipeline.h"
#include "text/tokenizer.h"

namespace weft::text {

namespace {

using sentencepiece::SentencePieceProcessor;

/// The ids that are put around a text.
struct Frame {
  bool begin = true, end = false;
};

AddedTokens controls_of(const SentencePieceProcessor& model) {
  std::vector<AddedToken> tokens;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    if (model.IsControl(id)) tokens.push_back({.text = model.IdToPiece(id), .id = id, .special = true});
  }
  return AddedTokens(std::move(tokens));
}

std::optional<std::int32_t> given_id(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

/// Whether a message in protobuf's format, which a library read, has a field.
bool has_field(std::string_view message, std::uint64_t number) {
  const auto take_number = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !message.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!message.empty()) {
    const std::uint64_t tag = take_number(), kind = tag & 7U;
    if (tag >> 3 == number) return true;
    const std::uint64_t length = kind == 2 ? take_number() : kind == 1 ? 8 : kind == 5 ? 4 : 0;
    if (kind == 0) take_number();
    message.remove_prefix(std::min<std::uint64_t>(length, message.size()));
  }
  return false;
}

Frame frame_of(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  if (!is_file(path)) return {};
  const std::string content = read_tokenizer_file(path);
  const Document document = read_tokenizer_json(content, path);
  return {flag(document.root(), "add_bos_token", true), flag(document.root(), "add_eos_token")};
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  using Model = std::unique_ptr<const SentencePieceProcessor>;

  /// `continuing`: the model without its blank before a text.
  SentencePieceTokenizer(TokenizerFacts facts, Model model, Model continuing, Frame frame)
      : Tokenizer(std::move(facts)),
        model_(std::move(model)),
        continuing_(std::move(continuing)),
        frame_(frame),
        specials_(controls_of(*model_)) {}

  void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override {
    std::string storage;
    const std::string_view valid = valid_utf8(text, storage);
    if (options.add_special && frame_.begin && facts().begin) ids.push_back(*facts().begin);
    specials_.split(
        valid, false, options.special_texts == SpecialTexts::tokens,
        [&](std::string_view plain) {
          std::vector<int> pieces;
          const bool goes_on = options.place == TextPlace::continues && plain.data() == valid.data();
          const auto status = (goes_on ? continuing_ : model_)->Encode({plain.data(), plain.size()}, &pieces);
          if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
          ids.insert(ids.end(), pieces.begin(), pieces.end());
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
    if (options.add_special && frame_.end && facts().end) ids.push_back(*facts().end);
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string text;
    std::vector<int> plain;
    const auto end_plain = [&] {
      if (!plain.empty()) text += decode_plain(std::exchange(plain, {}));
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocabulary()) refuse_id(i, ids[i]);
      if (!is_special(ids[i])) {
        plain.push_back(ids[i]);
      } else if (!skip_special) {
        end_plain();
        text += model_->IdToPiece(ids[i]);
      }
    }
    end_plain();
    return text;
  }

  std::optional<std::string> token_text(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return std::nullopt;
    return model_->IdToPiece(id);
  }

  std::optional<std::int32_t> token_id(std::string_view text) const override {
    const int id = model_->PieceToId({text.data(), text.size()});
    return model_->IdToPiece(id) == text ? std::optional<std::int32_t>(id) : std::nullopt;
  }

 private:
  bool is_special(std::int32_t id) const { return specials_.find(id) != nullptr; }

  /// The library makes U+FFFD of bytes that end within a character; here they stay, for what follows.
  std::string decode_plain(std::vector<int> ids) const {
    constexpr std::size_t kMostBytes = 3;  // of a character that isn't complete
    std::string rest;
    for (std::size_t count = 1; count <= std::min(kMostBytes, ids.size()); ++count) {
      std::string bytes;
      for (std::size_t i = ids.size() - count; i < ids.size(); ++i) {
        if (!model_->IsByte(ids[i])) break;
        bytes += byte_of_fallback(model_->IdToPiece(ids[i])).value_or('\0');
      }
      if (bytes.size() == count && breaks_off(bytes)) rest = bytes;
    }
    ids.resize(ids.size() - rest.size());
    std::string text;
    const auto status = model_->Decode(ids, &text);
    if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
    return text + rest;
  }

  Model model_, continuing_;
  Frame frame_;
  AddedTokens specials_;  // control tokens, whose texts the library takes as plain
};

}  // namespace

TokenizerPointer load_sentencepiece(const std::filesystem::path& path, std::string content) {
  const auto read = [&](const std::string& proto) {
    auto model = std::make_unique<SentencePieceProcessor>();
    const auto status = model->LoadFromSerializedProto({proto.data(), proto.size()});
    // Where a file was cut behind its pieces, the library takes another kind of model.
    constexpr std::uint64_t kTrainerSpec = 2;
    if (status.ok() && model->GetPieceSize() > 0 && has_field(proto, kTrainerSpec)) return model;
    throw UserError(in_quotes(path) + " isn't read by SentencePiece", "a model of SentencePiece, or tiktoken's ranks",
                    kTokenizerFix);
  };
  // A message's later fields are merged into the earlier ones: normalizer_spec (3) gets add_dummy_prefix (3) = false.
  using namespace std::string_literals;
  auto model = read(content), continuing = read(content + "\x1a\x02\x18\x00"s);
  TokenizerFacts facts =
      facts_of(path.parent_path(), "SentencePiece's model", static_cast<std::size_t>(model->GetPieceSize()),
               {{"tokenizer.model", std::move(content)}});
  facts.begin = given_id(model->bos_id());
  facts.end = given_id(model->eos_id());
  const auto id_of_text = [&](std::string_view text) {
    const int id = model->PieceToId({text.data(), text.size()});
    return model->IdToPiece(id) == text ? std::optional<std::int32_t>(id) : std::nullopt;
  };
  expect_none_added(path.parent_path(), id_of_text);
  find_ends(path.parent_path(), id_of_text, facts);
  return std::make_shared<SentencePieceTokenizer>(std::move(facts), std::move(model), std::move(continuing),
                                                  frame_of(path.parent_path()));
}

}  // namespace weft::text
