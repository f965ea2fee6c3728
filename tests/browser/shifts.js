// By how much and what moved without a hand.
() => new Promise((done) => new PerformanceObserver((list) => done(
  list.getEntries().filter(({ hadRecentInput }) => !hadRecentInput).map(({ value, sources }) => [value, sources.map(
    ({ node, previousRect, currentRect }) => `${node?.id || node?.className} ${previousRect.y}-${currentRect.y}`)])))
  .observe({ type: "layout-shift", buffered: true }) ?? setTimeout(() => done([]), 500))
