"""What Spark says when a query fails, in one line: of its pages, the sentence that tells what is wrong."""

import re

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_.]+)?\]\s*")
_STATE = re.compile(r"\.?\s*SQLSTATE: \w{5}\b;?")
_PLACE = re.compile(r"\(?line (\d+),? pos (\d+)\)?;?")
_TRACEBACK = "Traceback (most recent call last):"
#: How an exception of Java's begins that Spark's Python has no class for.
_JAVA = re.compile(r"An error occurred while calling .*\n: (?:[\w.$]+: )?")

#: Spark's name for what is wrong -> what to do about it, in place of all but its first sentence.
ADVICE = {
    "TABLE_OR_VIEW_NOT_FOUND": "a topic is read with FROM topic('name')",
}


def complaint(text: str) -> str:
    """The line for whoever wrote the query, of an exception's text."""
    if _TRACEBACK in text:
        return _of_traceback(text)
    text = _JAVA.sub("", text, count=1)
    found = _CONDITION.search(text)
    sentence = _STATE.sub("", text[found.end() :] if found else text).strip().partition("\n")[0]
    place = _PLACE.search(sentence)
    if place is not None:
        sentence = f"{sentence[: place.start()].rstrip(' .;')} (line {place[1]}, pos {place[2]})"
    if found and found[1] in ADVICE:
        sentence = f"{sentence.partition('. ')[0].rstrip('.')}; {ADVICE[found[1]]}"
    return sentence.rstrip(" .;")


def _of_traceback(text: str) -> str:
    """What the innermost exception of a Python worker said: the first line behind its traceback's frames."""
    *_, trace = text.split(_TRACEBACK)
    for line in trace.splitlines()[1:]:
        if line and not line.startswith((" ", "\t")):
            kind, _, said = line.partition(": ")
            return said or kind
    return trace.strip().partition("\n")[0]
