"""Record llama.cpp's token ids for the corpus below, the oracle of tests/model/test_gguf_tokenizer.

    llama-server -m SmolLM2-135M-Instruct.Q4_1.gguf --port 8080
    python tests/data/record_llama_cpp_ids.py http://127.0.0.1:8080 "llama.cpp b11549"

Writes tests/data/smollm2_llama_cpp_ids.json: for each text its ids with control-token spellings
taken as text (`plain`) and as tokens (`control`), both without BOS.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

TEXTS = [
    "",
    " ",
    "  ",
    "a",
    "Hello world",
    "Hello, world! How's it going? I'll say they've done what we'd do; it's 'quoted'.",
    "It was the best of times, it was the worst of times, it was the age of wisdom.",
    "THE QUICK Brown fOX",
    " leading space",
    "  two leading spaces",
    "trailing space ",
    "trailing spaces   ",
    "   both   ",
    "a  b   c    d     e",
    "tab\there\t\tand\t there",
    "\ttab first",
    "line\nline\n\nline\n\n\nline",
    "\n",
    "\n\n",
    "\n\n\n\n",
    "windows\r\nline\r\n\r\nends\r\n",
    "mixed \n \n\t\n end",
    "trailing newline\n",
    "0",
    "7 42 365 2026 31415926535",
    "3.14159 1,000,000 -17 +49 1e-9 0x1F 50% $9.99",
    "a  1",
    "a   12",
    "list:\n1. one\n2. two\n\n3. three\n\n\n10. ten",
    "\n1",
    "\n\n1",
    "\n \n1",
    "  42",
    "\t7",
    "x=1;y=22;z=333",
    "v1.2.3-rc4",
    "2026-11-29T23:59:59Z",
    "x² y³ ½ ¾ Ⅷ ① ٣٤٥ १२३ ４２",
    "  ½",
    "def f(x):\n    return x + 1\n\n\nclass A:\n\tpass\n",
    'for (int i = 0; i < 10; ++i) {\n        printf("%d\\n", arr[i]);\n}',
    '{"name": "mashbox", "n": [1, 2, 3], "ok": true, "none": null}',
    '<html><body class="a b"><!-- note --></body></html>',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x' -- comment",
    "#include <stdio.h>\n\n#define N 1024\n",
    "https://example.org/a/b?c=d&e=f%20g#h user@example.org C:\\dir\\file.txt",
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~",
    "... --- *** ___ ??? !!!",
    "don't DON'T 'tis rock'n'roll we'Re",
    "“curly” ‘quotes’ — dash – … ellipsis",
    "café naïve Zürich Ångström ÆØÅ ß ŒŞ",
    "cafe\u0301 n\u0303 a\u0308\u0323 Z\u0335\u0321\u0353a\u0334\u0341l\u0337go",
    "\u0301\u0301 alone",
    "日本語のテキストです。",
    "中文字符，没有空格。",
    "한국어 문장입니다.",
    "中文 mixed with English 和 123 数字",
    "مرحبا بالعالم، كيف حالك؟",
    "שלום עולם",
    "हिन्दी में पाठ",
    "ภาษาไทยไม่มีช่องว่าง",
    "Привет, мир! Ελληνικά κείμενο",
    "😀 😃 🎉",
    "👩\u200d👩\u200d👧\u200d👦 👍🏽 🏳️\u200d🌈 🇩🇪🇫🇷",
    "a😀b 1😀2",
    "🫠🪿🫨",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕏 𐍈",
    "zero\u200bwidth\u200djoin\ufeffbom",
    "nbsp\u00a0here\u00a0\u00a0two\u2003em\u3000ideographic",
    "\u2028line\u2029paragraph\u0085next",
    "nul\x00bell\x07esc\x1b[31mred\x1b[0m del\x7f",
    "\ufffd\ufffe private\ue000",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "text with <|im_end|> inside",
    "<|endoftext|>",
    "<|im_start|><|im_end|>",
    "a<|im_end|>b <|im_end|> c",
    "<|im_end|",
    "<|im_END|> <| im_end |> <im_end>",
    "<repo_name>x<file_sep>y<empty_output>",
    "<think>hm</think><tool_call>{}</tool_call>",
    "<issue_start><issue_comment>2<issue_closed>",
    "1<|im_end|>\n\n1",
    "s" * 300,
    "supercalifragilisticexpialidocious" * 8,
    "pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism",
    "0123456789" * 30,
    " " * 100,
    "\n" * 50,
    "\t" * 20 + "x",
    " " * 33 + "x = 1",
    "=" * 80,
    "- " * 40,
    "ab" * 200,
    "日" * 64,
    "😀" * 20,
    "aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0IQ== deadbeefcafebabe0123",
    "\\frac{1}{2} \\sum_{i=0}^{n} x_i^2 \\alpha\\beta",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "```python\nprint('hi')\n```\n\n> quote\n\n* item\n    * nested\n",
    "snake_case camelCase PascalCase SCREAMING_SNAKE kebab-case",
]


def tokenize(server: str, text: str, control: bool) -> list[int]:
    """Ask llama-server for the ids of `text`."""
    body = json.dumps({"content": text, "add_special": False, "parse_special": control})
    request = urllib.request.Request(
        f"{server}/tokenize", body.encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        ids: list[int] = json.load(answer)["tokens"]
    return ids


def main() -> None:
    """Write the ids of every text beside this script."""
    server, version = sys.argv[1:]
    rows = [
        {"text": t, "plain": tokenize(server, t, False), "control": tokenize(server, t, True)}
        for t in TEXTS
    ]
    path = Path(__file__).with_name("smollm2_llama_cpp_ids.json")
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"made_with": {json.dumps(version)},\n"texts": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
