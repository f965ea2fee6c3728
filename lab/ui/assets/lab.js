// Keys, the theme switch and the list of keys. Everything else is Gradio's.
(() => {
  const THEME = "assay-theme";
  // The ids that a key presses: the one that is shown.
  const KEYS = {
    a: ["vote-left"],
    b: ["vote-right"],
    t: ["vote-tie"],
    n: ["vote-both-bad"],
    s: ["compare-next"],
    u: ["compare-undo"],
  };
  // What Ctrl Enter presses in a field of its own; elsewhere it has the shown tab's question answered.
  const STARTS = [
    ["#compare-own-question", "compare-own-button"],
  ];

  const find = (id) => {
    const found = document.getElementById(id);
    return found && (found.matches("button") ? found : found.querySelector("button") || found);
  };
  const isShown = (element) => Boolean(element && element.getClientRects().length);
  const press = (id) => {
    const button = find(id);
    if (!isShown(button) || button.disabled) return false;
    button.click();
    return true;
  };
  // In Annotate a digit rates the first dimension without a rating; G and B are good and bad, Enter submits, arrows walk.
  const rate = ({ key, target }) => {
    if (!isShown(find("annotate-submit"))) return false;
    const rows = [...document.querySelectorAll("#annotate-panel .rate-steps")].filter(isShown);
    const row = rows.find((each) => !each.querySelector(":checked")) ?? rows.at(-1);
    const thumbs = document.querySelectorAll("#annotate-thumb label");
    const label = { g: thumbs[0], b: thumbs[1] }[key.toLowerCase()] ?? (/^\d$/.test(key) && row && [...row.querySelectorAll("label")].find((each) => each.textContent.trim() === key));
    const before = document.activeElement;
    if (label) label.click();
    if (label && before === document.body) document.activeElement.blur(); // the next key is no step of this one
    if (label || target.closest?.("button, a, summary, [role=tab]")) return Boolean(label);
    if (key === "Enter") return press("annotate-submit");
    if (target.matches?.("input")) return false; // arrows move among its steps
    return (key === "ArrowRight" && press("annotate-skip")) || (key === "ArrowLeft" && press("annotate-back"));
  };
  const isTyping = (target) =>
    target.isContentEditable || Boolean(target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select, [role=listbox], [role=combobox]"));

  // What comes from the lab while a person types in a field does not overwrite it: only what follows something else they do.
  const typed = new Set();
  const isField = (target) => Boolean(target.matches?.("textarea, input:not([type=radio], [type=checkbox], [type=file], [role])"));
  document.addEventListener("input", ({ isTrusted, target }) => isTrusted && isField(target) && typed.add(target), true);
  const acts = ({ isTrusted, target, type, key }) => isTrusted && (!isField(target) || (type === "keydown" && key === "Enter")) && typed.clear();
  ["click", "keydown", "change"].forEach((type) => document.addEventListener(type, acts, true));
  [HTMLTextAreaElement, HTMLInputElement].forEach(({ prototype }) => {
    const plain = Object.getOwnPropertyDescriptor(prototype, "value");
    Object.defineProperty(prototype, "value", {
      ...plain,
      set(value) {
        if (!typed.has(this) || value === this.value) return plain.set.call(this, value);
        setTimeout(() => this.dispatchEvent(new Event("input", { bubbles: true }))); // the page takes what stands there
      },
    });
  });

  // Open the section of a concern's words, show them and say so to who cannot see.
  window.assayShowPlace = (name) => {
    const mark = document.getElementById(`place-${name}`);
    if (!mark) return;
    mark.closest("details").open = true;
    document.querySelectorAll("mark.here").forEach((other) => other.classList.remove("here"));
    mark.classList.add("here");
    mark.scrollIntoView({ block: "center" });
    mark.focus({ preventScroll: true });
  };

  // What was selected last in an answer that is rated, in characters of its text: a tap on a button takes the selection away.
  const spans = {};
  document.addEventListener("selectionchange", () => {
    const selected = document.getSelection();
    if (!selected.rangeCount || selected.isCollapsed) return;
    const range = selected.getRangeAt(0);
    const start = range.startContainer.nodeType === Node.TEXT_NODE ? range.startContainer.parentElement : range.startContainer;
    const answer = start.closest?.(".rate-answer");
    if (!answer || !answer.contains(range.endContainer)) return;
    const before = document.createRange();
    before.setStart(answer, 0);
    before.setEnd(range.startContainer, range.startOffset);
    const from = [...before.toString()].length;
    const span = `${from}-${from + [...range.toString()].length}`;
    spans[answer.closest(".rate-panel").id] = { card: answer.closest("[data-item]").dataset.item, span };
  });
  window.assaySpan = (...given) => {
    const name = given.pop();
    const { card, span } = spans[`${name}-panel`] || {};
    delete spans[`${name}-panel`];
    return [...given, card && card === document.querySelector(`#${name}-panel [data-item]`)?.dataset.item ? span : ""];
  };

  // A thumb is shown as pressed once it is kept; the name of a fold instead leads to it.
  window.assayThumb = (told) => {
    const at = told.lastIndexOf(" ");
    if (at < 0) return setTimeout(() => document.getElementById(told)?.scrollIntoView(), 300);
    document.querySelectorAll(".thumbs [aria-pressed]").forEach((each) => {
      if (each.dataset.id === told.slice(0, at)) each.setAttribute("aria-pressed", each.dataset.do === told.slice(at + 1));
    });
  };

  // A better answer or remark is kept when its field is left, and once typing rests: a reload must not lose it.
  const resting = new WeakMap();
  document.addEventListener("input", ({ target }) => {
    if (!target.matches?.(".rate-panel textarea")) return;
    clearTimeout(resting.get(target));
    resting.set(target, setTimeout(() => target.dispatchEvent(new FocusEvent("blur")), 1000));
  });

  const setDark = (dark) => document.body.classList.toggle("dark", dark);
  const keep = (value) => {
    try {
      value ? localStorage.setItem(THEME, value) : localStorage.getItem(THEME);
      return localStorage.getItem(THEME);
    } catch {
      return value || null;
    }
  };

  const toggleKeys = () => {
    const dialog = document.getElementById("keys");
    if (!dialog) return;
    dialog.open ? dialog.close() : dialog.showModal();
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#theme-toggle")) {
      const dark = !document.body.classList.contains("dark");
      setDark(dark);
      keep(dark ? "dark" : "light");
    }
    if (event.target.closest?.("#keys-button")) toggleKeys();
  });

  // The second click of a double click is no wish for the pair after the next.
  const NEXT = "#compare-next, #compare-undo";
  document.addEventListener("click", (event) => event.detail > 1 && event.target.closest?.(NEXT) && event.stopImmediatePropagation(), true);

  // Arrow keys go from tab to tab; the open one alone is a stop of the Tab key.
  const tabs = () => [...document.querySelectorAll("#tabs [role=tab]")].filter(isShown);
  const stopAtOpenTab = () =>
    tabs().forEach((tab) => tab.setAttribute("tabindex", tab.getAttribute("aria-selected") === "true" ? 0 : -1));
  document.addEventListener("keydown", (event) => {
    const all = event.target.matches?.("#tabs [role=tab]") ? tabs() : [];
    const at = all.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = all.at(to % all.length);
    tab.click();
    tab.focus();
  });

  // A claim of a cited answer opens why it was judged so, one at a time in its card.
  const openClaim = (event) => {
    const claim = event.target.closest?.(".claim[aria-controls]");
    if (!claim || (event.type === "keydown" && !["Enter", " "].includes(event.key))) return;
    event.preventDefault();
    const wanted = claim.getAttribute("aria-controls");
    const isOpen = claim.getAttribute("aria-expanded") === "true";
    const card = claim.closest(".refined");
    card.querySelectorAll(".claim[aria-controls]").forEach((each) => each.setAttribute("aria-expanded", each === claim && !isOpen));
    card.querySelectorAll(".claim-why").forEach((each) => (each.hidden = each.id !== wanted || isOpen));
  };
  document.addEventListener("click", openClaim);
  document.addEventListener("keydown", openClaim);

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.repeat) return;
    const isEnter = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (isEnter) {
      const own = STARTS.find(([field]) => event.target.closest?.(field));
      if (own ? press(own[1]) : press("ask-button")) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && !document.getElementById("keys")?.open) {
      press("ask-stop");
      return;
    }
    if (isTyping(event.target)) return;
    if (event.key === "?") {
      event.preventDefault();
      toggleKeys();
      return;
    }
    if (document.getElementById("keys")?.open) return;
    if (rate(event)) return event.preventDefault();
    if (/^[1-9]$/.test(event.key)) {
      const chip = document.querySelectorAll("#compare-why :is([type=radio], [type=checkbox])")[event.key - 1];
      if (isShown(chip?.closest("label"))) chip.click();
      return;
    }
    if (event.key === "Enter" && !isShown(find("vote-left")) && !event.target.closest?.("button, a, summary")) press("compare-next");
    if (KEYS[event.key.toLowerCase()]?.some(press)) event.preventDefault();
  });

  // The name of a figure tells what it means: under the pointer, with the focus, at a tap; Escape takes that away.
  const meaning = Object.assign(document.createElement("div"), { id: "meaning", popover: "manual" });
  meaning.setAttribute("aria-hidden", "true"); // who cannot see it hears the description of the name
  let named = null;
  const placeMeaning = () => {
    if (named && !isShown(named)) return tellMeaning(null);
    if (!named) return;
    const { left, top, bottom } = named.getBoundingClientRect();
    const { clientWidth, clientHeight } = document.documentElement;
    const { offsetWidth, offsetHeight } = meaning;
    const isBelow = bottom + offsetHeight < clientHeight || top < offsetHeight;
    meaning.style.left = `${Math.max(8, Math.min(left, clientWidth - offsetWidth - 8))}px`;
    meaning.style.top = `${isBelow ? bottom : top - offsetHeight}px`;
  };
  const tellMeaning = (name) => {
    if (name === named && !name) return;
    named = name;
    meaning.textContent = name?.dataset.means ?? "";
    if (!meaning.isConnected) document.body.append(meaning);
    name ? meaning.showPopover() : meaning.hidePopover();
    placeMeaning();
  };
  const nameAt = (target) => target?.closest?.("[data-means]") ?? null;
  document.addEventListener("mouseover", ({ target }) => meaning.contains(target) || tellMeaning(nameAt(target) ?? nameAt(document.activeElement)));
  document.addEventListener("focusin", ({ target }) => tellMeaning(nameAt(target)));
  document.addEventListener("focusout", () => tellMeaning(null));
  document.addEventListener("click", ({ target }) => target.closest?.("a[data-means]") && tellMeaning(null));
  document.addEventListener("scroll", placeMeaning, true);
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || !named) return;
      event.stopImmediatePropagation();
      tellMeaning(null);
    },
    true,
  );

  // The address names the tab and the answers that Ask shows, so that a link, a reload and Back lead there.
  const BUTTONS = "#tabs [role=tab], #tabs .overflow-dropdown button";
  const place = () => new URLSearchParams(location.search);
  const nameOf = (button) => button.textContent.trim().toLowerCase();
  const OWNED = { answer: "ask", review: "papers" }; // what a tab shows, named in its address alone
  const KEPT = { answer: "#ask-answers [data-kept]", review: "#review-concerns [data-kept]" };
  const MOVED = { refine: { tab: "ask" }, review: { tab: "papers" }, questions: { tab: "data" }, preferences: { tab: "compare", board: "1" }, leaderboard: { tab: "results" }, calibration: { tab: "results", view: "calibration" }, publish: { tab: "train", publish: "1" } }; // where addresses of before lead
  const moved = (asked) => {
    if (asked.get("tab") === "refine" && asked.has("refine")) asked.set("answer", asked.get("refine"));
    if (asked.get("tab") === "calibration" && asked.has("drawn")) asked.set("stages", asked.get("drawn"));
    Object.entries(MOVED[asked.get("tab")] ?? {}).forEach(([name, value]) => asked.set(name, value));
    return asked;
  };
  if (MOVED[place().get("tab")]) history.replaceState(null, "", `?${moved(place())}`);
  const shown = Object.fromEntries(Object.keys(OWNED).map((name) => [name, place().get(name)]));
  let isLed = false;
  const places = { [place().get("tab")]: location.search }; // where each tab was left
  const go = (given) => {
    const asked = moved(new URLSearchParams(given));
    Object.entries(OWNED).forEach(([name, tab]) =>
      shown[name] && tab === asked.get("tab") ? asked.set(name, shown[name]) : asked.delete(name),
    );
    const to = `?${asked}`;
    places[asked.get("tab")] = to;
    if (!isLed && to !== location.search) history.pushState(null, "", to);
  };
  window.assayPlace = (changes) => {
    const to = place();
    Object.entries(changes).forEach(([name, value]) => (value ? to.set(name, value) : to.delete(name)));
    places[to.get("tab")] = `?${to}`;
    history.replaceState(null, "", `?${to}`);
  };
  const openTab = (focus) => {
    const buttons = [...document.querySelectorAll(BUTTONS)].filter((each) => !each.closest(".visually-hidden"));
    const wanted = place().get("tab") ?? (buttons[0] && nameOf(buttons[0]));
    const button = buttons.find((each) => nameOf(each) === wanted);
    if (button?.classList.contains("selected")) return window.dispatchEvent(new CustomEvent("assay-place", { detail: focus }));
    isLed = true;
    button?.click();
    isLed = false;
  };
  const nameShown = () =>
    Object.entries(OWNED).forEach(([name, tab]) => {
      const found = document.querySelector(KEPT[name]);
      if (!isShown(found) || found.dataset.kept === shown[name]) return;
      shown[name] = found.dataset.kept;
      go(`?tab=${tab}`);
    });
  document.addEventListener(
    "click",
    (event) => {
      const button = event.target.closest?.(BUTTONS);
      if (button && !isLed) go(places[nameOf(button)] ?? `?tab=${nameOf(button)}`);
    },
    true, // before the tab asks for what its address says
  );
  window.addEventListener("popstate", () =>
    Object.entries(OWNED).every(([name, tab]) => place().get("tab") !== tab || place().get(name) === shown[name])
      ? openTab()
      : location.reload(),
  );

  // A choice on the page stands in the address; a link, a filter and a point of a chart lead to an address.
  window.assayChoose = (tab, name, value) => {
    const to = place().get("tab") === tab ? place() : new URLSearchParams({ tab });
    ["page", "row"].forEach((each) => to.delete(each));
    to.set(name, value);
    go(`?${to}`);
    return location.search;
  };
  const follow = (to, focus) => {
    go(to);
    openTab(focus);
  };
  window.assayFollow = (to) => {
    if (to) follow(to);
  };

  // Gradio reports a list that is only left like one that was chosen from; what hangs on it waits for a choice, and answers it once.
  const chosenFrom = new Set();
  const listOf = (target) => target.closest(".block")?.id;
  document.addEventListener("mousedown", ({ target }) => target.closest?.("[role=option]") && chosenFrom.add(listOf(target)), true);
  document.addEventListener("keydown", ({ target, key }) => target.matches?.("[role=combobox]") && chosenFrom[key === "Enter" ? "add" : "delete"](listOf(target)), true);
  window.assayChosen = (lists) => {
    if (!lists.filter((each) => chosenFrom.delete(each)).length) throw new Error("Nothing was chosen."); // what waits for a success waits on
  };

  // What events of the page read from the address, or write there (`script` in lab/ui/theme.py).
  window.assayAddress = () => location.search;
  window.assayWithAddress = (first) => [first, location.search];
  window.assayAddressAnd = (_, ...others) => [location.search, ...others];
  window.assayOpenRun = (run) => void go(new URLSearchParams({ tab: "train", run }));
  window.assayBegun = (run) => {
    window.assayOpenRun(run);
    setTimeout(() => document.getElementById("train-new")?.scrollIntoView(), 300); // folded now: the run stands below
  };
  window.assayPlaceSet = (set) => {
    if (set) window.assayPlace({ set });
  };
  window.assayPlaceChain = (chain) => {
    window.assayPlace({ chain });
    return chain;
  };
  let placed = 0;
  window.assayPlaceProject = async (project, role) => {
    window.assayPlace({ project, role: role === "rater" ? null : role });
    const mine = ++placed; // a page that opens sets several at once: what waits for a success comes once, for the last
    await new Promise((done) => setTimeout(done, 50));
    if (mine !== placed) throw new Error("Another change has followed.");
  };
  window.assayValue = (value) => value;
  window.assayTypedStays = (linked, first) => (first || !linked?.length ? [] : linked); // what is not given stays
  window.assayClickSoon = (where) => setTimeout(() => document.querySelector(where).click(), 200);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="?tab="]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follow(link.getAttribute("href"));
  });
  const filter = (event) => {
    const form = event.target.closest?.(".rows-filters");
    if (!form) return;
    event.preventDefault();
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    follow(`?${new URLSearchParams(chosen)}`, event.type === "change" ? `[name=${event.target.name}]` : "h2");
  };
  document.addEventListener("submit", filter);
  document.addEventListener("change", filter);
  document.addEventListener("mouseover", ({ target }) => {
    const plot = target.closest?.(".js-plotly-plot");
    if (!plot?.on || plot.dataset.opens) return;
    plot.dataset.opens = "yes";
    plot.on("plotly_click", ({ points }) => {
      const to = [points[0].customdata].flat().at(-1);
      if (String(to).startsWith("?tab=")) follow(to);
    });
  });

  // What the page asks goes out under a key of its own, and again until an answer comes: the lab does each key once.
  const ASKS = /\/gradio_api\/(queue\/join|run\/|call\/|api\/)/;
  const PAUSES = [500, 1000, 2000, 4000, 8000];
  const APP = "gradio_api/app_id";
  const LOST = "assay-lost";
  const plain = window.fetch.bind(window);
  const lostKeys = () => (sessionStorage.getItem(LOST) ?? "").split(" ").filter(Boolean);
  const setLost = (keys) => (keys.length ? sessionStorage.setItem(LOST, keys.join(" ")) : sessionStorage.removeItem(LOST));
  const askRow = () => (isShown(find("ask-button")) && find("ask-button").closest(".actions")) || document.body; // beside what was pressed
  const tell = (words, button = "", pressed = () => {}) => {
    const bar = document.querySelector("#connection") ?? document.createElement("div");
    askRow().append(bar);
    Object.assign(bar, { id: "connection", role: "status", hidden: !words, textContent: words });
    if (!button) return;
    const press = bar.appendChild(document.createElement("button"));
    Object.assign(press, { textContent: button, onclick: pressed });
  };
  const rest = (turn) =>
    new Promise((done) => {
      window.addEventListener("online", done, { once: true });
      setTimeout(done, PAUSES[turn] ?? PAUSES.at(-1));
      if (turn < PAUSES.length) tell("Connection lost; sending again…");
      else tell("Not sent: the lab does not answer.", askRow() === document.body ? "Send again" : "Ask again", done);
    });
  let isLeaving = false; // a page that is left anyway is not loaded anew: that would keep the visitor on it
  window.addEventListener("beforeunload", () => {
    isLeaving = true;
    setTimeout(() => (isLeaving = false), 10000);
  });
  const isOther = async () => (await (await plain(APP)).json()).app_id !== window.gradio_config?.app_id;
  window.fetch = async (where, options) => {
    if (options?.method !== "POST" || !ASKS.test(String(where?.url ?? where))) return plain(where, options);
    const headers = new Headers(options.headers);
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16)).join("-");
    headers.set("x-assay-key", key);
    for (let turn = 0; ; turn++) {
      try {
        const reply = await plain(where, { ...options, headers });
        if (turn && reply.status === 409) return isLeaving || location.reload(), await new Promise(() => {});
        if (turn) setLost(lostKeys().filter((each) => each !== key));
        if (turn && reply.ok && (await isOther())) tell("The lab was started again. Reload the page to go on.", "Reload", () => location.reload());
        else if (turn) tell("");
        return reply;
      } catch (error) {
        if (options.signal?.aborted) throw error;
        headers.set("x-assay-again", "1");
        setLost([...new Set([...lostKeys(), key])]); // the page may be loaded anew meanwhile
        await rest(turn);
      }
    }
  };
  const lost = lostKeys();
  if (lost.length)
    Promise.all(lost.map((key) => plain(APP, { headers: { "x-assay-key": key, "x-assay-again": "1" } }))).then(async (replies) => {
      setLost([]);
      const kept = replies.find(({ status }) => status === 409);
      tell(kept ? await kept.text() : "The connection was lost before your last change was kept. Make it again.", "Close", () => tell(""));
    });

  // The pill says how the model is; once the server is gone, that nobody answers, until somebody does.
  let before = null;
  setInterval(async () => {
    const pill = document.querySelector("#model-status .pill");
    if (!pill || document.hidden) return;
    try {
      await fetch("lab-assets/favicon.svg", { method: "HEAD", cache: "no-store" });
      if (before) [pill.className, pill.lastChild.data] = before;
      before = null;
    } catch {
      before ??= [pill.className, pill.lastChild.data];
      [pill.className, pill.lastChild.data] = ["pill failed", "No connection to the lab"];
    }
  }, 5000);

  // Answers are read out once all are written, and a chart says what it shows; its picture and its points can be saved.
  const voice = document.createElement("div");
  voice.className = "assay-hidden";
  voice.setAttribute("role", "status");
  const heard = new Map();
  const readOut = () =>
    document.querySelectorAll(".cards[aria-busy=false] .card").forEach((card) => {
      const name = `${card.closest("[id]")?.id} ${card.dataset.title}`;
      const text = card.dataset.state === "done" && isShown(card) ? card.innerText : "";
      const answer = text && card.querySelector(".answer").innerText;
      if (text && heard.get(name) !== answer) voice.append(Object.assign(document.createElement("p"), { innerText: text }));
      if (text || card.dataset.state !== "done") heard.set(name, answer);
      while (voice.childElementCount > 8) voice.firstChild.remove();
    });
  const axis = (plot, one) => plot.layout[one.replace(/^(.)(\d*)$/, "$1axis$2")]?.title?.text ?? one;
  const points = (plot) =>
    plot._fullData.flatMap(({ name, x, y, xaxis, yaxis, error_x, error_y }) => {
      const { array, arrayminus } = (error_y?.array ? error_y : error_x) ?? {};
      return [...x].map((at, i) => [name, axis(plot, xaxis), at, axis(plot, yaxis), y[i], arrayminus?.[i], array?.[i]]);
    });
  const save = (name, text) => {
    const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    Object.assign(document.createElement("a"), { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  };
  const HEAD = ["series", "x axis", "x", "y axis", "y", "interval below", "interval above"];
  const SAVED = {
    "Picture (SVG)": (plot, name) => window.Plotly.downloadImage(plot, { format: "svg", filename: name }),
    "Data (CSV)": (plot, name) => {
      const cell = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
      save(`${name}.csv`, [HEAD, ...points(plot)].map((row) => row.map(cell).join(",")).join("\n") + "\n");
    },
  };
  const nameCharts = () =>
    document.querySelectorAll(".assay-plot").forEach((place) => {
      const plot = place.querySelector(".js-plotly-plot");
      if (!plot?._fullData) return;
      const title = plot.layout.title?.text ?? `${axis(plot, "y")}, ${axis(plot, "x")}`;
      const series = [...new Set(plot._fullData.map(({ name }) => name))].join(", ");
      plot.setAttribute("role", "figure");
      plot.setAttribute("aria-label", `${title}: ${series}`);
      const [head, means] = [plot.querySelector(".gtitle"), plot.layout.meta?.means];
      if (head && means) Object.entries({ tabindex: 0, "data-means": means, "aria-description": means }).forEach((each) => head.setAttribute(...each));
      const bars = [...plot.querySelectorAll(".bars .point > path")];
      plot.querySelectorAll(".bartext").forEach((label, at, all) => {
        const mine = label.getBoundingClientRect();
        const others = [...bars.filter((bar) => bar.parentNode !== label.parentNode), ...[...all].slice(0, at).filter(({ style }) => !style.visibility)];
        const meets = ({ left, right, top, bottom }) => left < mine.right && mine.left < right && top < mine.bottom && mine.top < bottom;
        label.style.visibility = others.some((other) => meets(other.getBoundingClientRect())) ? "hidden" : ""; // its bar tells the number, too
      });
      if (place.querySelector(".chart-files")) return;
      const row = Object.assign(document.createElement("p"), { className: "chart-files" });
      for (const [words, make] of Object.entries(SAVED)) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: words });
        button.setAttribute("aria-label", `${words}: ${title}`);
        button.addEventListener("click", () => make(place.querySelector(".js-plotly-plot"), place.id));
        row.append(button);
      }
      place.append(row);
    });
  const nameFolds = () => {
    document.querySelectorAll(".label-wrap").forEach((fold) => fold.setAttribute("aria-expanded", fold.classList.contains("open")));
    document.querySelectorAll(".upload-container").forEach((drop) => drop.removeAttribute("aria-label")); // it is named by its words
  };
  // A button pressed by keyboard that goes away leaves the focus to what stands in its place; one that rests gets it back.
  const STOPS = "#tabs :is(a[href], button, input, textarea, select, summary)";
  const stops = () => [...document.querySelectorAll(STOPS)].filter((each) => isShown(each) && !each.disabled && each.tabIndex >= 0);
  let pressed = null;
  let earlier = [];
  document.addEventListener(
    "click",
    ({ target, detail }) => {
      const button = detail ? null : target.closest?.("#tabs button");
      if (!button || button !== document.activeElement) return;
      const all = stops();
      [pressed, earlier] = [button, all.slice(0, all.indexOf(button))];
    },
    true,
  );
  const keepFocus = () => {
    if (document.activeElement !== document.body && document.activeElement !== pressed) pressed = null;
    if (!pressed || document.activeElement === pressed) return;
    if (isShown(pressed)) return pressed.disabled || pressed.focus();
    const all = stops();
    const last = all.indexOf(earlier.findLast((each) => all.includes(each)));
    all[Math.min(last + 1, all.length - 1)]?.focus();
  };
  let isLooking = false;
  const look = () => {
    if (isLooking) return;
    isLooking = true;
    setTimeout(() => {
      isLooking = false;
      readOut();
      nameCharts();
      nameFolds();
      keepFocus();
      nameShown();
    }, 300);
  };

  const chosen = keep(null);
  if (chosen) setDark(chosen === "dark");
  // Gradio sets its own class while it starts; ours comes after the page is there.
  const settle = new MutationObserver(() => {
    if (!document.querySelector("#theme-toggle") || !document.querySelector(BUTTONS)) return;
    settle.disconnect();
    stopAtOpenTab();
    document.body.append(voice);
    const watched = { childList: true, subtree: true, attributeFilter: ["class", "disabled"] };
    new MutationObserver(look).observe(document.querySelector("#tabs"), watched);
    look();
    document.fonts.ready.then(() => window.dispatchEvent(new Event("resize"))); // tabs are measured anew in their own font
    const bar = document.querySelector("#tabs [role=tablist]");
    new MutationObserver(stopAtOpenTab).observe(bar, { childList: true, subtree: true, attributeFilter: ["aria-selected"] });
    if (chosen) setDark(chosen === "dark");
    if (place().has("tab")) setTimeout(() => openTab());
  });
  settle.observe(document.documentElement, { childList: true, subtree: true });
})();
