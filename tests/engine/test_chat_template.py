import re
from typing import Any

import pytest
from hypothesis import given, settings

from engine.chat_template import ChatTemplate
from engine.errors import BadPrompt, ModelError
from engine.messages import Ready
from engine.model_format import detect_format
from engine.request import ChatPrompt, Message, Role
from engine.tokenizer import Segment, Tokenizer
from tests.engine.small_tokenizers import (
    ADDED,
    SPECIAL,
    byte_level,
    metaspace,
    ready,
    smollm2,
    words,
)

ALL = 10**9
TOKENIZER = Tokenizer(ready(byte_level()))
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if m.role != loop.cycle('user', 'assistant') %}"
    "{{ raise_exception('roles must alternate, ' + m.content) }}{% endif %}"
    "[{{ m.role }}:{{ m.content }}]{% endfor %}"
)


def chat(template: str | None, **special_tokens: str) -> ChatTemplate:
    return template_of(ready(byte_level(), template, **special_tokens), TOKENIZER)


def template_of(message: Ready, tokenizer: Tokenizer) -> ChatTemplate:
    return ChatTemplate(message, tokenizer, detect_format(message.chat_template))


def prompt(*turns: tuple[Role, str], **kwargs: Any) -> ChatPrompt:
    return ChatPrompt(
        tuple(Message(role, content) for role, content in turns), template_kwargs=kwargs
    )


def text(segments: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in segments)


def rendered(template: str | None, *turns: tuple[Role, str], **kwargs: Any) -> str:
    return text(chat(template).render(prompt(*turns, **kwargs)))


def control_ids(ids: tuple[int, ...]) -> list[str]:
    names = {TOKENIZER._full.token_to_id(token): token for token in [*SPECIAL, *ADDED]}
    return [names[token_id] for token_id in ids if token_id in names]


def test_conversation_is_rendered_with_an_open_answer() -> None:
    turns: list[tuple[Role, str]] = [("user", " hi\n"), ("assistant", "yes"), ("user", "")]
    assert rendered(CHATML, *turns) == (
        "<|im_start|>user\n hi\n<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
        "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
    )


@settings(max_examples=150)
@given(words, words)
def test_only_the_template_makes_control_tokens(system: str, user: str) -> None:
    encoded = chat(CHATML).encode(prompt(("system", system), ("user", user)), ALL).prompt
    assert control_ids(encoded.ids) == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    spoken = "".join(TOKENIZER.token_bytes(i, False).decode("latin-1") for i in encoded.ids).encode(
        "latin-1"
    )
    assert spoken.decode() == f"system\n{system}\nuser\n{user}\nassistant\n"


def test_prompt_without_spelled_tokens_has_the_ids_of_the_rendered_text() -> None:
    request = prompt(("user", "hello <b>world</b>\n" * 3))
    whole = TOKENIZER._full.encode(rendered(CHATML, ("user", "hello <b>world</b>\n" * 3)))
    assert list(chat(CHATML).encode(request, ALL).prompt.ids) == whole.ids


def test_long_prompt_has_the_ids_of_the_rendered_text() -> None:
    content = "hello there, it's 12 o'clock.\nNew line " * 3_000
    whole = TOKENIZER._full.encode(rendered(CHATML, ("user", content)))
    encoded = chat(CHATML).encode(prompt(("user", content)), 10).prompt
    assert (list(encoded.ids), encoded.total) == (whole.ids[:10], len(whole.ids))


def test_no_second_bos_is_added() -> None:
    tokenizer = Tokenizer(ready(metaspace("first")))
    template = template_of(ready("", "{{ bos_token }}hello", bos_token="<s>"), tokenizer)
    ids = template.encode(prompt(("user", "x")), ALL).prompt.ids
    assert ids.count(1) == 1 and ids[0] == 1


def test_control_tokens_spelled_in_template_arguments_are_plain_text() -> None:
    template = "<|im_start|>{{ style.tone[0] }}{% for k in style %}{{ k }}{% endfor %}<|im_end|>"
    request = prompt(("user", "x"), style={"tone": ["<|im_end|>"], "<think>": 1})
    segments = chat(template).render(request)
    assert segments[1] == Segment("<|im_end|>tone<think>")


def test_template_may_trim_and_compare_client_text() -> None:
    template = "{{ messages[0].content | trim }}{{ mode == 'high' }}{{ on is true }}"
    assert rendered(template, ("user", " <think> "), mode="high", on=True) == "<think>TrueTrue"


def test_control_token_joined_from_client_texts_is_plain_text() -> None:
    template = "<s>{{ messages[0].content }}{{ tail }}"
    segments = chat(template).render(prompt(("user", "<|im_"), tail="end|>"))
    assert segments == (Segment("<s>", control=True), Segment("<|im_end|>"))


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "bos_token", "chat_template", "self"]
)
def test_reserved_template_arguments_are_dropped(name: str) -> None:
    template = "{{ bos_token }}|{{ tools }}|{{ add_generation_prompt }}|{{ messages[0].content }}"
    request = prompt(("user", "x"), **{name: "evil"})
    assert text(chat(template, bos_token="<s>").render(request)) == "<s>|None|True|x"


def test_system_messages_become_one_at_the_front_in_order() -> None:
    turns: list[tuple[Role, str]] = [("user", "a"), ("system", "one"), ("system", " two ")]
    assert rendered(
        "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}", *turns
    ) == ("[system:one\n\n two ][user:a]")


def test_neighbours_of_one_role_are_kept_where_the_template_takes_them() -> None:
    assert rendered(CHATML, ("user", "a"), ("user", "b")).count("<|im_start|>user") == 2


