// Shows pairs and sends what is said of them. What was said waits in an outbox, which outlives a
// reload, and is sent again until it is acknowledged; its id makes sending twice harmless. It is kept
// by folder and person, each entry for itself, so that tabs do not overwrite one another, and sent on
// behalf of this person alone.
"use strict";

const element = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const [FIRST_WAIT, LONGEST_WAIT] = [300, 5000];
const LAST = 10;
const WAIT = "Wait until all that you said is saved.";
const NOT_SAVED =
  "Not saved yet; trying again. The page does not answer now: what you said waits in this browser.";
// In milliseconds: a double click is no answer to the next pair.
const SECOND_CLICK = 200;

let pairs = []; // the first is shown
let last = []; // answers, the latest first; those that stand may be undone
let outbox = []; // what waits, in the order in which it was said
let folder = null; // of the votes
let person = null; // who answers; null for nobody
let myName = "";
let joining = false; // whether a name lets in
let finished = false; // whether all that was wanted is there
let sending = false;
let shown = null; // since when the first pair is
let shownAt = 0;

const stored = (act) => {
  try {
    return act(localStorage);
  } catch {
    return null; // a browser that keeps nothing: the page does, until it is closed
  }
};
const PLACE = /^ask_[0-9a-f]{12} [0-9a-f]{12} /;
const placeOf = (entry) => `${entry.folder} ${entry.person} ${entry.key}`;
// Also of other people and folders.
const keptEntries = () =>
  stored((storage) =>
    Object.keys(storage)
      .filter((place) => PLACE.test(place))
      .map((place) => JSON.parse(storage.getItem(place))),
  ) || [];
const waiting = () => outbox.filter((entry) => entry.person === person);
const put = (key, path, value) => {
  // After all that waits, also of other tabs; a clock may be set back.
  const number = [...outbox, ...keptEntries()].reduce(
    (most, entry) => Math.max(most, entry.number + 1),
    1,
  );
  const entry = { key, path, value, number, folder, person, name: myName };
  outbox.push(entry);
  stored((storage) => storage.setItem(placeOf(entry), JSON.stringify(entry)));
};
const takeOut = (entry) => {
  outbox = outbox.filter((each) => each !== entry);
  stored((storage) => storage.removeItem(placeOf(entry)));
};
const recall = () => {
  const here = new Set(outbox.map(placeOf));
  const kept = keptEntries().filter(
    (entry) =>
      entry.folder === folder && entry.person === person && !here.has(placeOf(entry)),
  );
  outbox.push(...kept);
  outbox.sort((one, other) => one.number - other.number);
};
const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));
const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) =>
    one.toString(16).padStart(2, "0"),
  ).join("");
const PAGE = newId(); // a person may have several open

const headersOf = (by) => ({ "ask-person": by, "ask-page": PAGE });
const post = (path, value, by = "") =>
  fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headersOf(by) },
    body: JSON.stringify(value),
  });

// What is seen.

const shapeOf = ({ corners, colour }) => {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "-110 -110 220 220");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "polygon");
  const points = Array.from({ length: corners }, (_, i) => {
    const angle = (2 * Math.PI * i) / corners - Math.PI / 2;
    return `${(100 * Math.cos(angle)).toFixed(1)},${(100 * Math.sin(angle)).toFixed(1)}`;
  });
  shape.setAttribute("points", points.join(" "));
  shape.setAttribute("fill", colour);
  svg.append(shape);
  return svg;
};

const contentOf = (item) => {
  const parts = [];
  if (item.shape) parts.push(shapeOf(item.shape));
  if (item.media !== null) {
    const image = document.createElement("img");
    image.src = item.media;
    image.alt = ""; // its name stands below
    image.addEventListener("error", () => {
      const missing = document.createElement("p");
      missing.textContent = "The picture cannot be shown.";
      image.replaceWith(missing);
    });
    parts.push(image);
  }
  const heading = document.createElement("h2");
  heading.textContent = item.name;
  parts.push(heading);
  const fields = Object.entries(item.fields);
  if (fields.length) {
    const list = document.createElement("dl");
    for (const [name, text] of fields) {
      const term = document.createElement("dt");
      const said = document.createElement("dd");
      term.textContent = name;
      said.textContent = text;
      list.append(term, said);
    }
    parts.push(list);
  }
  return parts;
};

const standing = () => last.filter((one) => !one.undone && !finished);

