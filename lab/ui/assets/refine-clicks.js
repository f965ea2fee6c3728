const open = (claim) => {
  const card = claim.closest('.refined');
  const wanted = claim.getAttribute('aria-controls');
  const isOpen = claim.getAttribute('aria-expanded') === 'true';
  card.querySelectorAll('.claim[aria-controls]').forEach((each) => {
    const same = each === claim && !isOpen;
    each.setAttribute('aria-expanded', String(same));
  });
  card.querySelectorAll('.claim-why').forEach((each) => { each.hidden = each.id !== wanted || isOpen; });
};
element.addEventListener('click', (event) => {
  const claim = event.target.closest('.claim[aria-controls]');
  if (claim) { open(claim); return; }
  const button = event.target.closest('[data-do]');
  if (!button) return;
  element.dataset.last = `[data-do="${button.dataset.do}"][data-id="${button.dataset.id}"]`;
  trigger('click', { do: button.dataset.do, id: button.dataset.id });
});
element.addEventListener('keydown', (event) => {
  const claim = event.target.closest('.claim[aria-controls]');
  if (!claim || (event.key !== 'Enter' && event.key !== ' ')) return;
  event.preventDefault();
  open(claim);
});
watch('value', () => {
  const last = element.dataset.last;
  const button = last && element.querySelector(last);
  if (button) button.focus({ preventScroll: true });
});
