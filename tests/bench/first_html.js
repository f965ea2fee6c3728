(() => {
  const look = () => {
    const tab = document.querySelectorAll("[role=tab]")[1];
    if (tab?.getAttribute("aria-selected") === "true") window.usable = performance.now();
    else { tab?.click(); requestAnimationFrame(look); }
  };
  look();
})();
