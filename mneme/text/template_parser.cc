#include "mneme/text/template_parser.h"

#include <initializer_list>
#include <utility>

#include "mneme/text/template_expression_parser.h"
#include "mneme/text/template_fault.h"
#include "mneme/text/template_lexer.h"
#include "mneme/text/template_statements.h"

namespace mneme::jinja {
namespace {

using Tags = std::initializer_list<std::string_view>;

// The statement half of the parser: one function for each tag.
class Parser {
 public:
  explicit Parser(std::string_view source) : stream_(tokenize(source)), expressions_(stream_) {}

  Body run() { return body({}); }

 private:
  bool at_any(Tags tags) const {
    for (const std::string_view tag : tags) {
      if (stream_.is_name(tag)) return true;
    }
    return false;
  }

  // Statements up to one of `ends`, whose name is then the current token; without ends, up to the template's end.
  Body body(Tags ends) {
    Body result;
    while (true) {
      const int line = stream_.line();
      if (stream_.is(TokenType::kData)) {
        result.statements.push_back(std::make_unique<Data>(line, stream_.next().text));
      } else if (stream_.is(TokenType::kVariableBegin)) {
        stream_.next();
        result.statements.push_back(std::make_unique<Print>(line, expressions_.expression_or_tuple()));
        stream_.expect(TokenType::kVariableEnd, "'}}'");
      } else if (stream_.is(TokenType::kBlockBegin)) {
        stream_.next();
        if (at_any(ends)) return result;
        statement(result);
        stream_.expect(TokenType::kBlockEnd, "'%}'");
      } else if (ends.size() == 0) {
        return result;
      } else {
        stream_.fail_here(fmt::format("unexpected end of the template, which still needs '{}'", *(ends.end() - 1)));
      }
    }
  }

  // The body of a tag, from the end of the tag itself up to one of `ends`, whose name is taken and returned.
  std::pair<Body, std::string> tag_body(Tags ends) {
    stream_.skip_operator(":");
    stream_.expect(TokenType::kBlockEnd, "'%}'");
    Body result = body(ends);
    return {std::move(result), stream_.next().text};
  }
  Body tag_body_until(std::string_view end) { return tag_body({end}).first; }

  void statement(Body& into) {
    const ExpressionParser::Nested nested(expressions_);
    const int line = stream_.line();
    const std::string tag = stream_.expect(TokenType::kName, "the name of a tag").text;
    if (tag == "print") return print(into, line);
    into.statements.push_back(statement(tag, line));
  }

  StatementPtr statement(const std::string& tag, int line) {
    if (tag == "if") return if_tag(line);
    if (tag == "for") return for_tag(line);
    if (tag == "set") return set_tag(line);
    if (tag == "macro") return macro_tag(line);
    if (tag == "call") return call_tag(line);
    if (tag == "filter") return filter_tag(line);
    if (tag == "with") return with_tag(line);
    if (tag == "block") return block_tag(line);
    if (tag == "generation") return std::make_unique<Section>(line, true, tag_body_until("endgeneration"));
    if (tag == "break") return jump_tag(line, Run::Jump::kBreak);
    if (tag == "continue") return jump_tag(line, Run::Jump::kContinue);
    for (const std::string_view refused : {"include", "import", "from", "extends", "autoescape"}) {
      if (tag == refused) {
        throw Fault(ErrorKind::kUnsupported, fmt::format("the tag '{}' is not supported in chat templates", tag), line);
      }
    }
    stream_.fail_here(fmt::format("encountered unknown tag '{}'", tag));
  }

  void print(Body& into, int line) {
    while (!stream_.is(TokenType::kBlockEnd)) {
      into.statements.push_back(std::make_unique<Print>(line, expressions_.expression()));
      if (!stream_.skip_operator(",")) break;
    }
  }

  StatementPtr if_tag(int line) {
    std::vector<If::Branch> branches;
    while (true) {
      ExpressionPtr test = expressions_.expression_or_tuple(false);
      auto [content, end] = tag_body({"elif", "else", "endif"});
      branches.push_back({std::move(test), std::move(content)});
      if (end == "elif") continue;
      Body otherwise = end == "else" ? tag_body_until("endif") : Body{};
      return std::make_unique<If>(line, std::move(branches), std::move(otherwise));
    }
  }

