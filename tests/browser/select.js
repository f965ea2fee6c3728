// Select the first words of the answer that is annotated.
(length) => {
    const words = document.querySelector('#annotate-answer .rate-answer').firstChild;
    const range = document.createRange();
    range.setStart(words, 0);
    range.setEnd(words, length);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
}
