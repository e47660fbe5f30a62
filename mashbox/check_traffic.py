"""`mashbox check-traffic`: a recording of HTTP traffic against openapi.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from handlers.request_log import keys_sent, printable
from mashbox.app import contract
from mashbox.exchange_check import ExchangeCheck
from mashbox.recordings import Exchange, read_recording

_PATH_LENGTH = 200
_SENTENCE_LENGTH = 500


def check_traffic(file: IO[bytes], write: Callable[[str], None]) -> int:
    """Write one line for each finding and one with the totals; gives the number of findings.

    Raises UnusableRecording.
    """
    check = ExchangeCheck(contract())
    requests = found = 0
    for exchange in read_recording(file):
        requests += 1
        for finding in check.findings(exchange):
            found += 1
            write(_line(exchange, finding.part, finding.sentence))
    write(
        f"{_count(requests, 'request')}, {_count(check.responses, 'response')} checked, "
        f"{_count(found, 'finding')}"
    )
    return found


def _line(exchange: Exchange, part: str, sentence: str) -> str:
    # Whoever called chose the path and the names of fields.
    secrets = keys_sent(exchange.request_headers)
    method, path = (printable(t, _PATH_LENGTH, secrets) for t in (exchange.method, exchange.path))
    said = printable(sentence, _SENTENCE_LENGTH, secrets)
    return f"entry {exchange.number}: {method} {path} {exchange.status}: {part}: {said}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