  StatementPtr for_tag(int line) {
    For::Parts parts;
    parts.target = expressions_.target(false);
    if (!stream_.skip_name("in")) stream_.fail_expected("'in'");
    parts.items = expressions_.expression_or_tuple(false);
    if (stream_.skip_name("if")) parts.test = expressions_.expression();
    if (stream_.is_name("recursive")) {
      throw Fault(ErrorKind::kUnsupported, "recursive loops are not supported: use a macro that calls itself", line);
    }
    ++n_loops_;
    auto [content, end] = tag_body({"else", "endfor"});
    --n_loops_;
    parts.body = std::move(content);
    if (end == "else") parts.otherwise = tag_body_until("endfor");
    return std::make_unique<For>(line, std::move(parts));
  }

  StatementPtr jump_tag(int line, Run::Jump jump) {
    if (n_loops_ == 0) stream_.fail_here("'break' and 'continue' need a loop around them");
    return std::make_unique<LoopJump>(line, jump);
  }

  StatementPtr set_tag(int line) {
    Target target = expressions_.target(true);
    if (stream_.skip_operator("=")) {
      return std::make_unique<Set>(line, std::move(target), expressions_.expression_or_tuple());
    }
    ExpressionPtr filter;
    if (stream_.skip_operator("|")) filter = expressions_.filters(std::make_unique<BlockText>(line));
    return std::make_unique<SetBlock>(line, std::move(target), std::move(filter), tag_body_until("endset"));
  }

  StatementPtr filter_tag(int line) {
    ExpressionPtr filter = expressions_.filters(std::make_unique<BlockText>(line));
    return std::make_unique<FilterBlock>(line, std::move(filter), tag_body_until("endfilter"));
  }

  StatementPtr with_tag(int line) {
    std::vector<With::Binding> bindings;
    while (!stream_.is(TokenType::kBlockEnd)) {
      if (!bindings.empty()) stream_.expect_operator(",");
      Target target = expressions_.target(false);
      stream_.expect_operator("=");
      bindings.emplace_back(std::move(target), expressions_.expression());
    }
    return std::make_unique<With>(line, std::move(bindings), tag_body_until("endwith"));
  }

  StatementPtr block_tag(int line) {
    const std::string name = stream_.expect_name();
    const bool scoped = stream_.skip_name("scoped");
    stream_.skip_name("required");
    auto section = std::make_unique<Section>(line, scoped, function_body("endblock"));
    stream_.skip_name(name);
    return section;
  }

  // A body that is called rather than run in place: no jump leaves it.
  Body function_body(std::string_view end) {
    const int n_loops = std::exchange(n_loops_, 0);
    Body result = tag_body_until(end);
    n_loops_ = n_loops;
    return result;
  }

  void parameters(MacroDefinition& macro) {
    stream_.expect_operator("(");
    bool has_defaults = false;
    while (!stream_.is_operator(")")) {
      MacroDefinition::Parameter parameter{stream_.expect_name(), nullptr};
      if (stream_.skip_operator("=")) {
        parameter.default_value = expressions_.expression();
        has_defaults = true;
      } else if (has_defaults) {
        stream_.fail_here("a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
      if (!stream_.skip_operator(",")) break;
    }
    stream_.expect_operator(")");
  }

  void macro_body(MacroDefinition& macro, std::string_view end) {
    expressions_.macros.push_back(&macro);
    macro.body = function_body(end);
    expressions_.macros.pop_back();
    for (const auto& parameter : macro.parameters) {
      if (parameter.name == "varargs") macro.uses_varargs = false;
      if (parameter.name == "kwargs") macro.uses_kwargs = false;
      if (parameter.name == "caller") macro.uses_caller = false;
    }
  }

  StatementPtr macro_tag(int line) {
    auto macro = std::make_shared<MacroDefinition>();
    macro->name = stream_.expect_name();
    parameters(*macro);
    macro_body(*macro, "endmacro");
    return std::make_unique<MacroStatement>(line, std::move(macro));
  }

  StatementPtr call_tag(int line) {
    auto caller = std::make_shared<MacroDefinition>();
    if (stream_.is_operator("(")) parameters(*caller);
    auto call = expressions_.call_expression();
    macro_body(*caller, "endcall");
    return std::make_unique<CallBlock>(line, std::move(call), std::move(caller));
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int n_loops_ = 0;  // around the current place, inside of the same macro
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace mneme::jinja
