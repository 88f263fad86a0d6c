// A loop of one's own around forward(): chat template, a mask that grows, greedy choice, decode.
//
//   example_custom_loop <model folder or .gguf> [message]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_custom_loop <model folder or .gguf> [message]\n";
    return 2;
  }
  const std::string path = argv[1], message = argc > 2 ? argv[2] : "Hello, what's your name?";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);

  // The template writes its own special tokens, so encode() must not add them again.
  const std::string chat =
      tokenizer.apply_chat_template({{.role = "user", .content = message}}, {.add_generation_prompt = true});
  auto inputs = tokenizer.encode(chat, {.add_special_tokens = false});

  auto cache = mneme::DynamicCache(model->config());
  at::Tensor generated = inputs.input_ids, next = inputs.input_ids, mask = inputs.attention_mask;
  for (int step = 0; step < 40; ++step) {
    const at::Tensor logits = model->forward({.input_ids = next, .attention_mask = mask}, &cache).logits;
    next = logits.select(1, -1).argmax(-1, /*keepdim=*/true);  // [1, 1]
    generated = at::cat({generated, next}, 1);
    const auto& eos = *model->generation_config().eos_token_id;
    if (std::find(eos.begin(), eos.end(), next.item<std::int64_t>()) != eos.end()) break;
    mask = at::cat({mask, mask.new_ones({mask.size(0), 1})}, 1);  // [1, past + 1]
  }
  std::cout << tokenizer.decode(generated) << "\n\n" << cache.seq_length() << " tokens cached\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
