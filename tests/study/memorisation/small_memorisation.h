// A memorisation study of a few steps that tests share, and results that were never computed.
#pragma once

#include <filesystem>
#include <fstream>

#include "study/memorisation/memorisation.h"
#include "tests/base/temporary_folder.h"

namespace weft::testing {

/// Words in an order that doesn't repeat.
inline std::filesystem::path write_study_text(const TemporaryFolder& folder) {
  const std::filesystem::path path = folder.path("text.txt");
  std::ofstream file(path);
  std::uint32_t state = 1;
  for (int i = 0; i < 900; ++i) {
    state = state * 1664525U + 1013904223U;
    file << "word" << (state >> 24U) << (i % 9 == 8 ? ".\n" : " ");
  }
  return path;
}

inline study::MemorisationStudy small_memorisation(const std::filesystem::path& text) {
  study::MemorisationStudy study;
  study.text.data = {text.string()};
  study.text.vocabulary = 300;
  study.text.length = 12;
  study.tail = 4;
  study.counts = {.seen = {0, 1, 3}, .documents = 2, .background = 10, .held_out = 4};
  study.models = {"1m"};
  study.goldfish = {.k = 2, .h = 3};
  study.seeds = 1;
  study.batch = 4;
  return study;
}

/// Documents of which the end was written, and others of which nothing was.
inline study::BucketResult bucket(std::int64_t seen, double loss, int exact, int others) {
  study::BucketResult made{.seen = seen, .loss = loss, .documents = {}};
  for (int i = 0; i < exact; ++i) made.documents.push_back({true, 4, 1.0});
  for (int i = 0; i < others; ++i) made.documents.push_back({false, 1, 0.25});
  return made;
}

}  // namespace weft::testing
