element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (!button) return;
  const id = button.dataset.id;
  if (button.dataset.do === 'show') {
    window.assayShowPlace(button.dataset.place);
    if (button.dataset.page) {
      const page = document.getElementById('review-page');
      const drawn = new MutationObserver(() => {  // Gradio's own marks come first
        if (!page.querySelector('.page-view, .notice')) return;
        drawn.disconnect();
        page.scrollIntoView({ block: 'start' });
      });
      drawn.observe(page, { childList: true, subtree: true });
      trigger('click', { do: 'show', id });
    }
    return;
  }
  element.dataset.last = `[data-do="${button.dataset.do}"][data-id="${id}"]`;
  trigger('click', { do: button.dataset.do, id });
  if (button.dataset.do === 'edit') document.querySelector('#review-edit-text textarea')?.focus();
});
watch('value', () => {
  const last = element.dataset.last;
  const button = last && element.querySelector(last);
  if (button) button.focus({ preventScroll: true });
});
