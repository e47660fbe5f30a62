import pytest

from engine.errors import ModelError
from engine.model_format import ANALYSIS, BRACKET_THINK, FORMATS, THINK, detect_format


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_can_be_named_whatever_the_template(name: str) -> None:
    assert detect_format("<tool_call> <think>", name).name == name


def test_unknown_format_is_a_model_error_that_lists_the_known() -> None:
    with pytest.raises(ModelError, match="Unknown tool format 'x'; known are hermes, "):
        detect_format(None, "x")


def test_without_a_sign_it_is_hermes_without_thinking() -> None:
    for template in (None, "{{ messages }}"):
        found = detect_format(template)
        assert (found.name, found.reasoning) == ("hermes", None)


@pytest.mark.parametrize(
    ("template", "reasoning"),
    [
        ("<think>", THINK),
        ("split('</think>')", THINK),
        ("[THINK] or <think>", BRACKET_THINK),
        ("<|channel|><|message|>", ANALYSIS),
        ("[TOOL_CALLS]", None),
    ],
)
def test_thinking_is_seen_in_the_template(template: str, reasoning: object) -> None:
    assert detect_format(template).reasoning == reasoning


@pytest.mark.parametrize("name", FORMATS)
def test_every_bracketed_token_of_a_spelling_is_a_marker(name: str) -> None:
    found = detect_format(None, name)
    calls = found.calls
    for text in (calls.trigger, calls.before_name, calls.before_calls, calls.after_calls):
        opener = next((m for m in found.markers if text and text.startswith(m)), None)
        assert opener or not text or not text.startswith(("<|", "<｜", "[TOOL", "<tool"))
