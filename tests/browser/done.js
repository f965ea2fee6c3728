// Tell the test of each click and key.
() => {
  for (const kind of ["click", "keydown"]) {
    addEventListener(kind, (event) => event.isTrusted && window.assayDone(kind), true);
  }
}
