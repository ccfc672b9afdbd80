"""An engine's flag in a log: `name=value` of its arguments, `name: value` of a file, `--name value` of a command."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.audit.figures import near

_SHORT = 3  # letters; a name like tp is in too many other words to be looked for alone


@dataclass(frozen=True, slots=True)
class Flag:
    """A line with one of the `words` may give the flag; the first group of `pattern` is its value."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def find(self, text: str) -> str | None:
        """Return the value, None where the line does not give it."""
        match = next((found for word in self.words if (found := near(self.pattern, word, text)) is not None), None)
        return None if match is None else match[1]


def flag(*names: str, value: str) -> Flag:
    """Return a flag by its names, newest first, and the pattern of its value."""
    spelled = tuple(dict.fromkeys(word for name in names for word in (name, name.replace("_", "-"))))
    words = tuple(w for word in spelled for w in ((word,) if len(word) > _SHORT else (f"--{word}", f"{word}=")))
    # bounded blanks, and no digit after the value: a longer number is another one
    text = rf"(?<![A-Za-z_-])(?:--)?(?:{'|'.join(spelled)})['\"]?(?:\s{{0,8}}[=:]|\s)\s{{0,8}}['\"]?({value})(?![0-9])"
    return Flag(words, re.compile(text))
