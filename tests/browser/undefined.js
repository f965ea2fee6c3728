// Names of figures that do not say what they mean: of tiles, of facts in numbers, of columns of numbers.
() => {
  const isNumber = (node) => /^[+−-]?\d/.test(node.textContent.trim());
  const means = (node) => node.querySelector("[data-means]");
  const DATA = ["right answer", "question", "line"]; // what a person brought, not what was counted
  const words = [...document.querySelectorAll(".assay-tiles dt, .train-facts dt")]
    .filter((name) => !means(name) && isNumber(name.parentElement.querySelector("dd")) && !/frozen|draft/.test(name.textContent));
  for (const table of document.querySelectorAll(".assay-grid")) {
    const rows = [...table.tBodies[0].rows].filter((row) => !row.querySelector(".assay-meaning small"));
    const heads = rows.map((row) => row.cells[0].textContent); // models against models: the caption says what of
    words.push(...[...table.tHead.rows[0].cells].filter((name, at) => at && !means(name) && !heads.includes(name.textContent) && !DATA.includes(name.textContent) && rows.some((row) => row.cells[at] && isNumber(row.cells[at]))));
  }
  return words.map((each) => each.textContent);
}
