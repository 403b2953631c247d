#include "study/memorisation/recall.h"

#include <algorithm>
#include <cstddef>

#include "base/philox.h"

namespace weft::study {
namespace {

constexpr std::size_t kDraws = 2000;
constexpr std::uint32_t kSite = 0x57D10000U;  // of Philox

/// Random numbers below a bound, one after the other.
class Draws {
 public:
  std::size_t below(std::size_t bound) {
    const PhiloxBlock block = philox_quad(0, 0, kSite, next_ / 4);
    return static_cast<std::size_t>((std::uint64_t{block[next_++ % 4]} * bound) >> 32);
  }

 private:
  std::uint64_t next_ = 0;
};

double mean_of_draw(const std::vector<const std::vector<double>*>& groups, Draws& draws) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<double>& values = *groups[draws.below(groups.size())];
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[draws.below(values.size())];
    count += values.size();
  }
  return sum / static_cast<double>(count);
}

}  // namespace

double rouge_l(std::span<const std::int32_t> original, std::span<const std::int32_t> written) {
  if (original.empty() && written.empty()) return 1;
  std::vector<std::size_t> longest(written.size() + 1, 0);  // of the original so far and the first tokens written
  for (const std::int32_t token : original) {
    std::size_t diagonal = 0;
    for (std::size_t i = 0; i < written.size(); ++i) {
      const std::size_t above = longest[i + 1];
      longest[i + 1] = written[i] == token ? diagonal + 1 : std::max(above, longest[i]);
      diagonal = above;
    }
  }
  return 2 * static_cast<double>(longest.back()) / static_cast<double>(original.size() + written.size());
}

Recall recall_of(std::span<const std::int32_t> original, std::span<const std::int32_t> written) {
  const auto differ = std::ranges::mismatch(original, written);
  const std::int64_t prefix = differ.in1 - original.begin();
  return {std::ranges::equal(original, written), prefix, rouge_l(original, written)};
}

MeanInterval mean_interval(std::span<const std::vector<double>> groups) {
  std::vector<const std::vector<double>*> filled;
  double sum = 0;
  std::size_t count = 0;
  for (const std::vector<double>& values : groups) {
    if (values.empty()) continue;
    filled.push_back(&values);
    count += values.size();
    for (const double value : values) sum += value;
  }
  if (count == 0) return {};
  Draws draws;
  std::vector<double> means(kDraws);
  for (double& mean : means) mean = mean_of_draw(filled, draws);
  std::ranges::sort(means);
  return {sum / static_cast<double>(count), means[kDraws / 40], means[kDraws - 1 - kDraws / 40]};
}

}  // namespace weft::study
