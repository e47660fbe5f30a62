"""The scripted model's tokenizer: small, made in code, and lossless for any text."""

from __future__ import annotations

import json
from typing import Any

END_OF_TURN = "<|im_end|>"
START_OF_TURN = "<|im_start|>"
TOOLS = ("<tools>", "</tools>")
TOOL_RESPONSE = "<tool_response>"

_SPECIAL = ("<|endoftext|>", START_OF_TURN, END_OF_TURN)
_MARKERS = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>"),
    *(TOOL_RESPONSE, "</tool_response>", *TOOLS),
)
# Without whole words an answer would have one token for two letters, and no real model is so slow.
_WORDS = """
able about action add after again agent all also and answer any apply are argument arguments array
ask available back base bash because been before being below between bool boolean both but call can
change chat check city class client code com command commands complete context conversation could
create current data date days default define delete describe description directory do does done each
edit else end environment error even every example exec execute fetch field file files find first
folder following for format from function functions get git give given go good great has have hello
help here home how http if implementation important in index information input instead instructions
integer into is issue it item items its json just keep key know language last less like limit line
lines link list local look made main make many may me message messages model more most must my name
names need never new next no not note now null number object of offset old on one only open
operation optional options or order other our out output over own page parallel paris parameter
parameters parse part pass patch path pattern please process program project prompt properties
property provide put python question quote read reason request required response result results
return review right run same say schema script search see sequence server set shell should show so
some source specific start state status step still stop string strings sub such sure system
take task tasks tell test tests text than that the their them then there these they thing think this
through time title to todo token tokens tool tools turn two type undefined understand unless until
up update url use used user uses using value values very wait want was way we weather web what when
where which while who why will with without word work world would write yes you your
"""
_PIECES = """
age ain ance and ard are ate ation ble cal cation com con cess der day each ect ell ence ent ere ers
ess est ful gen han her ial ian ible ice ide ied ies igh ight ill ine ing int ion ions ire ish ist
ite ith ity ive ize lar less line ling load man ment ments mod mon ness ning nal nel ome one ong ort
oun ound our ous out over par per port pre pro ran rec ring ree rom rough self ser sion son spec sta
ster sub sur tain ted tem ten ter ters ther ting tion tions tive tor tra tur ual und ure vel ven ver
vers ward well wer ying
"""


def tokenizer_json() -> str:
    """Serialise it for `tokenizers`: every byte, every two visible ASCII characters, and words.

    Equal scores make Unigram take the fewest tokens. The control tokens follow the vocabulary.
    """
    vocabulary = _vocabulary()
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    return json.dumps(
        {
            "version": "1.0",
            **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor")),
            "added_tokens": [
                _added(len(vocabulary) + n, content, content in _SPECIAL)
                for n, content in enumerate((*_SPECIAL, *_MARKERS))
            ],
            "pre_tokenizer": {**step, "use_regex": True},
            "decoder": {**step, "use_regex": True},
            "model": {"type": "Unigram", "unk_id": None, "vocab": [[t, -1.0] for t in vocabulary]},
        }
    )


def _added(token_id: int, content: str, special: bool) -> dict[str, Any]:
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, "special": special, **off}


def _vocabulary() -> list[str]:
    # GPT-2's alphabet of bytes: visible ones stand for themselves, a space is Ġ, a newline Ċ.
    shown = (*range(33, 127), *range(161, 173), *range(174, 256))
    hidden = [chr(256 + n) for n in range(256 - len(shown))]
    visible = [chr(b) for b in range(33, 127)]
    pairs = [a + b for a in ("Ġ", *visible) for b in visible]
    words = [w for word in _WORDS.split() for w in (word, word.capitalize(), word.upper())]
    pieces = _PIECES.split()
    spaced = ["Ġ" + word for word in (*words, *pieces)]
    joints = ["ĠĠ", "ĠĠĠĠ", 'Ġ{"', '"}}', '":"', '","']
    return list(
        dict.fromkeys([*map(chr, shown), *hidden, *pairs, *words, *pieces, *spaced, *joints])
    )
