"""Small words: what may stand between a subject and what is said of it, and what ends a ranking."""

from functools import cache

from evals.verifiers.lexicon import phrases

DEGREES = {
    "MORE": "more; most; larger; largest; bigger; biggest; higher; highest; greater; greatest; stronger; strongest;"
    " longer; longest; dominates; dominate; dominant; tops; leads; exceeds; outweighs; harder; hardest; main; wins",
    "LESS": "fewer; fewest; less; least; smaller; smallest; lower; lowest; weaker; weakest; shorter; shortest",
}
"""Which end of a ranking a clause speaks of."""

BE = "is; was; are; were; be; been; being; becomes; became; get; gets; got; remains; remained; stays; appears; seems; looks; isn't; wasn't; aren't; weren't; 's; it's"
PREPOSITIONS = (
    "in; by; across; during; under; following; after; upon; within; among; throughout; at; on; from; over; for;"
    " to; and; or; nor; per; between; into; against; along; compared; relative; versus; vs; than; that; consistent"
)

NEUTRAL = (
    "a; an; the; it; its; this; that; these; those; they; their; there; i; we; you; my; our; he; she; them;"
    " pathway; pathways; gene; genes; set; sets; geneset; expression; activity; activities; signaling; signalling;"
    " program; programme; programs; response; responses; direction; directions; transcription; transcriptional;"
    " transcript; transcripts; level; levels; score; scores; nes; normalized; normalised; enrichment; answer;"
    " result; results; data; consensus; missions; mission; flight; flights; spaceflight; space; microgravity;"
    " mice; mouse; mission's; rodent; rodents; tissue; tissues; sample; samples; overall; of; show; shows; showed;"
    " shown; showing; display; displays; displayed; exhibit; exhibits; exhibited; undergo; undergoes; underwent;"
    " appear; appears; appeared; seem; seems; seemed; tends; tend; found; observed; reported; measured; seen;"
    " most; all; both; several; many; each; every; two; three; four; five; six; out; hallmark; msigdb; based;"
    " according; therefore; thus; so; think; believe; say; say's; expect; expected; majority; consistent; clear;"
    " strong; modest; marked; mild; slight; weak; significant; statistically; general; net; evidence; indicate;"
    " indicates; indicated; suggest; suggests; suggested; study; studies; analysis; analyses; experiment;"
    " experiments; go; goes; going; went; exposure; flown; spaceflown; ground; control; controls; conclusion; short; summary;"
    " here; call; vote; votes; likely; probably; can; could; may; might; must; will; would; should; do; does; did;"
    " have; has; had; having; more; less; very; also; again; then; now; often; still; even; only; just; rather;"
    " quite; much; broad; broadly; coordinated; robust; sustained; further; point; points; agree; agrees; yes; no;"
    " not; claim; claims; statement; case; true; fact; who; what; how; one; as; if; whether; either; neither;"
    " state; states; stated; described; description; called; considered; regarded; known; given; evident; sign;"
    " value; values; negative; positive; trend; pattern; module; signature; components; members; component;"
    " answer's; final; question; asked; direct; well; far; evidence; anything; least; total; group; animals;"
    " leading; edge; whole; main; gene's; rna; rna-seq; seq; mrna; dataset; datasets; some; any; other; orbit;"
    " cells; cell; like; same; strongly; being; fdr; padj; p; adjusted; highly; yet; too; condition; conditions;"
    " boxed; text; correct; option; choice; pick; verdict; guess; best; final; never; former; latter; research; researchers; we; trend; trends; trended; moves; moved; move; activity;"
    " never; false; untrue; wrong; incorrect; i'm; i'd; we'd; during; because; since; not; true; there's; truth; reality; reflection; second; thoughts"
)


@cache
def degree_words() -> dict[str, str]:
    """Return, by word, the end of a ranking that it means."""
    return {word: end for end, listed in DEGREES.items() for (word,) in phrases(listed)}


@cache
def neutral_words() -> frozenset[str]:
    """Return the words that may stand between a subject and what is said of it."""
    listed = "; ".join((NEUTRAL, BE, PREPOSITIONS))
    return frozenset(word for phrase in phrases(listed) for word in phrase)


@cache
def preposition_words() -> frozenset[str]:
    """Return the words after which a verb or adjective has no object of its own."""
    return frozenset(word for phrase in phrases(PREPOSITIONS) for word in phrase)


@cache
def be_words() -> frozenset[str]:
    """Return the forms that make a participle a statement ("is reduced")."""
    return frozenset(word for phrase in phrases(BE) for word in phrase)
