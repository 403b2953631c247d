// Shared libraries that are opened while the program runs, by those who call them, and not by the loader at each start.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace weft {

/// Open as long as this lives.
///
///   const SharedLibrary library(std::array<std::string, 2>{"libz.so.1", "/opt/zlib/lib/libz.so.1"});
///   if (!library) throw UserError(library.failure(), …);
///   auto* const version = library.find<const char*()>("zlibVersion");
class SharedLibrary {
 public:
  /// Whether the code goes when this does. Libraries that hand work to threads or to a driver of their own must stay.
  enum class Code : std::uint8_t { goes, stays };

  /// Opens the first of `places` that can be: a path, or a name that the loader looks for in the folders that it knows.
  /// All symbols are resolved at once, so that none is found missing later.
  explicit SharedLibrary(std::span<const std::string> places, Code code = Code::goes);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Whether one was opened.
  explicit operator bool() const { return handle_ != nullptr; }
  /// The one of `places` that was; "": none.
  const std::string& place() const { return place_; }
  /// What the loader said of the others, in their order: "libz.so.1: cannot open shared object file: …; …".
  const std::string& failure() const { return failure_; }

  /// Null: the library, which is open, exports no such function.
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
