// The checker's rules between rank classes: both ends of each message, and the collectives that classes share.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/checker.h"

namespace weft::plan {

/// The beginning of a text on one of several classes, "stage 1: "; "" if there is only one.
std::string prefix_of_class(std::size_t of_class, std::size_t classes);

/// Checks, of several classes, that
/// - the k-th send of a message channel meets a k-th receive at its other end on the neighbour, with the same message
///   number, count and dtype, and no end is left over (Kind::message);
/// - of a channel whose groups have members in several classes (world, pipe; embedding in the first and the last),
/// every
///   class with members issues one sequence of equal signatures, and the others issue none (Kind::collective_order).
/// Of each channel, the first violation is reported, since later ones follow from it. The plans' ids must be valid.
std::vector<Violation> check_between_classes(std::span<const Plan* const> plans);

}  // namespace weft::plan
