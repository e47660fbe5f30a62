import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from engine import control_tokens
from engine.control_tokens import ControlTokens
from engine.tokenizer import Segment
from tests.engine.small_tokenizers import words

CONTENTS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im_end|>!", "[INST]", "<think>", "><"]
TOKENS = [AddedToken(content, normalized=False) for content in CONTENTS]
CONTROL = ControlTokens(TOKENS)

fragments = st.lists(
    st.sampled_from([*CONTENTS, "<|im_", "end|>", "start|>", "<", ">", "|>", "[", "INST]", "a "]),
    max_size=6,
).map("".join)


def spelled(text: str) -> bool:
    return any(content in text for content in CONTENTS)


@given(words | fragments)
@example("<|im_<|im_end|>end|>")
def test_masked_text_spells_no_control_token_and_comes_back(text: str) -> None:
    masked = CONTROL.mask(text)
    assert not spelled(masked)
    assert CONTROL.unmask(masked) == text


@given(fragments, fragments)
def test_client_texts_side_by_side_spell_no_control_token(left: str, right: str) -> None:
    assert not spelled(CONTROL.mask(left) + CONTROL.mask(right))


@pytest.mark.parametrize("content", CONTENTS)
def test_template_text_next_to_client_text_spells_no_control_token(content: str) -> None:
    for cut in range(1, len(content)):
        head, tail = content[:cut], content[cut:]
        assert content not in head + CONTROL.mask(tail)
        assert content not in CONTROL.mask(head) + tail


def test_masked_text_has_the_length_and_the_spacing_of_the_text() -> None:
    masked = CONTROL.mask(" <|im_end|> \n")
    assert len(masked) == len(" <|im_end|> \n")
    assert masked.strip() == masked[1:-2]


def test_other_text_is_left_alone() -> None:
    for text in ("a < b > c", "a <|im_done|> b", "[IN]ST", "", "high", "0", "\n"):
        assert CONTROL.mask(text) == text


@settings(max_examples=30)
@given(st.text(st.characters(min_codepoint=0xF0000, max_codepoint=0xFFFFD), max_size=30))
def test_private_use_characters_come_back(text: str) -> None:
    assert CONTROL.unmask(CONTROL.mask(text)) == text


def test_the_marks_themselves_come_back() -> None:
    marks = CONTROL.mask("<s>")[0] + CONTROL.end_mark + CONTROL._escape
    for text in (marks, marks[::-1], marks[-1], marks[-1] * 3):
        assert CONTROL.unmask(CONTROL.mask(text)) == text
        assert CONTROL.end_mark not in CONTROL.mask(text).replace(
            CONTROL._escape + CONTROL.end_mark, ""
        )


def test_marks_differ_between_processes() -> None:
    assert ControlTokens(TOKENS).mask("<s>") != CONTROL.mask("<s>")


def test_every_string_of_a_json_value_is_masked() -> None:
    value = {"a": ["<s>", 1, None, {"<s>": True}], "b": 1.5}
    mark = CONTROL.mask("<s>")
    assert CONTROL.mask(value) == {"a": [mark, 1, None, {mark: True}], "b": 1.5}
    assert CONTROL.unmask(json.dumps(CONTROL.mask(value), ensure_ascii=False)) == json.dumps(value)


def test_stretch_with_masked_text_is_one_plain_segment() -> None:
    rendered = f"<|im_start|>user\n{CONTROL.mask('say <s>!')}\n<|im_end|>\n<|im_start|>assistant\n"
    assert CONTROL.segments(rendered) == (
        Segment("<|im_start|>", control=True),
        Segment("user\nsay <s>!\n"),
        Segment("<|im_end|>\n<|im_start|>assistant\n", control=True),
    )


def test_prompt_without_masks_is_one_segment() -> None:
    rendered = "<|im_start|>user\nhello<|im_end|>!"
    assert CONTROL.segments(rendered) == (Segment(rendered, control=True),)
    assert CONTROL.segments("") == ()


def test_long_stretch_is_plain_so_that_it_can_be_cut() -> None:
    long = "word " * 10_000
    assert CONTROL.segments(f"<s>{long}</s>") == (
        Segment("<s>", control=True),
        Segment(long),
        Segment("</s>", control=True),
    )


def test_many_short_messages_make_bounded_segments_that_begin_with_a_control_token() -> None:
    rendered = "<|im_start|>user\nhello<|im_end|>\n" * 5_000
    segments = CONTROL.segments(rendered)
    assert "".join(segment.text for segment in segments) == rendered
    assert max(len(segment.text) for segment in segments) < 40_000
    assert all(segment.control and segment.text.startswith("<|im_") for segment in segments)


def test_whitespace_that_a_token_swallows_stays_with_it() -> None:
    control = ControlTokens([AddedToken("<end>", lstrip=True, rstrip=True, normalized=False)])
    rendered = f"a {control.mask('<end>')} <end>\n <end> {control.mask('<end>')}"
    assert control.segments(rendered) == (
        Segment("a <end>"),
        Segment(" <end>\n <end> ", control=True),
        Segment("<end>"),
    )


def test_without_control_tokens_everything_is_template_text() -> None:
    control = ControlTokens([])
    assert control.mask("<s>") == "<s>"
    assert control.segments("<s>") == (Segment("<s>", control=True),)


def test_text_of_many_beginnings_takes_linear_time() -> None:
    control = ControlTokens([AddedToken(f"<unused{n}>", normalized=False) for n in range(6000)])
    text = "<unused" * 100_000
    assert control.unmask(control.mask(text)) == text


@given(st.lists(fragments | st.sampled_from(["word " * 9, CONTROL.end_mark]), max_size=6))
def test_long_texts_are_searched_in_windows_with_the_same_result(texts: list[str]) -> None:
    def everything() -> list[object]:
        masked = [CONTROL.mask(text) for text in texts]
        prompt = "<|im_start|>".join(masked) + "".join(texts)
        return [masked, CONTROL.segments(prompt), [CONTROL.unmask(text) for text in masked]]

    whole = everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control_tokens, "_WINDOW", 3)
        assert everything() == whole
