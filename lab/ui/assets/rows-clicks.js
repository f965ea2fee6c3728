// What the address asks for is shown; the reader is led to it, or stays in the filter that was changed.
window.addEventListener('assay-place', ({ detail }) => {
  if (!element.getClientRects().length) return;
  element.dataset.led = detail || 'h2';
  trigger('click');
});
watch('value', () => {
  const led = element.dataset.led;
  delete element.dataset.led;
  if (led) element.querySelector(led)?.focus();
});
element.addEventListener('click', (event) => {
  const button = event.target.closest('.thumbs [data-do]');
  if (button) trigger('select', { do: button.dataset.do, id: button.dataset.id });
});
