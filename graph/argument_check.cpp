#include "graph/argument_check.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace weft::graph {
namespace {

using Elements = ArgumentElements;

// Checks the accesses of one task against the present rows of its schema.
class ArgumentCheck {
 public:
  ArgumentCheck(const Task& task, std::span<const Tensor> tensors) : task_(task), tensors_(tensors) {}

  void run(std::span<const ArgumentSchema> schema) {
    for (const ArgumentSchema& row : schema) {
      if (row.present) rows_.push_back(&row);
    }
    const std::size_t found = task_.accesses.size();
    if (found < rows_.size()) refuse(rows_[found]->name, "missing", fmt::format("the arguments {}", names()));
    if (found > rows_.size()) {
      throw std::logic_error(fmt::format("{}: {} accesses, expected {}: {}", subject(), found, rows_.size(), names()));
    }
    for (std::size_t i = 0; i < found; ++i) check(*rows_[i], task_.accesses[i]);
  }

  std::string subject() const { return fmt::format("task '{}' ({})", task_.name, kind_name(task_.operation)); }

 private:
  [[noreturn]] void refuse(std::string_view argument, const std::string& found, const std::string& expected) const {
    throw std::logic_error(fmt::format("{}: argument {} is {}, expected {}", subject(), argument, found, expected));
  }

  std::string names() const {
    std::string text;
    for (const ArgumentSchema* row : rows_) text += fmt::format("{}{}", text.empty() ? "" : ", ", row->name);
    return text;
  }

  DType dtype_of(const Access& access) const { return tensors_[access.view.tensor.index()].dtype; }

  void check(const ArgumentSchema& row, const Access& access) const {
    if (!row.allows(access.mode)) {
      refuse(row.name, fmt::format("declared as {}", to_string(access.mode)), std::string(to_string(row.mode)));
    }
    const View& view = access.view;
    if (!seen_as(row.shape, view.rows, view.cols, view.contiguous())) {
      refuse(row.name, fmt::format("{} x {}{}", view.rows, view.cols, view.contiguous() ? "" : " in rows apart"),
             to_string(row.shape));
    }
    check_dtype(row, dtype_of(access));
  }

  void check_dtype(const ArgumentSchema& row, DType found) const {
    const Elements& rule = row.elements;
    if (rule.f32_too && found == DType::f32) return;
    switch (rule.rule) {
      case Elements::Rule::any:
        return;
      case Elements::Rule::floats:
        if (found == DType::f32 || found == DType::bf16) return;
        return refuse(row.name, std::string(to_string(found)), "f32 or bf16");
      case Elements::Rule::one_dtype:
        if (found == rule.dtype) return;
        return refuse(row.name, std::string(to_string(found)), std::string(to_string(rule.dtype)));
      case Elements::Rule::same_as:
        break;
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i]->name != rule.other) continue;
      const DType wanted = dtype_of(task_.accesses[i]);
      if (found == wanted) return;
      refuse(row.name, std::string(to_string(found)),
             fmt::format("{} as {}{}", to_string(wanted), rule.other, rule.f32_too ? ", or f32" : ""));
    }
    throw std::logic_error(fmt::format("{}: the schema of {} names no argument {}", subject(), row.name, rule.other));
  }

  const Task& task_;
  std::span<const Tensor> tensors_;
  std::vector<const ArgumentSchema*> rows_;
};

}  // namespace

void check_arguments(const Task& task, std::span<const Tensor> tensors) {
  ArgumentCheck check(task, tensors);
  if (const std::string_view wrong = contradiction_in(task.operation); !wrong.empty()) {
    throw std::logic_error(fmt::format("{}: {}", check.subject(), wrong));
  }
  with_arguments(task.operation, [&](std::span<const ArgumentSchema> schema) { check.run(schema); });
}

}  // namespace weft::graph
