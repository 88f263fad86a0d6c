#include "mneme/text/template_run.h"

#include "mneme/text/template_fault.h"

namespace mneme::jinja {

Run::Run(std::optional<std::tm> now, Limits limits)
    : limits_(limits), now_(now), root_(std::make_shared<Scope>()), scope_(root_) {}

Run::~Run() {
  // A macro keeps the scope that it was defined in, which holds the macro; a namespace can hold itself.
  for (const auto& scope : captured_) scope->variables.clear();
  for (const auto& object : namespaces_) object->clear();
}

void Run::step(std::uint64_t n) {
  steps_ += n;
  if (steps_ > limits_.steps) fail("the template took more than {} steps; it may loop without end", limits_.steps);
}

void Run::build(std::size_t n_bytes) {
  n_bytes_built_ += n_bytes;
  if (n_bytes_built_ > limits_.n_bytes_built) {
    throw Fault(ErrorKind::kOutOfMemory, fmt::format("the template built more than {} bytes", limits_.n_bytes_built));
  }
}

void Run::build_items(std::int64_t times, std::size_t n) {
  const std::size_t most = limits_.n_bytes_built / sizeof(Value) / n;
  if (times > 0)
    build(static_cast<std::size_t>(times) > most ? SIZE_MAX / 2 : static_cast<std::size_t>(times) * n * sizeof(Value));
}

Run::Level::Level(Run& run, int line) : run_(run) {
  if (run.depth_ >= run.limits_.depth) fail("the template nests deeper than {} evaluations", run.limits_.depth);
  run.step();
  run.line_ = line;
  ++run.depth_;
}

Value Run::text(std::string text) {
  build(text.size());
  return Value(std::move(text));
}

Value Run::list(std::vector<Value> items, Sequence::Kind kind) {
  build(items.size() * sizeof(Value));
  return Value::sequence(kind, std::move(items));
}

Value Run::generator(std::vector<Value> items, std::string type_name) {
  build(items.size() * sizeof(Value));
  return Value::iterator(std::move(type_name), std::move(items));
}

Value Run::dict(Dict dict) {
  build(dict.entries().size() * sizeof(Dict::Entry));
  return Value(std::make_shared<Dict>(std::move(dict)));
}

std::shared_ptr<Namespace> Run::new_namespace(Dict attributes) {
  build(sizeof(Namespace) + attributes.entries().size() * sizeof(Dict::Entry));
  namespaces_.push_back(std::make_shared<Namespace>(std::move(attributes)));
  return namespaces_.back();
}

const std::shared_ptr<Scope>& Run::capture_scope() {
  if (captured_.empty() || captured_.back() != scope_) {
    build(sizeof(Scope));
    captured_.push_back(scope_);
  }
  return scope_;
}

Value Run::lookup(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return it->second;
  }
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

Run::Inside::Inside(Run& run, std::shared_ptr<Scope> parent) : run_(run) {
  run.step(10);  // about what it costs beside an evaluated node
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  outer_ = std::exchange(run.scope_, std::move(scope));
}

void Run::write(std::string_view text) {
  build(text.size());
  if (output_->size() + text.size() > limits_.n_bytes_output) {
    throw Fault(ErrorKind::kOutOfMemory, fmt::format("the rendered text exceeds {} bytes", limits_.n_bytes_output));
  }
  *output_ += text;
}

std::tm Run::now() const {
  if (now_) return *now_;
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

TextBuilder& TextBuilder::repeat(std::string_view piece, std::int64_t times) {
  if (times <= 0 || piece.empty()) return *this;
  const auto n = static_cast<std::size_t>(times);
  if (n > run_.limits().n_bytes_built / piece.size()) {
    throw Fault(ErrorKind::kOutOfMemory,
                fmt::format("{} copies of {} bytes exceed the {} bytes that a template may build", n, piece.size(),
                            run_.limits().n_bytes_built));
  }
  run_.build(n * piece.size());
  for (std::size_t i = 0; i < n; ++i) text_ += piece;
  return *this;
}

}  // namespace mneme::jinja