const show = () => {
  const pair = pairs[0];
  element("asking").hidden = !pair;
  element("done").hidden = Boolean(pair) || (waiting().length > 0 && !finished);
  element("say-undo").disabled = standing().length === 0;
  showLast();
  if (!pair) return;
  ["left", "right"].forEach((side, i) => {
    element(side).replaceChildren(...contentOf(pair[i]));
    element(side).tabIndex = element(side).scrollHeight > element(side).clientHeight ? 0 : -1;
    element(side).setAttribute("aria-label", pair[i].name);
    element(`say-${side}`).setAttribute("aria-label", `This one: ${pair[i].name}`);
  });
  element("spoken").textContent = `${pair[0].name}, or ${pair[1].name}?`;
  shown = new Date().toISOString();
  shownAt = performance.now();
  for (const item of pairs.slice(1).flat()) {
    if (item.media !== null) new Image().src = item.media; // the next pair at once
  }
};

const showLast = () => {
  element("before").hidden = standing().length === 0;
  element("last").replaceChildren(
    ...standing().map((one) => {
      const row = document.createElement("li");
      const button = document.createElement("button");
      const said = {
        left: `${one.left} over ${one.right}`,
        right: `${one.right} over ${one.left}`,
        tie: `${one.left} equal to ${one.right}`,
        skip: `${one.left} or ${one.right}: skipped`,
      }[one.verdict];
      button.type = "button";
      button.textContent = "Undo";
      button.setAttribute("aria-label", `Undo: ${said}`);
      button.addEventListener("click", () => undo(one.id));
      row.append(`${said} `, button);
      return row;
    }),
  );
};

const tellProgress = ({ mine, all, most, none, finished: over }) => {
  finished = over;
  if (none) element("done").textContent = none;
  const goal = most === null ? "" : ` of ${most.toLocaleString("en")}`;
  element("progress").textContent =
    `${mine.toLocaleString("en")} answered by you, ${all.toLocaleString("en")}${goal} by everybody.`;
};

// What is said.

const say = (verdict) => {
  const pair = pairs[0];
  if (!pair || performance.now() - shownAt < SECOND_CLICK) return;
  const [left, right] = pair.map((one) => one.name);
  const note = element("note").value;
  const answer = { id: newId(), left, right, verdict, shown, note };
  put(answer.id, "api/answers", answer);
  element("note").value = "";
  last = [{ ...answer, pair }, ...last].slice(0, LAST);
  pairs.shift();
  show();
  send();
};

const undo = (id) => {
  const one = standing().find((each) => each.id === id);
  if (!one) return;
  one.undone = true;
  put(`undo ${id}`, "api/undo", { id });
  if (one.pair) pairs.unshift(one.pair); // to be answered again
  show();
  element("spoken").textContent = "Undone.";
  send();
};

// One thing after another, in the order in which it was said. Only what was acknowledged, can never
// be (409, 422), or is of somebody who is no longer known (410), leaves the outbox.
const send = async () => {
  if (sending) return;
  sending = true;
  try {
    let pause = FIRST_WAIT;
    while (waiting().length) {
      element("saving").textContent = pause > FIRST_WAIT ? NOT_SAVED : "";
      const entry = waiting()[0];
      const held = pairs.map((pair) => pair.map((item) => item.name));
      const sent = { ...entry.value, held, more: pairs.length < 2 };
      let response = null;
      let state = null;
      try {
        response = await post(entry.path, sent, entry.person);
        state = await response.json();
      } catch {
        // The server is away, or something else answered: the same again.
      }
      const status = state === null ? 0 : response.status;
      if ([401, 412].includes(status)) return leave(state.problem, "Go on");
      if (status === 410) {
        leave("", "Go on");
        return begin();
      }
      const never = [409, 422].includes(status);
      if (state === null || !(response.ok || never)) {
        if (finished) return; // it ended; what was said since stays here
        await wait(pause);
        pause = Math.min(2 * pause, LONGEST_WAIT);
        continue;
      }
      takeOut(entry);
      pause = FIRST_WAIT;
      if (never) {
        element("saving").textContent = state.problem;
        continue;
      }
      element("saving").textContent = "";
      if (entry.person !== person) continue; // somebody else goes on here since
      tellProgress(state);
      const nothingShown = pairs.length === 0;
      pairs.push(...state.pairs);
      if (finished) pairs = [];
      if (nothingShown || finished) show();
    }
  } finally {
    sending = false;
    if (finished) element("saving").textContent = "";
  }
  if (element("notice").textContent === WAIT) element("notice").textContent = "";
  if (pairs.length === 0) show();
};

// Nobody answers here until somebody goes on; what waits stays for the one who said it.
const leave = (sentence, goOn) => {
  person = null;
  pairs = [];
  last = [];
  element("who").hidden = element("me").hidden = true;
  element("saving").textContent = element("progress").textContent = "";
  element("done").textContent = element("note").value = "";
  element("notice").textContent = sentence;
  element("go-on").textContent = goOn;
  element("go-on").hidden = false;
  show();
};

