"""Which statements of a confidence are not an answer's own, or not about the answer.

"not 100% sure", "if I were sure: 100%", "Is my confidence 90%?", "end with 'Confidence: 80%'",
"<!-- Confidence: 100% -->", "the authors are 95% confident", "significant at 95% confidence",
"low confidence in RR-3 data": none of them says how sure the answer is of itself.
"""

import re

REACH = 60
"""How many characters before a statement may say whose it is."""
OPENING = " \"'#>|-([{"
"""What may stand between the start of a line and a statement that is the answer's own."""
ASKED = re.compile(r"[\"')\]]? ?\?")
OBJECT = re.compile(r" (?:in|for|about|of) [^\n.,;:]{1,48}")
DATA = re.compile(
    r"\b(?:data|datasets?|measurements?|samples?|annotations?|experiments?|replicates?|reads?"
    r"|sequencing)\b|\b(?:rr|mhu|str|glds|osd)-?[0-9]"
)
DENIED = re.compile(r"(?:\b(?:not|cannot|never|nobody|without)|n't)\b[^.,;:]{0,12}$")
SUPPOSED = re.compile(r"(?:^|[.;:!?,])\W*(?:if|unless|suppose|imagine|assuming|had)\b[^.;:!?]*$")
OTHERS = re.compile(
    r"(?:\b(?:their|his|her|your)|(?<!model)(?<!assistant)'s|s'"
    r"|\b(?:authors|they|researchers|scientists|reviewers|anyone) (?:are|were|is)"
    r"|\b(?:data|measurements?|samples?|reads?)\b[^.,;:]{0,30}\bof(?: a)?) $"
)
QUOTED = re.compile(
    r"(?:e\.g\.|for example|for instance|such as)[,:]? ?[\"']?$"
    r"|\b(?:prompt|instructions?|question|user|system|template|format|line|write|ends?|ending|asked"
    r"|says?|said)\b[^.\"']{0,24}[\"']$"
    r"|\b(?:prompt|instructions?|question|user|system|template) (?:said|says|asks|was|is):? ?$"
)
TESTED = re.compile(r"significan|\balpha\b|threshold|\b(?:at|using) (?:(?:a|an|the) )?$")


def is_hearsay(page: str, start: int, end: int) -> bool:
    """Say whether the statement page[start:end] is not the answer's own about itself.

    Looks at a bounded stretch on either side. A statement that opens its line is the answer's own,
    unless it is a question or names data that it is about.
    """
    if ASKED.match(page, end) or page.startswith(" if ", end):
        return True
    object_ = OBJECT.match(page, end)
    if object_ and DATA.search(object_.group()):
        return True
    ahead = page[max(0, start - REACH) : start].rpartition("\n")[2]
    if not ahead.strip(OPENING):
        return False
    if "confidence" in page[start:end] and ":" not in page[start:end] and TESTED.search(ahead):
        return True
    return any(form.search(ahead) for form in (DENIED, OTHERS, QUOTED, SUPPOSED))


def comments(page: str) -> list[tuple[int, int]]:
    """Return the places of HTML comments, which a reader of rendered text does not see."""
    found: list[tuple[int, int]] = []
    start = page.find("<!--")
    while start >= 0:
        end = page.find("-->", start)
        end = len(page) if end < 0 else end + 3
        found.append((start, end))
        start = page.find("<!--", end)
    return found
