element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (button) trigger('click', { do: button.dataset.do, id: button.dataset.id });
});
