// How wide the focus is drawn; around the whole box of a list.
() => {
  const box = document.activeElement.closest(".wrap-inner")?.parentElement ?? document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(box);
  return outlineStyle === "none" ? 0 : parseFloat(outlineWidth);
}
