// Text that is JSON of a schema, whatever the model: every token is one that still leads to a text that matches.
//
//   example_constrained <model folder or .gguf> [request] [schema as JSON]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_constrained <model folder or .gguf> [request] [schema as JSON]\n";
    return 2;
  }
  const std::string request = argc > 2 ? argv[2] : "Describe the city of Paris as JSON.";
  const std::string schema = argc > 3 ? argv[3] : R"({
    "type": "object",
    "properties": {
      "city": {"type": "string", "maxLength": 40},
      "country": {"type": "string", "maxLength": 40},
      "inhabitants": {"type": "integer", "minimum": 0, "maximum": 50000000},
      "rivers": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3},
      "is_capital": {"type": "boolean"}
    },
    "required": ["city", "country", "inhabitants", "is_capital"]
  })";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(argv[1]);
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(argv[1]);
  const auto inputs = tokenizer.has_chat_template()
                          ? tokenizer.encode(tokenizer.apply_chat_template({{.role = "user", .content = request}},
                                                                           {.add_generation_prompt = true}),
                                             {.add_special_tokens = false})
                          : tokenizer.encode(request);

  // Made once for a schema and a tokenizer; any number of calls may share it.
  const auto constraint =
      std::make_shared<const mneme::JsonConstraint>(mneme::JsonSchema::parse(schema), tokenizer.tokenizer());
  const auto output = model->generate(inputs, {.max_new_tokens = 200, .json_constraint = constraint});
  std::cout << tokenizer.decode(output.new_tokens[0], {.skip_special_tokens = true}) << "\n"
            << (output.finish_reasons[0] == "stop" ? "whole" : "cut off") << " after " << output.new_tokens[0].size()
            << " tokens\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
