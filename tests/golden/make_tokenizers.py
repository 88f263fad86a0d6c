#!/usr/bin/env python3
"""Train small tokenizers of every family and write what Hugging Face's libraries answer for tricky texts.

Training breaks ties by chance, so each run makes other vocabularies; the answers belong to the files beside them.

    pip install tokenizers==0.23.3 transformers==5.23.0 gguf==0.19.0 torch sentencepiece==0.2.3 protobuf
    python make_tokenizers.py tokenizers/ [NAME..]

texts.json            the texts, one list for all tokenizers
classes.json          ranges of characters by the classes that normalizers and pre-tokenizers ask for
regexes.json          patterns in Oniguruma's syntax, and the pieces that Split makes of texts with them
NAME.json             {"tokenizer", "config", "ids", "special_ids", "decoded", "skipped", "lists", "list_texts"}
  ids, special_ids    of each text, without and with special tokens added
  decoded, skipped    decode(special_ids) of each text, with special tokens kept and skipped
  lists, list_texts   random ids and decode of them: invalid UTF-8, unfinished byte runs, special tokens
NAME.gguf, NAME.gguf.json   the same for a vocabulary in GGUF metadata, as transformers reads it (no "tokenizer", "config")
"""
import json, os, random, sys
import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P, processors as PP, trainers

CORPUS = """The quick brown fox jumps over the lazy dog. It's what we'll do, they've said; I'm sure you'd agree, isn't it? HELLO World.
def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n
Numbers: 1 22 333 4444 55555 1234567 3.14159 2024-01-31 10:30. Prices: $5, 7 euros and 100%.
Le café naïve du garçon, où êtes-vous? Straße, Ünïcödé, Übermut, smörgåsbord. El niño comió piña mañana.
Здравствуй, мир! Как дела? Всё хорошо. Привет мир, мир труд май.
日本語のテキストです。東京は日本の首都です。中文字符也很重要，我们学习中文。한국어 문장도 있습니다.
مرحبا بالعالم كيف حالك اليوم. שלום עולם. हिन्दी में पाठ। ภาษาไทย
for (int i = 0; i < 10; ++i) { x[i] = ~y[i]; } // comment\n\tint main(void)\t{ return 0; }\r\n
https://example.com/a?b=c&d=%20#e user@example.com #hashtag @mention snake_case camelCase SCREAMING_CASE
Emoji 😀 😃 👍 ✨ 🎉 and symbols → ← ∞ ≠ ≤ ≥ © ® ™ … — – “quotes” ‘single’
the there then them they this that these those the there then them they this that these those in on at to of and a
    indented text\n        more indented text\n            even more\n\n\nblank lines above   and   spaces   inside  here""" * 3

