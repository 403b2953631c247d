// Shared libraries opened while the program runs, by the code that calls them, instead of by the loader at each start.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace weft {

/// A library, open while this object exists.
///
///   const SharedLibrary library(std::array<std::string, 2>{"libz.so.1", "/opt/zlib/lib/libz.so.1"});
///   if (!library) throw UserError(library.failure(), …);
///   auto* const version = library.find<const char*()>("zlibVersion");
class SharedLibrary {
 public:
  /// Whether the library is unloaded with this object. Libraries that hand work to threads or to a driver of their own
  /// must stay.
  enum class Code : std::uint8_t { goes, stays };

  /// Opens the first of `places` that can be opened: a path, or a name that the loader looks up in its folders. All
  /// symbols are resolved at once, so that a missing symbol is found here and not later.
  explicit SharedLibrary(std::span<const std::string> places, Code code = Code::goes);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Whether a library was opened.
  explicit operator bool() const { return handle_ != nullptr; }
  /// The place that was opened; "" if none was.
  const std::string& place() const { return place_; }
  /// The loader's messages about the places that failed, in their order: "libz.so.1: cannot open shared object file: …;
  /// …".
  const std::string& failure() const { return failure_; }

  /// Null if the library, which is open, exports no such function.
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string place_, failure_;
};

}  // namespace weft