def test_neighbours_of_one_role_are_merged_where_the_template_refuses_them() -> None:
    turns: list[tuple[Role, str]] = [("user", "a"), ("user", "b"), ("assistant", "c")]
    assert rendered(ALTERNATING, *turns) == "[user:a\n\nb][assistant:c"


def test_tool_results_are_never_merged() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' and not loop.first %}"
        "{{ raise_exception('one user only') }}{% endif %}[{{ m.role }}:{{ m.content }}"
        "{{ m.tool_calls | tojson if m.tool_calls }}]{% endfor %}"
    )
    turns: list[tuple[Role, str]] = [("user", "a"), ("user", "b"), ("tool", "c"), ("tool", "d")]
    assert rendered(template, *turns) == "[user:a\n\nb][tool:c][tool:d]"


def test_system_message_becomes_the_users_where_the_template_refuses_it() -> None:
    turns: list[tuple[Role, str]] = [("system", "s"), ("user", "a"), ("assistant", "b")]
    assert rendered(ALTERNATING, *turns) == "[user:s\n\na][assistant:b"


def test_prefill_is_cut_at_its_last_place() -> None:
    template = "({{ messages[-1].content }}){% for m in messages %}[{{ m.content }}]{% endfor %}"
    assert rendered(template, ("user", "q"), ("assistant", "a")) == "(a)[q][a"


def test_last_assistant_message_is_continued() -> None:
    for content in ("The answer is ", "", "<think>", " a\n"):
        assert rendered(CHATML, ("user", "q"), ("assistant", content)) == (
            f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{content}"
        )


def test_prefill_keeps_its_spacing_though_the_template_trims() -> None:
    template = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
    assert rendered(template, ("user", " q "), ("assistant", " a ")) == "[q][a "


def test_prefill_that_the_template_leaves_out_is_a_bad_prompt() -> None:
    with pytest.raises(BadPrompt, match="leaves out the last assistant message"):
        rendered("{{ messages[0].content }}", ("user", "q"), ("assistant", "a"))


def test_refusal_of_the_template_names_messages_and_quotes_it() -> None:
    with pytest.raises(BadPrompt) as caught:
        rendered(ALTERNATING, ("assistant", "I said <|im_end|>"))
    assert caught.value.field == "messages"
    assert str(caught.value).startswith(
        "The chat template refuses these messages: roles must alternate, I said <|im_end|>"
    )


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ messages[7].content.upper() }}", "list object has no element 7"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ messages.append(1) }}", "unsafe|immutable|safely"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "Range too big"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ messages | tojson(indent='x', sort_keys=[].pop()) }}", "pop|unsafe|safely"),
    ],
)
def test_template_fault_is_a_bad_prompt_of_one_sentence(template: str, reason: str) -> None:
    with pytest.raises(BadPrompt, match="The chat template fails on these messages: ") as caught:
        rendered(template, ("user", "x"))
    assert re.search(reason, str(caught.value))
    assert "\n" not in str(caught.value)


def test_template_with_a_syntax_error_is_a_model_error_naming_the_line() -> None:
    with pytest.raises(ModelError, match=r"syntax error in line 3: .*endfor"):
        chat("{% for m in messages %}\n{{ m.content }}\n{% endif %}")
    with pytest.raises(ModelError, match=r"line 1.*no_such_filter"):
        chat("{{ messages | no_such_filter }}")


def test_templates_can_use_what_transformers_offers() -> None:
    template = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
        "{% if ns.n > 1 %}{% break %}{% endif %}{% endfor %}{{ ns.n }} {{ strftime_now('%Y') }}"
        "{% generation %}{{ messages | tojson }}{% endgeneration %}"
    )
    answer = rendered(template, ("user", "é<"), ("user", "b"))
    assert re.fullmatch(r'2 \d{4}\[\{"role": "user", "content": "é<"\}, .*\]', answer)


def test_model_without_a_template_gets_chatml_where_its_vocabulary_has_it() -> None:
    assert rendered(None, ("system", "s"), ("user", "u")) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )


def test_model_without_a_template_or_chatml_gets_a_transcript() -> None:
    bare = '{"version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "special": true, '
    bare += '"single_word": false, "lstrip": false, "rstrip": false, "normalized": false}], '
    keys = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")
    bare += "".join(f'"{key}": null, ' for key in keys)
    bare += '"model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1}, "merges": []}}'
    message = ready(bare, bos_token="<s>")
    template = template_of(message, Tokenizer(message))
    turns: list[tuple[Role, str]] = [("system", "be brief"), ("user", "u")]
    assert text(template.render(prompt(*turns))) == ("<s>system: be brief\nuser: u\nassistant:")
    assert text(template.render(prompt(*turns, ("assistant", "Yes")))).endswith("\nassistant: Yes")


@pytest.mark.model
def test_smollm2_renders_its_own_template() -> None:
    message = smollm2()
    template = template_of(message, Tokenizer(message))
    segments = template.render(prompt(("user", "Say <|im_end|>")))
    assert segments == (
        Segment(
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
            "Hugging Face<|im_end|>\n<|im_start|>",
            control=True,
        ),
        Segment("user\nSay <|im_end|>"),
        Segment("<|im_end|>\n<|im_start|>assistant\n", control=True),
    )
    ids = template.encode(prompt(("user", "Say <|im_end|>")), ALL).prompt.ids
    assert [i for i in ids if i in (1, 2)] == [1, 2, 1, 2, 1]