TEXTS = """Hello, world!| leading and  double  spaces |tabs\\tand\\nnewlines\\r\\n\\n|it's we'll they've I'M|1234567890 3.14159|naïve café Ünïcödé
日本語のテキスト|emoji 👩‍👩‍👧‍👦 🏳️‍🌈 ✨|مرحبا بالعالم|Здравствуй, мир|a\\u0301 vs á|\\u200bzero\\u200dwidth|code: for(int i=0;i<10;++i){x[i]=~y[i];}|| |  |   
\\n|\\n\\n|\\n\\n\\n|\\r\\n|\\r|\\t|\\t\\t|\\u0000nul|a\\u0000b|ﬁ ligature ①②|URL https://example.com/a?b=c&d=%20#e|हिन्दी ไทย 한국어|    indented\\n        code
1|12|123|1234|12345|123456|1234567| 1| 12|  123|a1b22c333|1.5e-10|x²+y³=z¼|٣٤٥|Ⅷ Ⅻ|½ cup|1,234,567.89|0x1F|２０２４
IT'S WE'LL THEY'VE I'D YOU'RE|it’s we’ll|don't can't won't|'s 't 're 've 'm 'll 'd|'S'T'RE|'ſ 'ſt|O'Brien's|rock'n'roll|''|'|"quoted" 'single'
\\u2028line\\u2029para|a\\u2028b|a\\u2029 b|nbsp\\u00a0here|\\u00a0\\u00a0x|\\u3000ideographic\\u3000space|\\u1680ogham|em\\u2003space|\\u180emongolian a\\u180eb|\\u0085nel|\\u000bvt\\u000cff|\\u001cfs|\\ufeffbom|\\u2060wj|soft\\u00adhyphen
e\\u0301\\u0301\\u0301|Å Å Å|\\u1e9b\\u0323|q\\u0307\\u0323|q\\u0323\\u0307|가 각 \\u1100\\u1161\\u11a8|İstanbul ıI iİ|ΑΣΟΣ ὈΔΥΣΣΕΎΣ|ǆ ǅ Ǆ|ß ẞ SS|ﬀ ﬃ ﬄ|ｆｕｌｌｗｉｄｔｈ ＡＢＣ|㍿ ㌀ ㎏|ﷺ
中文字符|中 文 字|漢字かなカナ|々〆〇|東京2024年|𠀀𠀁|한국어 문장|ㄱㄴㄷ|我们123学习|日本,日本。日本!
😀|😀😀|😀 😀|a😀b|👍🏽👍🏿|🇩🇪🇯🇵|👨‍👩‍👧|❤️|☺|1️⃣2️⃣|🩷🩵|👁️‍🗨️
 <s> |<s>|</s>|<s>text</s>|a<s>b|a <s> b|  <s>  |<unk>|<pad>|<|im_start|>user\\nhi<|im_end|>\\n|<|endoftext|>|x <|endoftext|> y|<|endoftext|><|endoftext|>|<mask>| <mask> |word<mask>word|[MASK] a [MASK]|[UNK]|[CLS] [SEP]
yesterday|Yesterday|yesterdays|my yesterday, all|ayesterday|yesterday_|élan yesterdayé|NEWTOKEN newtoken|<think>hm</think>|a<end>  b|<end>\\n\\nx|<0x41>|<0x0A>|a<0xE2>b
▁|▁▁|▁leading|a▁b|▁ a| ▁|##ing ing|</w> w|a</w>
.|..|...|....|!?!?|,.;:|(a)[b]{c}|<>|a<b>c|@#$%^&*|~`|\\\\|/|//|a/b/c|--|---|a--b|_|__init__|$a+b=c|a|A|aA|ab|Ab aB AB|CamelCaseString|HTTPServer|snake_case_name|kebab-case-name
 a|  a|   a|a |a  |a   | a |\\ta|a\\t|\\n a| \\na|a \\n b|a\\n\\nb|a\\n \\nb|a \\r\\n b|a\\r\\n\\r\\nb|\\n\\n  \\n x|  \\n|\\t \\t|a \\u00a0 b
def f(x):\\n    return x + 1\\n|if (a && b || c) {|for i in range(10):|#include <vector>|SELECT * FROM t WHERE a = 'b';|{"key": [1, 2.5, null]}|<div class="a">b</div>|\\\\frac{1}{2}|C:\\\\dir\\\\file|a=b&c=d
The quick brown fox jumps over the lazy dog.|THE QUICK BROWN FOX|the  quick   brown    fox|thequickbrownfox|Le garçon où êtes-vous?|smörgåsbord STRASSE|El niño comió piña mañana.|Привет мир|ПРИВЕТ|שלום עולם|ภาษาไทยไม่มีช่องว่าง|தமிழ்|ქართული|հայերեն|አማርኛ|བོད|ᏣᎳᎩ|𝓗𝓮𝓵𝓵𝓸 𝟙𝟚𝟛|ⓗⓔⓛⓛⓞ|\\U0010ffff|\\ue000|\\ufffd|\\ufffe|a\\u0378b"""

def texts():
    out = [t.encode("ascii", "backslashreplace").decode("unicode_escape") for line in TEXTS.split("\n") for t in split_line(line)]
    out += ["x" * 300, "ab" * 200, " " * 100, "\n" * 50, "é" * 100, "日" * 100, "😀" * 40, "1" * 50, "a " * 100, "'" * 30, "\u0301" * 20]
    rng = random.Random(7)
    pool = ["the", "The", " ", "  ", "\n", "\r\n", "\t", "1", "23", "4567", "'s", "'LL", "é", "e\u0301", "日本", "中", "😀", "👩‍👩‍👧", ".", "...", "!?", "_", "-", "<s>", "</s>",
            "<|endoftext|>", "<mask>", "<end>", "yesterday", "▁", "\u2029", "\u00a0", "мир", "ß", "ſ", "\u0000", "\u200d", "x²", "$", "+", "(", ")", "[", "]", "世界", "ไ", "ی", "\u3000", "K", "fox", "<think>"]
    for _ in range(120):
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(2, 14))))
    return list(dict.fromkeys(out))

