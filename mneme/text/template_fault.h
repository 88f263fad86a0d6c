#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "mneme/base/error.h"

namespace mneme::jinja {

/// What goes wrong inside a template. It leaves the interpreter as an Error that also says which template and line;
/// `line` is 0 where only the interpreter knows it.
struct Fault : std::exception {
  Fault(ErrorKind its_kind, std::string words, int at_line = 0)
      : kind(its_kind), message(std::move(words)), line(at_line) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorKind kind;
  std::string message;
  int line;
};

/// The template called raise_exception: its own words, for the one who wrote the messages.
struct RaisedByTemplate : Fault {
  explicit RaisedByTemplate(std::string words) : Fault(ErrorKind::kInvalidArgument, std::move(words)) {}
};

/// Throws what Python would raise as TypeError, ValueError or UndefinedError.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault(ErrorKind::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws for what Jinja has and this interpreter leaves out.
template <class... Args>
[[noreturn]] void fail_unsupported(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault(ErrorKind::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mneme::jinja