const begin = async () => {
  let response = null;
  let state = null;
  const people = new Set([...outbox, ...keptEntries()].map((entry) => entry.person));
  try {
    const path = `api/begin?waiting=${[...people].join(",")}`;
    response = await fetch(path, { headers: headersOf("") });
    state = await response.json();
  } catch {
    // Trying again below.
  }
  if (state === null || response.status >= 500) {
    element("saving").textContent = "The page does not answer; trying again.";
    await wait(FIRST_WAIT * 3);
    return begin();
  }
  element("saving").textContent = response.ok ? "" : state.problem;
  element("notice").textContent = "";
  element("go-on").hidden = true;
  if (!response.ok) return;
  folder = state.folder;
  joining = state.joining;
  dropGone(state.gone);
  element("question").textContent = document.title = state.question;
  element("say-tie").hidden = !state.ties;
  element("who").hidden = state.name !== null;
  if (state.name === null) element("name").focus();
  else take(state);
};

// What waits of somebody who was forgotten is never sent.
const dropGone = (gone) => {
  const dropped = [...outbox, ...keptEntries()].filter(
    (entry) => entry.folder === folder && gone.includes(entry.person),
  );
  outbox = outbox.filter((entry) => !dropped.includes(entry));
  stored((storage) => dropped.forEach((entry) => storage.removeItem(placeOf(entry))));
  const names = [...new Set(dropped.map((entry) => entry.name))].join(", ");
  if (dropped.length) {
    element("notice").textContent =
      `${names}: no longer known here; what was said and not saved was dropped.`;
  }
};

const take = (state) => {
  person = state.person;
  myName = state.name;
  recall();
  const asked = new Set(waiting().map(({ value }) => [value.left, value.right].sort().join("\n")));
  // What waits was said after all that is kept.
  last = state.last;
  for (const { path, value } of waiting()) {
    if (path === "api/answers") last = [value, ...last].slice(0, LAST);
    else for (const one of last) if (one.id === value.id) one.undone = true;
  }
  pairs = state.pairs.filter((pair) => !asked.has(pair.map((one) => one.name).sort().join("\n")));
  element("me").hidden = false;
  element("my-name").textContent = myName;
  element("not-me").hidden = !joining;
  tellProgress(state);
  show();
  send();
};

// Doors.

element("who").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const response = await post("api/join", { name: element("name").value });
    const state = await response.json();
    element("refused").textContent = response.ok ? "" : state.problem;
    if (!response.ok) return;
    element("who").hidden = element("go-on").hidden = true;
    element("notice").textContent = "";
    take(state);
  } catch {
    element("refused").textContent = "The page does not answer; try again.";
  }
});
element("not-me").addEventListener("click", () => {
  if (waiting().length) {
    element("notice").textContent = WAIT;
    return;
  }
  leave("", "Go on");
  element("who").hidden = false;
  element("name").value = "";
  element("name").focus();
});
element("go-on").addEventListener("click", begin);

for (const verdict of ["left", "right", "tie", "skip"]) {
  element(`say-${verdict}`).addEventListener("click", () => say(verdict));
}
const undoLast = () => undo(standing()[0]?.id);
element("say-undo").addEventListener("click", undoLast);
for (const side of ["left", "right"]) {
  element(side).addEventListener("click", () => {
    if (String(getSelection()) === "") say(side); // who marks a text does not answer
  });
}

const KEYS = {
  ArrowLeft: () => say("left"),
  ArrowRight: () => say("right"),
  ArrowDown: () => say("tie"),
  s: () => say("skip"),
  z: undoLast,
};
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  const held = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat;
  const inside = event.target instanceof HTMLElement && event.target.closest("article");
  const scrolling = inside && inside.scrollHeight > inside.clientHeight;
  const act = KEYS[event.key] || KEYS[event.key.toLowerCase()];
  if (typing || held || !act || element("asking").hidden) return;
  if (event.key === "ArrowDown" && (scrolling || element("say-tie").hidden)) return;
  event.preventDefault();
  act();
});

begin();

// All may be there meanwhile; where all pairs were answered there may be others once more was learned.
setInterval(async () => {
  const by = person;
  if (by === null) return;
  const path = element("done").hidden ? "api/more?pairs=0" : "api/more";
  try {
    const response = await fetch(path, { headers: headersOf(by) });
    if (!response.ok) return;
    const state = await response.json();
    if (by !== person) return;
    tellProgress(state);
    pairs.push(...state.pairs);
    if (finished) pairs = [];
    if (finished || state.pairs.length) show();
    if (!finished) send(); // what was said when it had ended, where it goes on now
  } catch {
    // Asked again.
  }
}, 10 * 1000);