def split_line(line):
    """At '|', but not inside special tokens such as <|im_start|>."""
    return line.replace("<|", "\x01").replace("|>", "\x02").replace("|", "\x03").replace("\x01", "<|").replace("\x02", "|>").split("\x03")

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

def special(*names, **flags): return [AddedToken(n, special=True, normalized=False, **flags) for n in names]

def train(tokenizer, size, alphabet=(), **kwargs):
    lines = CORPUS.split("\n")
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), show_progress=False, min_frequency=1, **kwargs))

def byte_level(size, pre, normalizer=None, **bpe):
    t = Tokenizer(models.BPE(**bpe)); t.pre_tokenizer = pre; t.decoder = D.ByteLevel()
    if normalizer: t.normalizer = normalizer
    train(t, size, P.ByteLevel.alphabet())
    return t

def gpt2():
    t = byte_level(700, P.ByteLevel(add_prefix_space=False)); t.post_processor = PP.ByteLevel(trim_offsets=False)
    t.add_special_tokens(special("<|endoftext|>")); return t, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}

def llama3():
    t = byte_level(800, P.Sequence([P.Split(Regex(LLAMA3), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    t.add_special_tokens(special("<|begin_of_text|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    b = t.token_to_id("<|begin_of_text|>")
    t.post_processor = PP.Sequence([PP.ByteLevel(trim_offsets=True), PP.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B", special_tokens=[("<|begin_of_text|>", b)])])
    return t, {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>", "clean_up_tokenization_spaces": True}

def qwen2():
    t = byte_level(700, P.Sequence([P.Split(Regex(QWEN2), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]), N.NFC())
    t.post_processor = PP.ByteLevel(); t.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return t, {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None}

def smollm2():
    t = byte_level(700, P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)]))
    t.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>")); return t, {"bos_token": "<|im_start|>"}

def roberta():
    t = byte_level(700, P.ByteLevel(add_prefix_space=True)); t.add_special_tokens(special("<s>", "</s>", "<pad>") + special("<mask>", lstrip=True))
    t.post_processor = PP.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), add_prefix_space=True)
    return t, {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "__type": "AddedToken"}}

def kimi():
    t = byte_level(700, P.Sequence([P.Split(Regex(KIMI), "isolated"), P.Split(Regex(r"\b_+\b|[[:punct:]&&[^_]]+|\h{4}"), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.add_special_tokens(special("<|endoftext|>")); return t, {}

def splits():
    """Every split behaviour and the smaller pre-tokenizers."""
    t = byte_level(600, P.Sequence([P.CharDelimiterSplit("|"), P.Split("-", "merged_with_previous"), P.Split(Regex(r"_"), "merged_with_next"), P.Split(Regex(r"\w+|\s+"), "isolated", invert=True),
        P.Split(Regex(r"[.!]"), "contiguous"), P.Split("~", "removed"), P.Punctuation("contiguous"), P.Digits(False), P.ByteLevel(add_prefix_space=False)]))
    t.add_tokens([AddedToken("yesterday", single_word=True), AddedToken("newtoken", normalized=True), AddedToken("<end>", rstrip=True), AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    return t, {}

def metaspaced(size):
    """A vocabulary as SentencePiece's BPE with byte fallback makes it."""
    t = Tokenizer(models.BPE()); t.pre_tokenizer = P.Metaspace(prepend_scheme="always"); train(t, size)
    model = json.loads(t.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    pieces = [p for p in model["vocab"] if p not in tokens]
    merged = ["".join(m) for m in model["merges"]]
    tokens += merged + [p for p in pieces if p not in merged]
    return {p: i for i, p in enumerate(dict.fromkeys(tokens))}, [tuple(m) for m in model["merges"]]

SP = [D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]

def sentencepiece(size=900, unk="<unk>"):
    v, m = metaspaced(size)
    t = Tokenizer(models.BPE(v, m, unk_token=unk, fuse_unk=True, byte_fallback=True)); t.add_special_tokens(special("<unk>", "<s>", "</s>"))
    t.post_processor = PP.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t

def llama2():
    t = sentencepiece(); t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]); t.decoder = D.Sequence(SP + [D.Strip(" ", 1, 0)])
    t.add_tokens([AddedToken("newtoken", normalized=True)])
    return t, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

def mistral():
    t = sentencepiece(); t.pre_tokenizer = P.Metaspace(prepend_scheme="first", split=False); t.decoder = D.Sequence(SP + [D.Strip(" ", 1, 0)])
    t.post_processor = PP.TemplateProcessing(single="<s> $A </s>", pair="<s> $A <s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "additional_special_tokens": ["<mask>"]}

def gemma():
    t = sentencepiece(); t.normalizer = N.Replace(" ", "▁"); t.pre_tokenizer = P.Split(" ", "merged_with_previous"); t.decoder = D.Sequence(SP)
    t.add_tokens([AddedToken(x, normalized=False) for x in ["\n\n", "\n\n\n", "▁▁", "▁▁▁", "\t\t", "<think>"]]); t.add_special_tokens(special("<pad>", "<mask>"))
    return t, {"bos_token": "<s>"}

def phi3():
    t = sentencepiece(); t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]); t.decoder = D.Sequence(SP + [D.Strip(" ", 1, 0)])
    t.add_special_tokens(special("<|endoftext|>") + special("<end>", "<|im_end|>", rstrip=True))
    return t, {"added_tokens_decoder": {"2": {"content": "</s>", "lstrip": False, "normalized": False, "rstrip": True, "single_word": False, "special": False}}}

def metaspace():
    """Metaspace with words, unknown characters fused to one, no bytes, and a normalizer of many steps."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True)); t.pre_tokenizer = P.Metaspace(prepend_scheme="always", split=True); t.decoder = D.Metaspace(prepend_scheme="always")
    t.normalizer = N.Sequence([N.Nmt(), N.NFKC(), N.Lowercase(), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), " ")])
    train(t, 500, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=80)
    t.add_tokens([AddedToken("Yesterday"), AddedToken("<END>", rstrip=True)]); return t, {}

def bert():
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##")); t.normalizer = N.BertNormalizer(); t.pre_tokenizer = P.BertPreTokenizer(); t.decoder = D.WordPiece(prefix="##", cleanup=True)
    train(t, 600, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], continuing_subword_prefix="##", limit_alphabet=150)
    t.post_processor = PP.BertProcessing(("[SEP]", 2), ("[CLS]", 1)); return t, {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}

def words():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")); t.normalizer = N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]); t.pre_tokenizer = P.Whitespace(); t.decoder = D.BPEDecoder()
    train(t, 600, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=120)
    return t, {"unk_token": "<unk>", "clean_up_tokenization_spaces": True, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True}

def bare():
    """No normalizer, no pre-tokenizer but WhitespaceSplit, no decoder, no post-processor; NFKD."""
    t = Tokenizer(models.BPE()); t.normalizer = N.NFKD(); t.pre_tokenizer = P.WhitespaceSplit(); train(t, 600); return t, {}

def o200k():
    """As gpt-oss has it."""
    t = byte_level(700, P.Sequence([P.Split(Regex(O200K), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    t.add_special_tokens(special("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|im_start|>", "<|im_end|>")); return t, {"eos_token": "<|return|>"}

def cl100k():
    t = byte_level(600, P.Sequence([P.Split(Regex(CL100K), "removed", invert=True), P.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.add_special_tokens(special("<|endoftext|>")); return t, {}

RULES = {"\ufb01": "fi", "\ufb03": "ffi", "\u2460": "1", "\u2461": "2", "\u2126": "\u03a9", "\u00bd": "1\u20442", "\u00b2": "2", "\u2026": "...", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ",
         "\u200b": "", "\ufeff": "", "\u00ad": "", "\r": "", "e\u0301": "\u00e9", "a\u0301": "\u00e1", "\u0301": "", "\ufdfa": "\u0635\u0644\u0649", "\u334d": "\u30e1\u30fc\u30c8\u30eb",
         "q\u0307": "Q", "\u1100\u1161": "\uac00", "\u2168": "IX", "\u2167": "VIII", "\U0001d4d7": "H", "\u2028": " ", "\u2029": " ", "\r\n": "\n "}
RULES |= {chr(0xff01 + i): chr(0x21 + i) for i in range(94)}

def charsmap():
    """SentencePiece's table of a few rules."""
    import base64, tempfile, sentencepiece, sentencepiece.sentencepiece_model_pb2 as proto
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rules.tsv", "w") as f:
            for key, value in RULES.items(): f.write(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n")
        with open(folder + "/text", "w") as f: f.write(CORPUS)
        sentencepiece.SentencePieceTrainer.train(input=folder + "/text", model_prefix=folder + "/m", vocab_size=500, hard_vocab_limit=False,
                                                 normalization_rule_tsv=folder + "/rules.tsv", minloglevel=3)
        model = proto.ModelProto(); model.ParseFromString(open(folder + "/m.model", "rb").read())
    return model.normalizer_spec.precompiled_charsmap

def unigram(size, pre, **options):
    """options: of the model that is trained."""
    t = Tokenizer(models.Unigram()); t.pre_tokenizer = pre
    t.train_from_iterator(CORPUS.split("\n"), trainers.UnigramTrainer(vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    model = json.loads(t.to_str())["model"]
    vocab = [tuple(entry) for entry in model["vocab"]]
    if options.get("byte_fallback"): vocab += [("<0x%02X>" % b, -20.0) for b in range(256)]
    t.model = models.Unigram(vocab, 2, options.get("byte_fallback", False))
    return t

def t5():
    """Unigram behind SentencePiece's table and metaspaces; unknown characters are one token."""
    pre = P.Metaspace(prepend_scheme="always", split=True)
    t = unigram(500, P.Sequence([P.WhitespaceSplit(), pre])); t.normalizer = N.Precompiled(charsmap()); t.decoder = D.Metaspace(prepend_scheme="always")
    t.add_special_tokens(special("<pad>", "</s>", "<unk>", "<mask>"))
    t.post_processor = PP.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t, {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_special_tokens": ["<end>"]}

def xlm():
    """Unigram with bytes for what is unknown, words only where the text begins."""
    t = unigram(700, P.Metaspace(prepend_scheme="first", split=False), byte_fallback=True)
    t.normalizer = N.Sequence([N.Precompiled(charsmap()), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "▁")])
    t.decoder = D.Sequence(SP + [D.Strip(" ", 1, 0)]); t.add_special_tokens(special("<pad>", "</s>", "<unk>") + special("<mask>", lstrip=True))
    return t, {"eos_token": "</s>"}

def wordpiece():
    """BERT's, cased."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40)); t.normalizer = N.BertNormalizer(lowercase=False, strip_accents=False); t.pre_tokenizer = P.BertPreTokenizer(); t.decoder = D.WordPiece(prefix="##", cleanup=True)
    t.train_from_iterator(CORPUS.split("\n"), trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=150, show_progress=False))
    t.post_processor = PP.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t, {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]", "clean_up_tokenization_spaces": True}

def uncased():
    """BERT's, uncased, with another prefix and no accents."""
    t = Tokenizer(models.WordPiece(unk_token="<unk>", continuing_subword_prefix="@@")); t.normalizer = N.BertNormalizer(); t.pre_tokenizer = P.BertPreTokenizer(); t.decoder = D.WordPiece(prefix="@@", cleanup=False)
    t.train_from_iterator(CORPUS.split("\n"), trainers.WordPieceTrainer(vocab_size=500, special_tokens=["<unk>"], continuing_subword_prefix="@@", limit_alphabet=100, show_progress=False))
    t.add_tokens([AddedToken("yesterday", single_word=True), AddedToken("NEWTOKEN", normalized=True)])
    return t, {"unk_token": "<unk>"}

PATTERNS = [LLAMA3, QWEN2, KIMI, r"^a", r"a$", r"b.", r"(?m)b.", r"\h+", r"\H+", r"\w+", r"\W+", r"[\W]+", r"[^\W\d]+", r"\s+", r"\S+", r"[^\S\n]+", r"[\S]+", r"\d+", r"\D+", r"(?i:'s)", r"[a[bc]]+",
            r"[a-z&&[^aeiou]]+", r"[^a-z&&[^aeiou]]+", r"[\p{L}&&\p{ASCII}&&[^x]]+", r"\p{Letter}+", r"\p{Han}+", r"\p{Greek}+", r"\p{Hiragana}+", r"a{,2}", r"a{2}", r"a{1,2}?", r"{a", r"a{x}", r"\u3042+", r"\x{3042}|\x41",
            r"\p{^L}+", r"\P{L}+", r"[\P{L}]+", r"[\p{^Lu}a]+", r"[]a]+", r"\p{Punct}+", r"[[:punct:]]+", r"[[:alpha:]]+", r"[[:^alpha:]]+", r"[[:alnum:]]+", r"[[:space:]]+", r"[[:upper:]]+", r"[[:lower:]]+", r"[[:digit:]]+",
            r"[[:xdigit:]]+", r"[[:cntrl:]]+", r"[[:word:]]+", r"[[:blank:]]+", r"\p{Alnum}+", r"\p{Space}+", r"\p{Word}+", r"\p{White_Space}+", r"\p{Emoji}+", r"\p{Sc}+", r"\p{Lu}\p{Ll}", r"", r"x*", r"\s*", r"(?=b)", r"(?<=a)b", r"(?<!a)b",
            r"\bfoo\b", r"\Bo\B", r"(?<n>a)\k<n>", r"(a)(b)?\1", r"a++b", r"(?>a+)b", r"[\t\n\v\f\r\e\a]+", r"\v", r"[\b]", r"\012", r"[+--]+", r"[a\-z]+", r"[a-]+", r"[\]\[]+", r"\/", r"\é", r"(?#comment)a", r"(?i)STRASE|É", r"(?i-m:É)",
            r"\R", r"\Aa|b\z", r"[一-龥぀-ゟ゠-ヿ]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

REGEX_TEXTS = ["b\nac\na", "ab\nb\r\nb", "xabz f09 hello World", "a\u0301b\u203fc\u200dd²Ⅷ٣ⒶÄß", "a\u180eb\u0085c\x1cd\x0be\u2028f \u00a0\t", "a1²٣Ⅷ½ 'S'ſ's", "漢字かなカナ々〆αβγ", "aaaaaaa{a{x}]a-+,z/", "ああA\x01\x07\x1b\n",
               "foo\u0301 foo foo_ food aab abab", "a$+,!?—“”€£©™→≠_", "STRASSE straße É é", "😀👩‍👩‍👧❤️ 1️⃣", "xxbxx  b  ", "a\\b|c~d^e`f[g]h{i}j", "Ｆｕｌｌ　ﬁ ǅ ª º µ", "\x08\x0b\x0c", "日本語 text 中文，标点。"]

def regexes():
    out = {"texts": REGEX_TEXTS, "patterns": []}
    for p in PATTERNS:
        split = P.Split(Regex(p), "isolated")
        out["patterns"].append({"pattern": p, "pieces": [[piece for piece, _ in split.pre_tokenize_str(t)] for t in REGEX_TEXTS]})
    return out

def classes():
    """Ranges of the characters that are a mark, punctuation or a control to each component."""
    bert = lambda **on: N.BertNormalizer(**{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **on})
    drops = lambda normalizer: lambda c: normalizer.normalize_str("x" + c) == "x"
    punctuation = P.Punctuation("isolated")
    tests = {"nonspacing_mark": drops(bert(strip_accents=True)), "mark": drops(N.StripAccents()), "invisible_other": drops(bert(clean_text=True)),
             "punctuation": lambda c: len(punctuation.pre_tokenize_str("x" + c + "x")) == 3}
    out = {}
    for name, test in tests.items():
        ranges = out[name] = []
        for c in range(0x110000):
            if 0xd800 <= c < 0xe000 or not test(chr(c)): continue
            if ranges and ranges[-1][1] == c - 1: ranges[-1][1] = c
            else: ranges.append([c, c])
    return out

def fast(tokenizer, config):
    """What transformers makes of the two files."""
    import tempfile
    from transformers import AutoTokenizer
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder + "/tokenizer.json")
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **config}, open(folder + "/tokenizer_config.json", "w"))
        return AutoTokenizer.from_pretrained(folder)

def answers(tok, all_texts, seed):
    """Random ids stay inside what tokenizers knows."""
    out = {"ids": [tok.encode(t, add_special_tokens=False) for t in all_texts], "special_ids": [tok.encode(t) for t in all_texts]}
    out["decoded"] = [tok.decode(i) for i in out["special_ids"]]
    out["skipped"] = [tok.decode(i, skip_special_tokens=True) for i in out["special_ids"]]
    rng = random.Random(seed)
    out["lists"] = [[rng.randrange(len(tok)) for _ in range(rng.randint(1, 12))] for _ in range(60)]
    out["list_texts"] = [tok.decode(i) for i in out["lists"]]
    # Most answers repeat another one: null stands for "the same as ids", "the text" and "the same as decoded".
    out["special_ids"] = [None if a == b else a for a, b in zip(out["special_ids"], out["ids"])]
    out["skipped"] = [None if a == b else a for a, b in zip(out["skipped"], out["decoded"])]
    out["decoded"] = [None if a == b else a for a, b in zip(out["decoded"], all_texts)]
    return out

def dump(path, data): open(path, "w").write(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")

def write_gguf(path, architecture, model, tokens, types, **keys):
    w = gguf.GGUFWriter(path, architecture); w.add_tokenizer_model(model); w.add_token_list(tokens); w.add_token_types(types)
    for key, value in keys.items():
        if key == "merges": w.add_token_merges(value)
        elif key == "scores": w.add_token_scores(value)
        elif key == "pre": w.add_tokenizer_pre(value)
        elif isinstance(value, bool): w.add_bool("tokenizer.ggml." + key, value)
        elif isinstance(value, str): w.add_string("tokenizer." + key, value)
        else: w.add_uint32("tokenizer.ggml." + key, value)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def gguf_files(folder):
    """{name: path} of small vocabularies in GGUF."""
    out = {}
    for name, architecture in [("llama", "llama"), ("phi3", "phi3"), ("gemma", "gemma2")]:
        v, _ = metaspaced(800); tokens = list(v)
        if name == "gemma": tokens[:3] = ["<unk>", "<bos>", "<eos>"]
        types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
        scores = [0.0] * 259 + [-float(i // 2) for i in range(len(tokens) - 259)]   # pairs of tokens share a score
        extra = ["<think>", "  ", "   ", "<|im_end|>", "<pad>", "<mask>"]; tokens += extra; types += [4, 4, 4, 3, 3, 3]; scores += [0.0] * 6
        out[name] = f"{folder}/{name}.gguf"
        keys = {"bos_token_id": tokens.index("<bos>" if name == "gemma" else "<s>"), "eos_token_id": tokens.index("<eos>" if name == "gemma" else "</s>"), "unknown_token_id": tokens.index("<unk>"), "chat_template": "{{ messages[0].content }}"}
        if name == "phi3": keys["add_bos_token"] = False
        write_gguf(out[name], architecture, "llama", tokens, types, scores=scores, **keys)
    for name, pre in [("llama-bpe", "llama-bpe"), ("qwen2", "qwen2"), ("tekken", "tekken"), ("gpt-4o", "gpt-4o"), ("default", "default"), ("smollm", "smollm")]:
        if name in ("gpt-4o", "smollm"): continue   # the same code with another row of a table
        t, _ = gpt2(); model = json.loads(t.to_str())["model"]; tokens = list(model["vocab"]); types = [1] * len(tokens)
        tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"]; types += [3, 3, 3, 4]; n = len(tokens)
        out[name] = f"{folder}/{name}.gguf"
        write_gguf(out[name], "llama", "gpt2", tokens, types, pre=pre, merges=[" ".join(m) for m in model["merges"]], bos_token_id=n - 3, eos_token_id=n - 2, add_bos_token=name == "llama-bpe", add_eos_token=name == "qwen2")
    return out

def fast_from_gguf(path):
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer
    architecture, tokenizer, config = get_gguf_tokenizer(path)
    return PreTrainedTokenizerFast(tokenizer_object=convert_gguf_tokenizer(architecture, tokenizer)[0], **config)

def main():
    folder, only = sys.argv[1], sys.argv[2:]; os.makedirs(folder, exist_ok=True); all_texts = texts()
    for make in [gpt2, llama3, qwen2, smollm2, roberta, kimi, o200k, cl100k, splits, llama2, mistral, gemma, phi3, metaspace, bert, words, bare, t5, xlm, wordpiece, uncased]:
        if only and make.__name__ not in only: continue
        tokenizer, config = make()
        dump(f"{folder}/{make.__name__}.json", {"tokenizer": json.loads(tokenizer.to_str()), "config": config, **answers(fast(tokenizer, config), all_texts, make.__name__)})
    if only: return
    dump(f"{folder}/texts.json", all_texts); dump(f"{folder}/regexes.json", regexes()); dump(f"{folder}/classes.json", classes())
    for name, path in gguf_files(folder).items():
        dump(f"{folder}/{name}.gguf.json", answers(fast_from_gguf(path), all_texts, name))

if __name__ == "__main__": main()
