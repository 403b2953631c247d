// A tokenizer of parts, as Hugging Face's tokenizer.json describes it: normalizer, splitter, BPE, decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/bpe/bpe_model.h"
#include "text/pipeline/pipeline.h"
#include "text/tokenizer.h"

namespace weft::text {

struct BpeParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  std::vector<std::int32_t> before, after;  // ids that are put around a text
  Decoder decoder;
  std::vector<std::string> texts;  // of each id, as the files write it; "": no token
};

TokenizerPointer bpe_tokenizer(TokenizerFacts facts, BpeParts parts);

}  // namespace weft::text
