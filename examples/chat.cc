// A conversation of three turns that computes no token twice, and a turn that is taken back and said differently.
//
//   example_chat <model folder or .gguf> [question]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_chat <model folder or .gguf> [question]\n";
    return 2;
  }
  const std::string path = argv[1], question = argc > 2 ? argv[2] : "What is the capital of France?";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = std::make_shared<const mneme::TextTokenizer>(mneme::AutoTokenizer::from_pretrained(path));

  mneme::ChatSession chat(model, tokenizer, {.generate = {.max_new_tokens = 40}});
  chat.set_system_prompt("You are a helpful assistant.");
  const auto say = [&](const std::string& text) {
    std::cout << "> " << text << "\n";
    const mneme::ChatReply reply = chat.say(text, [](std::string_view piece) { std::cout << piece << std::flush; });
    std::cout << "\n[" << reply.cached_tokens << " of " << reply.prompt_tokens << " tokens were in the cache]\n";
  };
  say(question);
  say("Say that in other words.");
  chat.undo();  // as if it had never been said
  say("Say that again.");
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
