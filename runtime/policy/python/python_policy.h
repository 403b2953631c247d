// Policies written in Python: `--policy mine.py:Mine`, in a process of their own, under a time limit.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/policy/policy.h"

namespace weft::policy {

/// The policy `text` of the file at `path`: the name of a function or class in it, and after a colon its parameters:
/// "Mine", "Mine:tries=50,seconds=120". `seconds` is the time limit of one answer, by default 60; all other parameters
/// become arguments of the function or class.
///
/// A function gets a Problem (python/weft/problem.py) and returns a sequence of tasks or an Order. A class has a method
/// order(self, problem), and may have rewrites(self, problem), whose result is a list of rewrites as `--rewrites` takes
/// them.
///
/// Each answer comes from a new process, which reads the problem's arrays from memory that it can't change. It is ended
/// when it has answered, failed or overrun its time; nothing of a late answer counts. Orders are held to the rules of
/// shared libraries (runtime/policy/library/policy_library.h). Throws UserError, in words for the author: now, if the
/// file can't be read or the text names nothing; from order() and rewrites(), whatever else is wrong.
///
/// `interpreter`: the Python that runs it, looked up in PATH if it is a mere name. It imports nothing from the working
/// folder; modules beside the policy's file come after all installed ones.
std::unique_ptr<Policy> python_policy(const std::string& path, std::string_view text,
                                      const std::string& interpreter = "python3");

}  // namespace weft::policy
