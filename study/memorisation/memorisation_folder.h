// The folder of a memorisation study. study.json says what all its trainings have in common; tokenizer.json is what it
// learnt; results/ has a file for each training that is done, so that a study that was stopped goes on; and at the end
// results.csv, results.json and plot.svg.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "study/memorisation/memorisation.h"
#include "study/result_folder.h"

namespace weft::study {

class MemorisationFolder {
 public:
  /// Makes the folder, or opens one that such a study left. Throws the exceptions of ResultFolder.
  explicit MemorisationFolder(std::filesystem::path folder);

  const std::filesystem::path& path() const { return folder_.path(); }
  /// Writes study.json. Throws UserError, naming what differs, if there is one of another study.
  void begin(const MemorisationStudy& study, const StudyTexts& texts);
  /// The results of trainings that are done. Throws UserError, naming the file, if one can't be read.
  std::vector<StudyResult> results() const;
  void keep(const StudyResult& result) const;
  /// Writes results.csv, results.json and plot.svg.
  void finish(const MemorisationStudy& study, std::span<const StudyResult> results) const;

 private:
  ResultFolder folder_;
};

}  // namespace weft::study
