// The page of `odek serve`: asks the server, keeps one event stream, draws one session.
// It calls only the routes that docs/SERVE.md lists, by relative addresses, so a path prefix of a proxy works.

import {
  $,
  GrowingText,
  appendMarkdown,
  approvalElement,
  argumentsElement,
  bytes,
  copyButton,
  diffElement,
  errorOf,
  factsOf,
  h,
  icon,
  isDiff,
  number,
  oneLine,
  partsOf,
  plural,
  ticked,
  resultElement,
  seconds,
  settledText,
  short,
  visible,
} from "./render.js";

const PAGE = 100; // entries asked for at once
const KEPT = 400; // entries in the document
const SILENCE_MS = 25_000; // of a stream until it counts as lost; the server sends something each 10 s
const RETRY_S = [1, 2, 5, 10];
const HIDDEN_MS = 20_000; // until a hidden tab gives its stream up
const POLL_MS = { visible: 5000, hidden: 15_000, crowded: 2000 };
const SLOW_DRAW = 50_000; // characters of one growing block from which on it is drawn four times a second

// ---- asking the server ---------------------------------------------------------------------------------------------

const KEY = "odek-key";
const store = {
  get: (area, name) => {
    try {
      return area.getItem(name) || "";
    } catch {
      return "";
    }
  },
  set: (area, name, value) => {
    try {
      if (value) area.setItem(name, value);
      else area.removeItem(name);
    } catch {
      /* full or switched off: it is a convenience */
    }
  },
};

class Problem extends Error {
  constructor(status, error) {
    super(error?.message || `the server answered ${status}`);
    this.status = status;
    this.code = error?.code || "";
    this.hint = error?.hint || "";
    this.details = error || {};
  }
}

const headers = () => ({ "X-Odek-Key": store.get(localStorage, KEY) });

/** Returns the JSON that the server answers. Throws Problem; with status 0 the server was not reached. */
async function ask(method, path, body, extra = {}) {
  let response;
  const used = store.get(localStorage, KEY);
  try {
    response = await fetch(`api/${path}`, {
      method,
      credentials: "same-origin",
      cache: "no-store",
      headers: {
        ...headers(),
        ...(body === undefined || extra.raw ? {} : { "Content-Type": "application/json" }),
        ...extra.headers,
      },
      body: extra.raw || (body === undefined ? undefined : JSON.stringify(body)),
    });
  } catch {
    connection(false);
    throw new Problem(0, { message: "odek serve does not answer", hint: "it is asked again by itself" });
  }
  connection(true);
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "login" && extra.login === undefined) {
    // another tab may just have signed in: its cookie is there before its key is
    if (!extra.again) await new Promise((resolve) => setTimeout(resolve, 400));
    if (!extra.again && used !== store.get(localStorage, KEY))
      return ask(method, path, body, { ...extra, again: true });
    signedOut();
  }
  if (!response.ok) throw new Problem(response.status, answer.error);
  return answer;
}

const randomId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");

// ---- what is known -------------------------------------------------------------------------------------------------

const app = {
  state: null,
  config: null,
  sessions: [],
  next: null,
  damaged: [],
  offline: 0,
  ended: false,
  out: false,
  view: null,
  crowded: false,
};

const sentence = (value) => (typeof value === "string" ? value : (value?.message ?? ""));

/** One open session: its snapshot, and what the document shows of it. */
class View {
  constructor(id) {
    this.id = id;
    this.snapshot = null;
    this.items = []; // in order: {n, element}; n is undefined for what came as an event
    this.calls = new Map(); // id of a call → CallCard
    this.cards = new Map(); // id of an approval → {card, line, element}
    this.tasks = new Map();
    this.writes = new Map(); // id of a call → {path, n, …}
    this.first = 1; // n of the oldest entry that is shown
    this.cut = null; // n of the newest entry shown, when newer ones were taken out again
    this.growing = null;
    this.turn = null; // {turn, began}
    this.lastEvent = "";
    this.stream = null;
    this.config = null;
    this.state = "idle";
  }

  get working() {
    return this.turn !== null;
  }
}

const current = (view) => app.view === view;

// ---- drawing a conversation: the same for entries and for events ---------------------------------------------------

const log = $("log");
const scroller = $("scroller");
const atEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
let stick = true; // whether the end is followed
let pinned = -1; // where the last frame scrolled to; -1: something was drawn since

class CallCard {
  constructor({ id, name, arguments: json, title, n, task }, state) {
    Object.assign(this, { id, name: name || "tool", json: json || "", task, n, result: null, began: 0, open: false });
    const shown = visible(String(title || name || "tool"));
    const [, tool, rest] = /^([\w-]+)(?:: (.*))?$/s.exec(shown) || [null, shown, ""];
    this.mark = h("span.state");
    this.facts = h("span.facts");
    this.button = h(
      "button",
      { type: "button", "aria-expanded": "false" },
      h("span.title", { title: shown }, h("b", null, tool), rest ? h("span", null, `  ${rest}`) : null),
      this.facts,
    );
    this.element = h("div.call", null, this.mark, this.button);
    this.button.addEventListener("click", () => this.toggle());
    this.set(state);
  }

  set(state) {
    this.state = state;
    this.element.className = `call ${state}`;
    const [shape, words] = {
      waiting: ["dash", "not finished"],
      asking: ["question", "asking"],
      running: ["wait", "running"],
      ok: ["check", "ok"],
      failed: ["cross", "failed"],
      done: ["dash", "done"],
    }[state];
    this.mark.replaceChildren(icon(shape), h("span.unseen", null, words));
    this.say();
  }

  run(since) {
    this.began = since || performance.now();
    this.clock = h("span", { "aria-hidden": "true" });
    this.set("running");
    this.tick();
  }

  tick() {
    if (this.state === "running") this.clock.textContent = `${Math.floor((performance.now() - this.began) / 1000)} s`;
  }

  say(took) {
    const facts = this.result === null ? {} : factsOf(this.result);
    if (took) this.took = took;
    const words = [
      this.state === "running" && this.clock,
      ["asking", "waiting", "failed"].includes(this.state) && !facts.code
        ? h("span", null, { asking: "waits for your answer", waiting: "no result", failed: "failed" }[this.state])
        : null,
      facts.late ? h("span.warn", null, facts.late) : null,
      facts.size
        ? h("span.size", null, bytes(facts.size))
        : facts.lines > 1
          ? h("span.size", null, plural(facts.lines, "line"))
          : null,
      this.took >= 0.1 ? h("span.size", null, seconds(this.took)) : null,
      facts.code ? h("span.code-of", null, `exit ${facts.code}`) : null,
    ];
    this.facts.replaceChildren(...words.filter(Boolean));
  }

  output(tail, size) {
    if (this.state !== "running") return;
    this.live ||= h("pre.live", { "aria-live": "off", "aria-label": "Latest output" });
    const lines = visible(String(tail)).replace(/\n+$/, "").split("\n");
    this.live.textContent = lines.slice(-6).join("\n") + (size > 4000 ? `\n(${bytes(size)} so far)` : "");
    if (!this.live.isConnected) this.element.append(this.live);
  }

  finish(text, failed, took) {
    this.result = String(text ?? "");
    this.live?.remove();
    this.took = took;
    const code = factsOf(this.result).code;
    this.set(
      failed === true || errorOf(this.result) !== null || (failed !== false && code !== null && code !== "0")
        ? "failed"
        : "ok",
    );
    if (this.open) this.fill();
  }

  toggle() {
    this.open = !this.open;
    this.button.setAttribute("aria-expanded", String(this.open));
    if (this.open) this.fill();
    else this.body.remove();
  }

  fill() {
    this.body?.remove();
    this.body = h(
      "div.body",
      null,
      argumentsElement(this.name, this.json),
      this.result === null ? null : resultElement(this.result),
    );
    this.element.append(this.body);
  }
}

const TEXT_OF = (entry) => String(entry.text ?? entry.content ?? entry.result ?? "");

/** Returns the element of one entry, or null when it belongs to one that is there. */
function entryElement(view, entry) {
  switch (entry.kind) {
    case "user": {
      const said = h("div.said", null, visible(TEXT_OF(entry)));
      const files = (entry.files || []).map((one) => h("span", null, `▪ ${visible(String(one.name ?? one))}`));
      const element = h(
        "div.user",
        null,
        h("span.prompt", { "aria-hidden": "true" }, "›"),
        h("span.unseen", null, "You: "),
        said,
        files.length ? h("div.attached", null, files) : null,
      );
      if (TEXT_OF(entry).length > 2500) {
        said.classList.add("long");
        element.append(
          h(
            "button.text",
            { type: "button", onclick: (event) => (said.classList.remove("long"), event.target.remove()) },
            "Show all",
          ),
        );
      }
      return element;
    }
    case "assistant":
      return TEXT_OF(entry).trim() ? answerElement(TEXT_OF(entry)) : null;
    case "call": {
      const card = new CallCard(entry, "waiting");
      view.calls.set(entry.id, card);
      return card.element;
    }
    case "result": {
      const known = unfinished(view, entry.id);
      const card = known || new CallCard({ ...entry, title: entry.name }, "done");
      card.finish(TEXT_OF(entry), entry.failed, entry.seconds);
      noteWrite(view, card);
      if (known) return null;
      view.calls.set(entry.id, card);
      return card.element;
    }
    case "warning":
      return h("div.warning", null, visible(TEXT_OF(entry)), entry.hint ? ` — ${visible(entry.hint)}` : null);
    case "note":
      return h("div.note", null, visible(TEXT_OF(entry)));
    default: // a kind of a later version: shown plainly
      return h("div.note", null, visible(`${entry.kind}: ${TEXT_OF(entry) || JSON.stringify(entry)}`.slice(0, 2000)));
  }
}

/** Returns the call with this id that still lacks its result; some models use an id again in each reply. */
function unfinished(view, id) {
  const card = view.calls.get(id);
  return card && card.result === null && !card.over ? card : null;
}

const answerElement = (text) =>
  h(
    `div.reply${text.length > 160 ? ".long" : ""}`,
    null,
    appendMarkdown(h("div.prose"), text),
    copyButton(() => text, "Copy answer"),
  );

function append(view, element, n) {
  if (!element) return;
  if (view.cut !== null) return; // newer entries are out of the document: they come by scrolling
  view.items.push({ n, element });
  log.insertBefore(element, view.growing?.isConnected ? view.growing : null);
  if (stick) trim(view, "top");
  else if (view.items.length > KEPT + PAGE) trimAbove(view);
}

/** Takes the oldest entries out while they are above what is read; where they are not, stops following the end. */
function trimAbove(view) {
  const anchor = view.items[PAGE].element;
  const was = anchor.getBoundingClientRect().top;
  if (was > scroller.getBoundingClientRect().top) view.cut = view.items.at(-1).n ?? Infinity;
  else {
    trim(view, "top");
    scroller.scrollTop += anchor.getBoundingClientRect().top - was;
  }
}

/** Takes entries out of the document until no more than KEPT are left, at the side that is out of sight. */
function trim(view, side) {
  while (view.items.length > KEPT) {
    const gone = side === "top" ? view.items.shift() : view.items.pop();
    gone.element.remove();
    for (const [id, card] of view.calls) if (card.element === gone.element) view.calls.delete(id);
    if (side === "top") view.first = view.items[0].n ?? null;
    else view.cut = view.items.at(-1).n ?? Infinity;
  }
  older(view);
}

function older(view) {
  let line = log.querySelector(":scope > .older");
  const more = view.first === null || view.first > 1;
  if (more && !line) log.prepend((line = h("div.older", null, "earlier entries load as you scroll")));
  if (!more && line) line.remove();
}

/** Draws `entries` before or after what is there and keeps what is in sight where it is. */
function drawPage(view, entries, before) {
  log.setAttribute("aria-busy", "true");
  const fresh = entries
    .map((entry) => ({ n: entry.n, element: entryElement(view, entry) }))
    .filter((item) => item.element);
  const anchor = view.items[before ? 0 : view.items.length - 1]?.element;
  const was = anchor?.getBoundingClientRect().top;
  const fragment = document.createDocumentFragment();
  fragment.append(...fresh.map((item) => item.element));
  if (before) {
    log.insertBefore(fragment, anchor || null);
    view.items.unshift(...fresh);
    view.first = entries[0]?.n ?? 1;
    trim(view, "bottom");
  } else {
    log.append(fragment);
    view.items.push(...fresh);
    trim(view, "top");
  }
  if (anchor) scroller.scrollTop += anchor.getBoundingClientRect().top - was;
  requestAnimationFrame(() => log.removeAttribute("aria-busy"));
}

let loading = false;
async function loadMore(view, before) {
  if (loading || !view.snapshot) return;
  loading = true;
  try {
    if ((before && view.first === null) || (!before && view.cut === Infinity)) return void (await openSnapshot(view));
    const from = before ? view.first : view.cut + PAGE + 1;
    const page = await ask("GET", `sessions/${view.id}/entries?before=${from}&limit=${PAGE}`);
    if (!current(view)) return;
    const entries = before ? page.entries : page.entries.filter((entry) => entry.n > view.cut);
    if (!before && entries.length < PAGE) {
      view.cut = null; // the end is reached: what came meanwhile is in the snapshot
      return void (await openSnapshot(view));
    }
    if (!before) view.cut = entries.at(-1).n;
    drawPage(view, entries, before);
  } catch (problem) {
    report(problem);
  } finally {
    loading = false;
  }
}

scroller.addEventListener(
  "scroll",
  () => {
    const view = app.view;
    if (atEnd()) stick = true;
    else if (pinned >= 0 && scroller.scrollTop < pinned - 2) stick = false;
    $("latest").hidden = stick && (!view || view.cut === null);
    if (!view?.snapshot) return;
    if (scroller.scrollTop < 800 && (view.first === null || view.first > 1)) loadMore(view, true);
    else if (view.cut !== null && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 800)
      loadMore(view, false);
  },
  { passive: true },
);

// while much is drawn only what a person does tells that the end is no longer followed
const letGo = () => {
  if (scroller.scrollHeight > scroller.clientHeight + 60) stick = false;
};
scroller.addEventListener("wheel", (event) => event.deltaY < 0 && letGo(), { passive: true });
scroller.addEventListener("touchmove", letGo, { passive: true });
scroller.addEventListener("pointerdown", (event) => event.target === scroller && letGo());
scroller.addEventListener("keydown", (event) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && letGo());

new ResizeObserver(() => {
  showSheets();
  if (stick && app.view) scroller.scrollTop = scroller.scrollHeight;
}).observe(scroller);

async function toEnd() {
  if (app.view?.cut != null) await openSnapshot(app.view);
  stick = true;
  scroller.scrollTop = scroller.scrollHeight;
}

// a frame draws whatever came since the last one, once
let frame = 0;
let lastDraw = 0;
function draw() {
  frame ||= requestAnimationFrame((now) => {
    frame = 0;
    const growing = app.view?.text;
    if (growing?.dirty && (growing.rest.length < SLOW_DRAW || now - lastDraw > 250)) {
      growing.dirty = false;
      growing.draw();
      lastDraw = now;
    } else if (growing?.dirty) draw();
    if (stick) {
      scroller.scrollTop = scroller.scrollHeight;
      pinned = scroller.scrollTop;
    } else $("latest").hidden = false;
  });
}

// ---- events --------------------------------------------------------------------------------------------------------

function beginTurn(view, turn, since) {
  view.turn = { turn, began: since || performance.now() };
  view.state = "working";
  thinking(view, true);
}

function thinking(view, on) {
  view.thinking?.remove();
  view.thinking = on ? h("div.thinking", { "aria-live": "off" }, "working") : null;
  if (on && view.cut === null) log.append(view.thinking);
}

function growText(view, piece) {
  if (!view.text) {
    view.text = new GrowingText();
    view.growing = h("div.reply", null, view.text.element);
    thinking(view, false);
    if (view.cut === null) log.append(view.growing);
  }
  view.text.add(piece);
  view.text.dirty = true;
  draw();
}

/** What the model thinks, dimmed: its latest line, and all of it on activation. */
function think(view, piece) {
  if (!view.thought?.element.isConnected) {
    const latest = h("span.latest-line");
    const whole = h("div.whole");
    view.thought = {
      text: "",
      latest,
      whole,
      element: h(
        "details.thought",
        { "aria-live": "off" },
        h("summary", null, h("b", null, "Thinking"), latest),
        whole,
      ),
    };
    thinking(view, false);
    append(view, view.thought.element);
  }
  const { thought } = view;
  thought.text += piece;
  thought.whole.append(visible(piece));
  thought.latest.textContent = visible(thought.text.slice(-400)).trimEnd().split("\n").at(-1).slice(-160);
}

function dropText(view) {
  view.thought?.latest.remove();
  view.thought = null;
  view.growing?.remove();
  view.growing = view.text = null;
}

const EVENTS = {
  turn_started(view, event) {
    append(view, entryElement(view, { kind: "user", text: event.text, files: event.files }), event.n);
    beginTurn(view, event.turn);
    stick = true;
  },
  text: (view, event) => growText(view, String(event.text ?? "")),
  thinking: (view, event) => think(view, String(event.text ?? "")),
  text_voided: dropText,
  model_asked(view) {
    dropText(view);
    thinking(view, true);
  },
  model_replied(view, event) {
    const text = String(event.content ?? "");
    if (view.thought) {
      view.thought.latest.remove();
      view.thought = null;
    }
    if (view.text && view.text.text === text) {
      view.text.draw();
      const { growing } = view;
      if (text.length > 160) growing.classList.add("long");
      growing.append(copyButton(() => text, "Copy answer"));
      view.text.done.append(...view.text.tail.childNodes);
      view.growing = view.text = null;
      if (view.cut === null) view.items.push({ n: event.n, element: growing });
    } else {
      dropText(view);
      append(view, entryElement(view, { kind: "assistant", text }), event.n);
    }
    thinking(view, false);
    if (event.context) showMeters(view, event.context);
  },
  tool_started(view, event) {
    thinking(view, false);
    const known = unfinished(view, event.id);
    if (known) return void (known.state === "running" || known.run());
    append(view, entryElement(view, { ...event, kind: "call" }), event.n);
    view.calls.get(event.id)?.run();
  },
  tool_output: (view, event) => view.calls.get(event.id)?.output(event.tail ?? "", event.size_bytes ?? 0),
  tool_finished(view, event) {
    const card = unfinished(view, event.id);
    const took = event.seconds ?? (card?.began ? (performance.now() - card.began) / 1000 : undefined);
    append(view, entryElement(view, { ...event, kind: "result", text: event.result, seconds: took }), event.n);
    if (![...view.calls.values()].some((one) => one.state === "running")) thinking(view, view.working);
  },
  notice: (view, event) => append(view, entryElement(view, { kind: "note", text: event.text }), event.n),
  files_changed(view, { number, files, added, removed, n }) {
    const what = files.length === 1 ? "1 path" : `${files.length} paths`;
    const text = `${what} changed, +${added} −${removed}; odek diff ${number} shows it, odek undo ${number} takes it back`;
    append(view, entryElement(view, { kind: "note", text }), n);
  },
  warning: (view, event) => append(view, entryElement(view, { ...event, kind: "warning" }), event.n),
  sandbox(view, event) {
    if (event.state === "starting") append(view, entryElement(view, { kind: "note", text: "starting a container" }));
    if (event.state === "ready") view.snapshot.container = event.facts;
    if (event.state === "closed" || event.state === "lost") view.snapshot.container = null;
    if (event.state === "closed")
      append(
        view,
        entryElement(view, {
          kind: "note",
          text: `the container was closed${event.reason && event.reason !== "closed" ? `: ${event.reason}` : ""}`,
        }),
      );
    view.lost = event.state === "lost" ? event.reason || "the container is gone" : "";
    view.config = null;
    showBadge();
    showBanners();
    learnSettings(view);
  },
  approval_asked: (view, event) => addApproval(view, event.approval),
  approval_settled: (view, event) => settleApproval(view, event.id, event.answer, event.how),
  task_started(view, event) {
    view.tasks.set(event.task, { ...event, status: "working", latest: "" });
    showTasks(view);
  },
  task_ended(view, event) {
    Object.assign(view.tasks.get(event.task) || {}, event, { latest: "" });
    showTasks(view);
  },
  turn_ended(view, event) {
    dropText(view);
    thinking(view, false);
    view.turn = null;
    view.state = "idle";
    for (const card of view.calls.values()) {
      if (card.result !== null || card.over) continue;
      card.over = true;
      card.live?.remove();
      card.set("waiting");
    }
    append(view, endingElement(view, event));
    if (event.session_usage) view.snapshot.usage = event.session_usage;
    if (event.turn) view.snapshot.turns = Math.max(event.turn, view.snapshot.turns || 0);
    if (event.context) showMeters(view, event.context);
    say(event.status === "answered" ? "The answer is complete" : `The turn ended: ${event.status}`);
    notifyOf(event.status === "answered" ? "has answered" : `ended: ${event.status}`);
    sendNext(view, event.status);
    refreshList();
    if (!$("details").hidden) showPane();
  },
};

function endingElement(view, { status, error, usage, seconds: took }) {
  const facts = [
    took ? seconds(took) : "",
    usage?.input_tokens
      ? `${number(usage.input_tokens)} tokens in` +
        (usage.cached_tokens ? ` (${number(usage.cached_tokens)} cached)` : "")
      : "",
    usage?.output_tokens ? `${number(usage.output_tokens)} out` : "",
  ].filter(Boolean);
  const meta = facts.map((one) => h("span", null, one));
  if (status === "answered") return h("div.ending", null, meta);
  const words =
    { cancelled: "Stopped", failed: "Failed", budget: "A limit was reached", interrupted: "Interrupted" }[status] ||
    visible(String(status));
  if (!error || status === "cancelled") return h("div.ending", null, h("strong", null, words), meta);
  return h(
    "div.ending.failed",
    { role: "alert" },
    h("p", null, h("strong", null, words), ": ", ...ticked(sentence(error))),
    error.detail ? h("p.detail", null, visible(String(error.detail))) : null,
    error.hint ? h("p", null, ticked(error.hint)) : null,
    h("p.meta", null, facts.join(" · ")),
  );
}

function handle(view, kind, event) {
  if (kind === "hello") {
    if (event.state && event.state !== "working" && view.turn && event.state !== "asking") view.turn = null;
  } else if (kind === "reset") openSnapshot(view);
  else if (kind === "crowded") crowd(view);
  else if (kind === "bye") ended();
  else if (
    event.task &&
    kind !== "task_started" &&
    kind !== "task_ended" &&
    kind !== "approval_asked" &&
    kind !== "approval_settled"
  )
    taskEvent(view, kind, event);
  else EVENTS[kind]?.(view, event);
  if (kind !== "text" && kind !== "thinking" && kind !== "tool_output") {
    showState();
    showList();
  }
  pinned = -1;
  draw();
}

function taskEvent(view, kind, event) {
  const task = view.tasks.get(event.task);
  if (!task) return;
  if (kind === "tool_started") task.latest = event.title || event.name;
  if (kind === "warning") task.latest = event.text;
  if (kind === "tool_started" || kind === "warning") showTasks(view);
}

// ---- the stream ----------------------------------------------------------------------------------------------------

/** Reads events until the stream ends, then tries again; one a view. */
async function listen(view) {
  view.stream?.abort();
  const control = (view.stream = new AbortController());
  app.crowded = false;
  for (let attempt = 0; current(view) && !control.signal.aborted && !app.out && !app.ended; attempt++) {
    try {
      const began = performance.now();
      await readStream(view, control);
      if (performance.now() - began > 5000) attempt = 0;
    } catch (problem) {
      if (control.signal.aborted) return;
      const status = problem instanceof Problem ? problem.status : 0;
      if (status === 401) await refreshState().catch(() => {});
      else if (status === 404) return;
      else if (status === 503) return crowd(view);
      else connection(false);
    }
    if (control.signal.aborted || app.ended || app.crowded) return;
    await pause(RETRY_S[Math.min(attempt, RETRY_S.length - 1)] * 1000);
  }
}

async function readStream(view, control) {
  const inner = new AbortController();
  const stop = () => inner.abort();
  control.signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const after = view.lastEvent ? `?after=${encodeURIComponent(view.lastEvent)}` : "";
    const response = await fetch(`api/sessions/${view.id}/events${after}`, {
      headers: headers(),
      credentials: "same-origin",
      cache: "no-store",
      signal: inner.signal,
    });
    if (!response.ok) throw new Problem(response.status, (await response.json().catch(() => ({}))).error);
    connection(true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) takeBlock(view, block);
      if (!current(view) || control.signal.aborted) return;
    }
  } finally {
    clearTimeout(timer);
    control.signal.removeEventListener("abort", stop);
  }
}

function takeBlock(view, block) {
  let id = "";
  let kind = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data && kind === "message") return;
  if (!current(view)) return;
  let event = {};
  try {
    event = JSON.parse(data || "{}");
  } catch {
    return;
  }
  try {
    handle(view, kind, event);
  } catch (bug) {
    console.error("odek: an event could not be drawn", kind, bug);
  }
  if (id) view.lastEvent = id;
}

let wake = () => {};
const pause = (ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => (clearTimeout(timer), resolve());
  });

function crowd(view) {
  app.crowded = true;
  view.stream?.abort();
  showBanners();
}

// ---- approvals -----------------------------------------------------------------------------------------------------

function addApproval(view, card) {
  if (!card?.id || view.cards.has(card.id)) return;
  const items = card.items || [];
  const classes = [...new Set(items.flatMap((item) => item.classes || []))].map(String);
  const what = oneLine(String(items[0]?.text ?? "")).slice(0, 160);
  const line = h(
    "div.settled.open",
    null,
    icon("question"),
    h("strong", null, "Asking"),
    h("span", null, visible(classes.join(", "))),
    h("span.what", null, what),
  );
  const element = approvalElement(card, async (answer, confirm) => {
    try {
      const done = await ask("POST", `sessions/${view.id}/approvals/${encodeURIComponent(card.id)}`, {
        answer,
        digest: card.digest,
        ...(confirm === undefined ? {} : { confirm }),
      });
      settleApproval(view, card.id, done.answer ?? answer, "person");
      return null;
    } catch (problem) {
      if (problem.status === 409 || problem.status === 410 || problem.status === 404) {
        settleApproval(view, card.id, problem.details.answer, problem.status === 410 ? "cancelled" : "person");
        return null;
      }
      return `${visible(problem.message)}${problem.hint ? ` — ${visible(problem.hint)}` : ""}`;
    }
  });
  // the call that the question is about has begun, or is the last one without a result
  const asking = card.from
    ? null
    : [...view.calls.values()].findLast((call) => ["running", "waiting"].includes(call.state));
  if (asking && view.turn) {
    asking.set("asking");
    if (items.length === 1) line.lastChild.remove(); // the call says it already
  }
  append(view, line);
  thinking(view, false);
  view.cards.set(card.id, { card, line, element, asking });
  $("dock").append(element);
  showDock(view);
  view.state = "asking";
  $("assertive").textContent =
    `Approval needed: ${classes.join(", ")}, on ${card.host ? "this host, without a sandbox" : card.place}. ${items.length > 1 ? `${items.length} operations.` : ""}`;
  notifyOf(`asks: ${classes.join(", ")}`);
}

function settleApproval(view, id, answer, how) {
  const known = view.cards.get(id);
  if (!known || known.settled) return;
  known.settled = true;
  const hadFocus = known.element.contains(document.activeElement);
  known.element.remove();
  const words = answer ? settledText(answer, how) : "no longer open";
  const refused = ["deny", "none", undefined].includes(answer);
  known.line.classList.remove("open");
  known.line.replaceChildren(
    icon(refused ? "cross" : "check"),
    h("strong", null, words[0].toUpperCase() + words.slice(1)),
    ...[...known.line.children].slice(2),
  );
  if (known.asking?.state === "asking") {
    if (known.asking.began) known.asking.set("running");
    else known.asking.run();
  }
  showDock(view);
  say(`The question was answered: ${words}`);
  if (![...view.cards.values()].some((one) => !one.settled)) view.state = view.turn ? "working" : "idle";
  if (hadFocus) ($("dock").hidden ? $("text") : $("dock")).focus();
  showState();
}

function showDock(view) {
  const open = [...view.cards.values()].filter((one) => !one.settled).length;
  $("dock").hidden = !open;
  $("dock").setAttribute("aria-label", open === 1 ? "1 open question" : `${open} open questions`);
  if (stick) requestAnimationFrame(() => (scroller.scrollTop = scroller.scrollHeight));
}

// ---- changes and sub-agents ----------------------------------------------------------------------------------------

const WRITERS = new Set(["patch", "write_file", "batch_patch"]);

function noteWrite(view, card) {
  if (!WRITERS.has(card.name) || card.result === null || errorOf(card.result) !== null) return;
  view.writes.set(card.id + card.json, {
    n: card.n ?? Infinity,
    name: card.name,
    json: card.json,
    result: card.result,
  });
}

/** Returns path → the changes to it in order, each with its diff, from the calls that were seen. */
function changesOf(view) {
  const files = new Map();
  const add = (path, change) => files.set(path, [...(files.get(path) || []), change]);
  for (const { name, json, result } of [...view.writes.values()].sort((one, other) => one.n - other.n || 0)) {
    let values = {};
    try {
      values = JSON.parse(json || "{}");
    } catch {
      /* shown without its text */
    }
    const diff = partsOf(result).find((part) => part.source !== undefined)?.text || "";
    if (name === "write_file") add(String(values.path ?? "?"), { whole: true, text: String(values.content ?? "") });
    else if (name === "patch") add(String(values.path ?? "?"), { text: diff });
    else
      for (const part of diff.split(/^== /m).slice(1))
        add(part.split("\n", 1)[0], { text: part.slice(part.indexOf("\n") + 1) });
  }
  return files;
}

const plainLines = (text) => text.replace(/\n$/, "").split("\n");
const countSigns = (text, sign) => text.split("\n").filter((line) => line.startsWith(sign)).length;

function changeElement([path, changes]) {
  const diffs = changes.filter((one) => !one.whole);
  const sum = (sign) => diffs.reduce((total, one) => total + countSigns(one.text, sign), 0);
  const facts = [
    changes.some((one) => one.whole) ? "written whole" : "",
    diffs.length ? `+${sum("+")} −${sum("-")}` : "",
  ]
    .filter(Boolean)
    .join(", ");
  const details = h("details.file-change", null, h("summary", null, oneLine(path), " ", h("span.sum", null, facts)));
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    for (const { whole, text } of changes) {
      details.append(
        h(
          "figure.code",
          null,
          h(
            "figcaption",
            null,
            h("span", null, whole ? "whole file" : "diff"),
            copyButton(() => text, "Copy diff"),
          ),
          whole
            ? diffElement(
                `@@ -0,0 +1,${plainLines(text).length} @@\n${plainLines(text)
                  .map((line) => `+${line}`)
                  .join("\n")}`,
              )
            : isDiff(text)
              ? diffElement(text)
              : h("pre", { tabindex: "0" }, visible(text)),
        ),
      );
    }
  });
  return details;
}

async function scanEarlier(view) {
  // the calls that are not in the document, for the list of changes alone
  const calls = new Map();
  for (let before = view.first ?? 1; before > 1; ) {
    const page = await ask("GET", `sessions/${view.id}/entries?before=${before}&limit=${PAGE}`);
    for (const entry of page.entries) if (WRITERS.has(entry.name)) calls.set(`${entry.id} ${entry.kind}`, entry);
    if (!page.entries.length || !current(view)) break;
    before = page.entries[0].n;
  }
  for (const [name, call] of calls) {
    const result = calls.get(`${call.id} result`);
    if (name.endsWith(" call") && result)
      noteWrite(view, { id: call.id, name: call.name, n: call.n, json: call.arguments, result: TEXT_OF(result) });
  }
  view.scanned = true;
}

function showTasks(view) {
  $("tab-agents").textContent = view.tasks.size ? `Sub-agents ${view.tasks.size}` : "Sub-agents";
  if (!$("details").hidden && pane === "agents") showPane();
}

// ---- header, badge, banners ----------------------------------------------------------------------------------------

const factsInForce = () => {
  const view = app.view;
  if (view?.snapshot?.container) return { ...(view.config?.sandbox || {}), ...view.snapshot.container, planned: false };
  const planned = app.config?.planned;
  return planned ? { ...(planned.sandbox || planned), planned: true } : null;
};

const onHost = () =>
  app.view?.snapshot
    ? app.view.snapshot.sandbox === false
    : app.state?.sandbox === false || app.config?.planned?.enabled === false;

const networkWords = (facts) => {
  const names = (facts.networks || []).map((one) => visible(String(one.name ?? one)));
  return `network ${visible(String(facts.network ?? "none"))}${names.length ? ` ${names.join(" ")}` : ""}`;
};

function badgeSegments(facts) {
  if (onHost()) return { kind: "host", segments: [["", [icon("host"), "commands run ON THIS HOST"]]] };
  if (app.view?.lost) return { kind: "lost", segments: [["", [icon("box"), "sandbox lost"]]] };
  if (app.view?.snapshot?.writable?.ok === false && !app.view.snapshot.container)
    return {
      kind: "planned",
      segments: [
        ["", [icon("box"), "sandbox"]],
        ["", ["not running here"]],
      ],
    };
  if (!facts) return { kind: "planned", segments: [["", [icon("box"), "sandbox"]]] };
  return {
    kind: `${facts.internet ? "warn" : ""}${facts.planned ? " planned" : ""}`,
    segments: [
      ["", [icon("box"), facts.planned ? "sandbox planned" : "sandbox"]],
      ...(facts.internet ? [["", ["internet"]]] : []),
      ["net", [h("span", null, networkWords(facts))]],
      ...(facts.pids_limit ? [["minor rare", [`${facts.pids_limit} processes`]]] : []),
      ...(facts.memory ? [["minor", [visible(String(facts.memory))]]] : []),
      ...(facts.readonly ? [["minor", ["read-only"]]] : []),
    ],
  };
}

function showBadge() {
  const badge = $("badge");
  const { kind, segments } = badgeSegments(factsInForce());
  badge.className = `badge ${kind}`;
  badge.hidden = !app.state;
  badge.replaceChildren(...segments.map(([name, words]) => h("span", { class: `seg ${name}` }, words)));
  badge.title = "Where commands run: details";
  $("hostbar").hidden = !onHost();
  if (onHost()) $("hostbar").textContent = "Commands run ON THIS HOST, without a sandbox";
}

function showMeters(view, context) {
  if (context) view.snapshot.context = context;
  const known = view?.snapshot?.context;
  const model = view?.snapshot?.model || app.config?.model || app.state?.model || "";
  $("model").textContent = visible(String(model));
  const share = known?.window ? Math.min(1, known.tokens / known.window) : 0;
  const bar = h("i");
  bar.style.width = `${Math.round(share * 100)}%`;
  $("window").hidden = !known?.tokens;
  if (known?.window)
    $("window").replaceChildren(
      h("span.bar", { "aria-hidden": "true" }, bar),
      `${short(known.tokens)} of ${short(known.window)}`,
    );
  else if (known?.tokens) $("window").replaceChildren(`${short(known.tokens)} tokens`);
  $("window").title = "What the conversation takes of the model's context window";
  $("window").classList.toggle("full", share > 0.85);
}

function banner(kind, title, text, hint, button) {
  return h(
    `div.banner.${kind}`,
    { role: kind === "bad" ? "alert" : "status" },
    h("strong", null, title),
    text ? h("span", null, ticked(text)) : null,
    hint ? h("span.hint-text", null, ticked(hint)) : null,
    button,
  );
}

const plainButton = (label, act, kind = "") => h(`button.plain${kind}`, { type: "button", onclick: act }, label);

let bannerKey = "";
function showBanners() {
  const view = app.view;
  const list = [];
  if (app.offline)
    list.push([
      "bad",
      "No connection",
      "odek serve does not answer; it is asked again by itself.",
      "What you type here is kept.",
      ["Try now", () => wake()],
    ]);
  const refusal = app.state?.refusal;
  if (refusal) list.push(["warn", "New sandboxes are refused", sentence(refusal), refusal.hint || ""]);
  const writable = view?.snapshot?.writable;
  if (writable && writable.ok === false) {
    const title =
      {
        in_use: "In use elsewhere",
        elsewhere: "Session of another folder",
        damaged: "Damaged",
        begun_on_host: "Begun on the host",
        begun_in_sandbox: "Begun in a sandbox",
      }[writable.code] || "Read-only";
    list.push(["warn", title, writable.message || "", writable.hint || "", ["Look again", () => openSnapshot(view)]]);
  }
  if (view?.lost)
    list.push([
      "bad",
      "The sandbox is lost",
      view.lost,
      "What was in it is gone; the folder and the conversation are not.",
      ["New container", () => sandboxAction("restart")],
    ]);
  if (app.crowded)
    list.push(["plain", "Many tabs are open", "this one looks every 2 s instead of following live.", ""]);
  const key = JSON.stringify(list);
  if (key === bannerKey) return;
  bannerKey = key;
  $("banners").replaceChildren(
    ...list.map(([kind, title, text, hint, button]) =>
      banner(kind, title, text, hint, button && plainButton(...button)),
    ),
  );
}

/** Shows what the state of the session means in header, composer, title and favicon. */
function showState() {
  const view = app.view;
  const working = Boolean(view?.working);
  const writable = view?.snapshot?.writable;
  const asking = view && [...view.cards.values()].some((one) => !one.settled);
  $("stop").hidden = !working;
  document.body.dataset.view = view
    ? view.snapshot
      ? asking
        ? "asking"
        : working
          ? "working"
          : "idle"
      : "loading"
    : "new";
  const blocked = (writable && writable.ok === false) || app.out || view?.broken;
  $("text").disabled = Boolean(blocked);
  $("text").placeholder = blocked
    ? "This session cannot be continued here"
    : working
      ? "Say what comes next"
      : view
        ? "Reply, or give the next task"
        : "Describe a task";
  $("send").disabled = Boolean(blocked) || sending || (!$("text").value.trim() && !files.some((one) => one.id));
  $("send").setAttribute("aria-label", working ? "Send after this turn" : "Send");
  const others = (app.state?.sessions || []).filter((one) => one.id !== view?.id);
  const any =
    asking || others.some((one) => one.state === "asking")
      ? "asking"
      : working || others.some((one) => one.state === "working")
        ? "working"
        : "";
  const title = view
    ? view.snapshot?.title || app.sessions.find((one) => encodeURIComponent(one.id) === view.id)?.title
    : "New session";
  $("title").textContent = visible(title || (view ? "…" : "odek"));
  document.title = `${{ asking: "(?) ", working: "● " }[any] || ""}${title ? `${visible(title)} · ` : ""}odek`;
  const href = `icon.svg${any ? `#${any}` : ""}`;
  if ($("favicon").getAttribute("href") !== href) $("favicon").setAttribute("href", href);
}

function connection(works) {
  if (works === !app.offline) return;
  app.offline = works ? 0 : 1;
  if (works) wake();
  else setTimeout(poll, RETRY_S[0] * 1000);
  showBanners();
}

const say = (text) => ($("polite").textContent = text);
const report = (problem, where = $("hint")) => {
  where.classList.add("bad");
  where.textContent = `${visible(problem.message)}${problem.hint ? ` — ${visible(problem.hint)}` : ""}`;
};

// ---- sessions ------------------------------------------------------------------------------------------------------

const ago = (text) => {
  const past = (Date.now() - Date.parse(text)) / 1000;
  if (!(past >= 0)) return "";
  return past < 60
    ? "now"
    : past < 3600
      ? `${Math.floor(past / 60)} min`
      : past < 86400
        ? `${Math.floor(past / 3600)} h`
        : past < 30 * 86400
          ? `${Math.floor(past / 86400)} d`
          : text.slice(0, 10);
};

async function refreshList(more = false) {
  const filter = $("filter").value.trim();
  try {
    const query = `limit=50${filter ? `&q=${encodeURIComponent(filter)}` : ""}${more && app.next ? `&before=${encodeURIComponent(app.next)}` : ""}`;
    const answer = await ask("GET", `sessions?${query}`);
    app.sessions = more ? [...app.sessions, ...answer.sessions] : answer.sessions;
    app.next = answer.next;
    app.damaged = answer.damaged || [];
    showList();
  } catch (problem) {
    if (problem.status !== 401 && problem.status !== 0) report(problem);
  }
}

let listKey = "";
function showList() {
  const live = new Map((app.state?.sessions || []).map((one) => [one.id, one.state]));
  if (app.view?.snapshot)
    live.set(
      app.view.id,
      app.view.cards.size && !$("dock").hidden
        ? "asking"
        : app.view.working
          ? "working"
          : app.view.lost
            ? "lost"
            : app.view.snapshot.container
              ? "idle"
              : "",
    );
  const key = JSON.stringify([
    app.sessions,
    app.damaged,
    app.next,
    [...live],
    app.view?.id,
    Math.floor(Date.now() / 60000),
  ]);
  if (key === listKey) return;
  listKey = key;
  const focused = document.activeElement?.closest?.("#list a")?.getAttribute("href");
  const rows = app.sessions.map((one) => {
    const state = live.get(one.id) || one.state || "";
    const foreign = one.cwd && app.state?.folder && one.cwd !== app.state.folder;
    return h(
      "li",
      null,
      h(
        "a",
        { href: `#/s/${encodeURIComponent(one.id)}`, "aria-current": one.id === app.view?.id ? "page" : null },
        h("span", { class: `dot ${state}` }, h("span.unseen", null, state && state !== "closed" ? `${state}: ` : "")),
        h("span.name", null, visible(one.title || one.id)),
        h("time", { datetime: one.updated_at || "" }, ago(one.updated_at || "")),
        foreign
          ? h("span.sub", { title: one.cwd }, visible(one.cwd))
          : state === "asking"
            ? h("span.sub.warn", null, "waits for your answer")
            : null,
      ),
    );
  });
  for (const one of app.damaged)
    rows.push(
      h(
        "li.damaged",
        null,
        h("span"),
        h("span.name", null, visible(one.id || "")),
        h("span"),
        h("span.sub", null, `damaged: ${visible(one.message || one.reason || "")}`),
      ),
    );
  if (!rows.length) rows.push(h("li.none", null, $("filter").value ? "No session matches" : "No sessions yet"));
  if (app.next)
    rows.push(
      h("li", null, h("button.text.more", { type: "button", onclick: () => refreshList(true) }, "Older sessions")),
    );
  $("list").replaceChildren(...rows);
  if (focused) [...$("list").querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
}

let pollTimer = 0;
let crowdedPolls = 0;
async function poll() {
  clearTimeout(pollTimer);
  if (app.out || app.ended) return;
  let delay = document.hidden ? POLL_MS.hidden : app.crowded ? POLL_MS.crowded : POLL_MS.visible;
  try {
    await refreshState();
    app.failures = 0;
    // when another tab was closed there is a stream for this one
    if (app.crowded && !document.hidden && ++crowdedPolls % 10 === 0) listen(app.view);
  } catch {
    app.failures = (app.failures || 0) + 1;
    delay = RETRY_S[Math.min(app.failures - 1, RETRY_S.length - 1)] * 1000;
  }
  pollTimer = setTimeout(poll, delay);
}

async function refreshState() {
  const before = new Map((app.state?.sessions || []).map((one) => [one.id, one.state]));
  app.state = await ask("GET", "state");
  $("folder").replaceChildren(h("bdi", null, visible(app.state.folder || "")));
  const view = app.view;
  if (view?.snapshot && (app.crowded || (document.hidden && !view.stream))) {
    const now = app.state.sessions?.find((one) => one.id === view.id)?.state || "idle";
    if (now !== before.get(view.id) || now === "working") await openSnapshot(view, { stream: false });
  }
  for (const one of app.state.sessions || [])
    if (one.id !== view?.id && one.state === "asking" && before.get(one.id) !== "asking" && before.size)
      notifyOf("asks in another session");
  showBadge();
  showBanners();
  showState();
  showList();
}

/** Takes a new snapshot and draws all of it. */
async function openSnapshot(view, { stream = true } = {}) {
  let snapshot;
  try {
    snapshot = await ask("GET", `sessions/${view.id}`);
  } catch (problem) {
    if (!current(view) || problem.status === 401) return;
    if (problem.status === 0) return void setTimeout(() => current(view) && !view.snapshot && openSnapshot(view), 2000);
    view.broken = true;
    showState();
    log.replaceChildren(
      h(
        "div.ending.failed",
        { role: "alert" },
        h(
          "p",
          null,
          h("strong", null, problem.code === "damaged" ? "This session is damaged" : "This session cannot be shown"),
          ": ",
          ...ticked(problem.message),
        ),
        problem.hint ? h("p", null, ticked(problem.hint)) : null,
      ),
    );
    return;
  }
  if (!current(view)) return;
  const place = stick ? null : scroller.scrollTop;
  Object.assign(view, {
    snapshot,
    items: [],
    calls: new Map(),
    cards: new Map(),
    cut: null,
    lastEvent: snapshot.last_event || "",
    turn: null,
    state: snapshot.state || "idle",
  });
  view.lost = snapshot.state === "lost" ? "the container has ended" : "";
  dropText(view);
  $("dock").replaceChildren();
  log.replaceChildren();
  $("intro").hidden = true;
  view.first = snapshot.entries?.[0]?.n ?? 1;
  drawPage(view, snapshot.entries || [], false);
  if (snapshot.turn) {
    const now = snapshot.turn;
    beginTurn(view, now.turn);
    for (const call of now.running || []) {
      if (!unfinished(view, call.id)) append(view, entryElement(view, { ...call, kind: "call" }));
      view.calls.get(call.id)?.run(call.seconds === undefined ? 0 : performance.now() - call.seconds * 1000);
    }
    if (now.partial) growText(view, now.partial);
  }
  if (!snapshot.turn && nextOf() && view.id === place()) takeNextBack(); // its turn ended while no page looked
  for (const card of snapshot.approvals || []) addApproval(view, card);
  view.tasks = new Map((snapshot.tasks || []).map((task) => [task.task, { status: "working", ...task }]));
  showTasks(view);
  showDock(view);
  showMeters(view);
  showBadge();
  showBanners();
  showState();
  showList();
  draw();
  if (place !== null) scroller.scrollTop = place;
  learnSettings(view);
  if (stream && (snapshot.writable?.ok !== false || ["working", "asking"].includes(snapshot.state))) listen(view);
}

function route() {
  const found = /^#\/s\/([^/?#]+)$/.exec(location.hash);
  const id = found && decodeURIComponent(found[1]);
  if (app.view && app.view.id === id) return;
  app.view?.stream?.abort();
  keepDraft();
  app.view = id ? new View(encodeURIComponent(id)) : null;
  app.crowded = false;
  stick = true;
  bannerKey = "";
  log.replaceChildren();
  $("dock").replaceChildren();
  $("dock").hidden = true;
  $("latest").hidden = true;
  $("hint").classList.remove("bad");
  closeSheet("sessions");
  showTasksLabel();
  loadDraft();
  $("intro").hidden = Boolean(id);
  if (id) {
    log.append(
      h("div.skeleton", { role: "status", "aria-label": "Loading" }, ...Array.from({ length: 7 }, () => h("i"))),
    );
    openSnapshot(app.view);
  } else {
    showIntro();
    scroller.scrollTop = 0;
  }
  showMeters(app.view);
  showBadge();
  showBanners();
  showState();
  showList();
  if (!$("details").hidden) showPane();
}

const showTasksLabel = () => ($("tab-agents").textContent = "Sub-agents");

function showIntro() {
  const facts = factsInForce();
  const fact = (name, ...value) => h("div.fact", null, h("dt", null, name), h("dd", null, ...value));
  const examples = [
    "Run the tests, find out why the failing ones fail, and fix them",
    "Explain how this project is built, with the files that matter",
    "Find dead code in this folder and list it, change nothing",
  ];
  $("intro").replaceChildren(
    h("h2", null, "What should be done here?"),
    h(
      "p.lead",
      null,
      "odek is an agent that works on this folder: it reads and edits files and runs commands. ",
      onHost()
        ? "Commands run on this host, without a sandbox."
        : "Each session gets a container of its own with its first message; commands run there and not on this machine.",
    ),
    h(
      "dl.plate",
      null,
      fact("folder", h("code", null, visible(app.state?.folder || "…"))),
      fact(
        "commands run",
        onHost()
          ? h("strong.danger", null, "ON THIS HOST, without a sandbox")
          : facts
            ? `in a sandbox, ${networkWords(facts)}${facts.internet ? ", the internet can be reached" : ", no internet"}`
            : "in a sandbox",
      ),
      app.config?.model ? fact("model", h("code", null, visible(String(app.config.model)))) : null,
    ),
    h("h3", null, "For example"),
    ...examples.map((text) =>
      h(
        "button.example",
        {
          type: "button",
          onclick: () => {
            $("text").value = text;
            typed();
            $("text").focus();
          },
        },
        text,
      ),
    ),
  );
}

// ---- details -------------------------------------------------------------------------------------------------------

let pane = "sandbox";
const TABS = ["sandbox", "changes", "agents"];

async function showPane() {
  const view = app.view;
  for (const name of TABS) {
    $(`tab-${name}`).setAttribute("aria-selected", String(name === pane));
    $(`tab-${name}`).tabIndex = name === pane ? 0 : -1;
  }
  $("pane").setAttribute("aria-labelledby", `tab-${pane}`);
  if (pane === "changes") return void showChanges(view);
  if (pane === "agents") return void showAgents(view);
  await loadConfig(view);
  if (app.view === view && pane === "sandbox") showSandbox(view);
}

async function loadConfig(view) {
  try {
    app.config ||= await ask("GET", "config");
    if (view?.snapshot && !view.config) view.config = await ask("GET", `config?session=${view.id}`);
  } catch {
    /* the pane shows what is known */
  }
}

/** Asks for what a session's container has: the badge shows its limits, the pane all of it. */
async function learnSettings(view) {
  if (view.snapshot.container) await loadConfig(view);
  if (!current(view)) return;
  showBadge();
  if (!$("details").hidden) showPane();
}

const row = (name, value, source) =>
  value === null || value === undefined || value === ""
    ? null
    : h("div.fact", null, h("dt", null, name), h("dd", null, source ? h("span.source", null, source) : null, value));
const words = (value) =>
  value === null || value === undefined
    ? null
    : Array.isArray(value)
      ? value.map(words).join(", ") || "none"
      : typeof value === "object"
        ? visible(JSON.stringify(value))
        : visible(String(value));

function showSandbox(view) {
  const facts = factsInForce() || {};
  const config = view?.config || app.config?.planned || {};
  const source = (key) => config.source?.[key] || app.config?.source?.[key] || "";
  const networks = (facts.networks || []).map((one) =>
    h(
      "div",
      null,
      visible(String(one.name ?? one)),
      one.internal ? " (internal)" : "",
      one.id ? ` ${String(one.id).slice(0, 12)}` : "",
      one.project ? `, project ${visible(one.project)}` : "",
    ),
  );
  const children = [
    h("h2", null, onHost() ? "Where commands run" : facts.planned ? "Sandbox, planned" : "Sandbox, in force"),
  ];
  if (onHost())
    children.push(
      h("p.danger", null, "Commands run ON THIS HOST, without a sandbox."),
      row("reason", words(config.sandbox?.reason)),
    );
  else
    children.push(
      h(
        "dl",
        null,
        row("container", words(facts.container)),
        row("image", words(facts.image), source("sandbox_image")),
        row(
          "image ID",
          words(facts.image_id)
            ?.replace(/^sha256:/, "")
            .slice(0, 20),
        ),
        row("network", words(facts.network), source("sandbox_network")),
        row(
          "internet",
          facts.internet === undefined
            ? null
            : facts.internet
              ? h("span.warn", null, "can be reached")
              : "cannot be reached",
        ),
        networks.length ? row("attached", networks, source("sandbox_networks")) : null,
        row("services", facts.services?.length ? words(facts.services) : null),
        row("processes", facts.pids_limit && `at most ${facts.pids_limit}`, source("sandbox_pids_limit")),
        row("memory", words(facts.memory), source("sandbox_memory")),
        row("CPUs", words(facts.cpus), source("sandbox_cpus")),
        row("user", words(facts.user), source("sandbox_user")),
        row(
          "folder",
          facts.readonly === undefined ? null : facts.readonly ? "read-only" : "read and write",
          source("sandbox_readonly"),
        ),
        row("volumes", facts.volumes?.length ? words(facts.volumes) : null),
        row("variables", facts.env_keys?.length ? words(facts.env_keys) : null),
      ),
    );
  if (view?.snapshot) {
    const { snapshot } = view;
    const usage = snapshot.usage || {};
    children.push(
      h("h2", null, "Session"),
      h(
        "dl",
        null,
        row("id", visible(String(snapshot.id || view.id))),
        row("begun", words(snapshot.created_at)?.replace("T", " ").slice(0, 16)),
        row("turns", words(snapshot.turns)),
        usage.input_tokens === undefined
          ? null
          : row("tokens in", `${number(usage.input_tokens)} (${number(usage.cached_tokens || 0)} cached)`),
        usage.output_tokens === undefined ? null : row("tokens out", number(usage.output_tokens)),
      ),
    );
    if (snapshot.writable?.ok !== false) children.push(...sessionActions(view));
  }
  const named = [
    ["model", config.model ?? app.config?.model],
    ["base URL", config.base_url],
    ["iterations", config.max_iterations],
    ["approval", config.interaction_mode],
  ];
  children.push(
    h("h2", null, "Settings in force"),
    h(
      "dl",
      null,
      named.map(([name, value]) =>
        row(
          name,
          words(value),
          source({ "base URL": "base_url", iterations: "max_iterations", approval: "interaction_mode" }[name] || name),
        ),
      ),
    ),
  );
  const servers = config.mcp_servers || app.config?.mcp_servers || [];
  if (servers.length)
    children.push(
      h("h2", null, "MCP servers"),
      h(
        "dl",
        null,
        servers.map((one) =>
          row(visible(String(one.name)), `${words(one.state) || ""}, runs in the ${words(one.runs)}`),
        ),
      ),
    );
  $("pane").replaceChildren(...children.filter(Boolean));
}

function sessionActions(view) {
  const id = String(view.snapshot.id || view.id);
  const command = `odek continue --id ${id}`;
  const model = h("input", {
    type: "text",
    value: visible(String(view.snapshot.model || app.config?.model || "")),
    "aria-label": "Model for the next turns",
    autocomplete: "off",
    spellcheck: "false",
  });
  const form = h(
    "form.model-form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        act(async () => {
          await ask("POST", `sessions/${view.id}/model`, { model: model.value.trim() });
          view.snapshot.model = model.value.trim();
          view.config = null;
          showMeters(view);
        });
      },
    },
    model,
    h("button.plain", { type: "submit" }, "Use"),
  );
  const result = h("p.explain", { role: "status" });
  const act = async (work) => {
    try {
      result.classList.remove("danger");
      await work();
      result.textContent = "Done";
    } catch (problem) {
      result.classList.add("danger");
      report(problem, result);
    }
  };
  const sure = (label, question, work) => {
    const button = plainButton(
      label,
      () => {
        if (button.textContent === label) {
          button.textContent = question;
          setTimeout(() => (button.textContent = label), 4000);
        } else act(work);
      },
      ".danger",
    );
    return button;
  };
  return [
    h("h2", null, "Model"),
    form,
    h("h2", null, "Go on in the terminal"),
    h("p.explain", null, "Close the session here first; then the terminal can take it."),
    h(
      "div.command.fact",
      null,
      h("code", null, command),
      copyButton(() => command, "Copy command"),
    ),
    h(
      "div.actions",
      null,
      view.snapshot.container ? plainButton("Close session", () => act(() => sandboxAction("close"))) : null,
      view.snapshot.container ? plainButton("New container", () => act(() => sandboxAction("restart"))) : null,
      view.snapshot.container || !app.state?.sandbox
        ? plainButton("Summarize", () => act(() => ask("POST", `sessions/${view.id}/compact`, {})))
        : null,
      plainButton("Undo last turn", () =>
        act(async () => {
          await ask("POST", `sessions/${view.id}/undo`, {});
          await openSnapshot(view);
        }),
      ),
      sure("Delete", "Delete for good?", async () => {
        await ask("DELETE", `sessions/${view.id}`);
        location.hash = "#/";
        refreshList();
      }),
    ),
    h(
      "p.explain",
      null,
      "Summarize: a summary by the model is sent in place of the older part; the session keeps everything. ",
      "Undo takes back what was said, not files: ",
      h("code", null, "odek undo"),
      " does that, in the folder.",
    ),
    view.snapshot.container
      ? h(
          "p.explain",
          null,
          "Closing removes the container with everything in it outside the folder, a server that still runs in the background included.",
        )
      : null,
    result,
  ];
}

const sandboxAction = (action) => ask("POST", `sessions/${app.view.id}/sandbox`, { action });

async function showChanges(view) {
  const target = $("pane");
  const files = view ? changesOf(view) : new Map();
  target.replaceChildren(
    h(
      "p.explain",
      null,
      "Files that odek's tools wrote in this session, oldest change first. Commands may have changed more.",
    ),
    ...[...files].map(changeElement),
    ...(files.size ? [] : [h("p.explain", null, "No file was written by a tool.")]),
    ...(view && !view.scanned && (view.first === null || view.first > 1)
      ? [
          plainButton("Look through earlier entries", async () => {
            await scanEarlier(view).catch(report);
            if (current(view)) showChanges(view);
          }),
        ]
      : []),
  );
}

function showAgents(view) {
  const tasks = [...(view?.tasks.values() || [])];
  $("pane").replaceChildren(
    ...tasks.map((task, index) =>
      h(
        "div.task-item",
        null,
        h(
          "p",
          null,
          h("strong", null, `${index + 1}${task.of ? ` of ${task.of}` : ""} · ${visible(String(task.status))}`),
          task.seconds ? ` · ${seconds(task.seconds)}` : "",
          task.usage ? ` · ${number(task.usage.output_tokens ?? 0)} tokens out` : "",
        ),
        h("p", null, visible(String(task.goal || ""))),
        task.latest ? h("p.mono", null, visible(String(task.latest))) : null,
        task.files?.length ? h("p", null, `wrote ${task.files.map((one) => visible(String(one))).join(", ")}`) : null,
        task.status === "working"
          ? plainButton("Stop this one", () =>
              ask("POST", `sessions/${view.id}/tasks/${encodeURIComponent(task.task)}/cancel`, {}).catch(report),
            )
          : null,
      ),
    ),
    ...(tasks.length ? [] : [h("p.explain", null, "No sub-agents in this session since the page was opened.")]),
  );
}

// ---- sheets, keys, help --------------------------------------------------------------------------------------------

const scrim = h("div.scrim", {
  hidden: true,
  onclick: () => {
    closeSheet("sessions");
    closeSheet("details");
  },
});
document.body.append(scrim);
const narrow = (query) => matchMedia(query).matches;
const covers = (name) =>
  name === "sessions" ? $("sessions").classList.contains("open") : !$("details").hidden && narrow("(max-width: 74rem)");
let returnTo = null;

function openSheet(name) {
  returnTo = document.activeElement;
  if (name === "sessions") $("sessions").classList.add("open");
  else {
    $("details").hidden = false;
    showPane();
  }
  if (covers(name)) $(name === "sessions" ? "new" : `tab-${pane}`).focus();
  showSheets();
}

function closeSheet(name) {
  const inside = $(name).contains(document.activeElement);
  if (name === "sessions") $("sessions").classList.remove("open");
  else $("details").hidden = true;
  if (inside && returnTo?.isConnected) returnTo.focus();
  showSheets();
}

function showSheets() {
  scrim.hidden = !covers("sessions") && !covers("details");
  for (const [button, name] of [
    ["open-sessions", "sessions"],
    ["open-details", "details"],
    ["badge", "details"],
  ]) {
    $(button).setAttribute("aria-expanded", String(name === "sessions" ? covers(name) : !$("details").hidden));
  }
}

const KEYS = [
  ["Enter", "send"],
  ["Shift+Enter", "a new line"],
  ["@", "complete the name of a file"],
  ["Ctrl+.", "stop the turn"],
  ["/", "go to the message"],
  ["Esc", "close a sheet or a list; never answers or stops"],
  ["?", "this list"],
];

function showHelp() {
  const help = $("help");
  help.replaceChildren(
    h("h2", null, "Keys"),
    h(
      "dl",
      null,
      KEYS.map(([key, what]) => h("div.fact", null, h("dt", null, h("kbd", null, key)), h("dd", null, what))),
    ),
    h(
      "p.explain",
      null,
      "Questions are answered with their buttons alone: Shift+Tab leads there from the message, no bare key says yes.",
    ),
    plainButton("Close", () => help.close()),
  );
  if (!help.open) help.showModal();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "." && (event.ctrlKey || event.metaKey) && !event.altKey) {
    event.preventDefault();
    stopTurn();
  } else if (event.key === "Escape" && !event.defaultPrevented) {
    if (covers("sessions")) closeSheet("sessions");
    else if (!$("details").hidden) closeSheet("details");
  } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    if (event.key === "?") showHelp();
    else if (event.key === "/") {
      event.preventDefault();
      $("text").focus();
    } else if (event.key.length === 1 && event.key !== " " && document.activeElement === document.body) {
      $("text").focus(); // what is typed into nothing begins a message
    }
  }
});

async function stopTurn() {
  const view = app.view;
  if (!view?.working) return;
  $("stop").disabled = true;
  say("Stopping");
  try {
    await ask("POST", `sessions/${view.id}/cancel`, { turn: view.turn.turn });
  } catch (problem) {
    report(problem);
  }
  $("stop").disabled = false;
}

// ---- composer ------------------------------------------------------------------------------------------------------

const text = $("text");
let files = []; // {id, name, size, element}; without an id while it is sent
let sending = false;
let pending = null; // {text, id}: the same message keeps its id when it is tried again
const place = () => (app.view ? app.view.id : "new");

function keepDraft() {
  if (text.dataset.place) store.set(sessionStorage, `draft ${text.dataset.place}`, text.value);
}

function loadDraft() {
  text.dataset.place = place();
  text.value = store.get(sessionStorage, `draft ${place()}`);
  for (const one of files) one.element.remove();
  files = [];
  for (const one of keptFiles(place())) showFile({ ...one, place: place() });
  showNext();
  grow();
}

const keptFiles = (where) => JSON.parse(store.get(sessionStorage, `files ${where}`) || "[]");

/** Keeps what was uploaded with the draft that it belongs to. */
function keepFiles(where, kept) {
  const shown = kept.map(({ id, name, size }) => ({ id, name, size }));
  store.set(sessionStorage, `files ${where}`, shown.length ? JSON.stringify(shown) : "");
}

function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}

function typed() {
  keepDraft();
  grow();
  $("hint").classList.remove("bad");
  showHint();
  showState();
}

function showHint() {
  if ($("hint").classList.contains("bad")) return;
  $("hint").replaceChildren(h("span.keys", null, "Enter sends · Shift+Enter new line · @ names a file"));
}

const nextOf = () => store.get(sessionStorage, `next ${place()}`);

function showNext() {
  const waits = nextOf();
  $("next").hidden = !waits;
  $("next").replaceChildren(
    h("b", null, "Next:"),
    h("span.words", null, visible(waits)),
    h(
      "button.quiet",
      {
        type: "button",
        "aria-label": "Edit the next message",
        onclick: () => {
          takeNextBack();
          text.focus();
        },
      },
      icon("close"),
    ),
  );
}

function takeNextBack() {
  text.value = nextOf() + (text.value ? `\n${text.value}` : "");
  store.set(sessionStorage, `next ${place()}`, "");
  showNext();
  typed();
}

function sendNext(view, status) {
  const waits = nextOf();
  if (!waits) return;
  if (status !== "answered") return takeNextBack();
  post(view, waits).then(
    () => {
      store.set(sessionStorage, `next ${place()}`, "");
      showNext();
    },
    (problem) => {
      takeNextBack();
      report(problem);
    },
  );
}

async function post(view, message, uploads = []) {
  if (pending?.text !== message || pending.place !== place())
    pending = { text: message, place: place(), id: randomId() };
  const body = { text: message, files: uploads, request_id: pending.id };
  const path = view ? `sessions/${view.id}/turns` : "sessions";
  for (let attempt = 0; ; attempt++) {
    try {
      const answer = await ask("POST", path, body);
      pending = null;
      return answer;
    } catch (problem) {
      // a turn that has just ended may take a moment to let the next one in
      if (problem.code !== "busy" || attempt === 4 || view?.working) throw problem;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

async function submit() {
  const message = text.value.trim();
  const view = app.view;
  const ready = files.filter((one) => one.id);
  if (sending || (!message && !ready.length) || text.disabled) return;
  if (files.some((one) => !one.id && !one.failed)) return void report({ message: "a file is still being sent" });
  if (view?.working) {
    if (nextOf()) return void report({ message: "one message waits already; it is sent when this turn has ended" });
    if (ready.length) return void report({ message: "files can be sent when this turn has ended" });
    store.set(sessionStorage, `next ${place()}`, message);
    text.value = "";
    showNext();
    return typed();
  }
  sending = true;
  showState();
  $("hint").classList.remove("bad");
  $("hint").textContent = view ? "" : onHost() ? "starting …" : "starting a container …";
  const from = place();
  try {
    const answer = await post(
      view,
      message,
      ready.map((one) => one.id),
    );
    store.set(sessionStorage, `draft ${from}`, "");
    keepFiles(from, []);
    if (place() === from) {
      text.value = "";
      for (const one of files) one.element.remove();
      files = [];
    }
    if (!view && place() === from) {
      text.dataset.place = "";
      location.hash = `#/s/${encodeURIComponent(answer.id)}`;
    } else if (view && !view.stream) openSnapshot(view);
    stick = true;
    refreshList();
    showHint();
  } catch (problem) {
    report(problem);
    const closable = problem.details.sessions || problem.details.closable;
    if (problem.code === "sandboxes" && Array.isArray(closable))
      $("hint").append(
        ` Could be closed: ${closable.map((one) => visible(String(one.title || one.id || one))).join(", ")}`,
      );
  }
  sending = false;
  grow();
  showState();
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
text.addEventListener("input", () => {
  typed();
  complete();
});
text.addEventListener("keydown", (event) => {
  if (completionKey(event)) return;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !event.altKey) {
    event.preventDefault();
    submit();
  }
});

function showFile(entry) {
  const remove = h(
    "button.quiet",
    {
      type: "button",
      "aria-label": `Remove ${visible(entry.name)}`,
      onclick: () => {
        files = files.filter((one) => one !== entry);
        entry.element.remove();
        if (entry.id) ask("DELETE", `uploads/${encodeURIComponent(entry.id)}`).catch(() => {});
        keepFiles(entry.place, keptFiles(entry.place).filter((one) => one.id !== entry.id));
        showState();
      },
    },
    icon("close"),
  );
  entry.state = h("span", null, entry.id ? bytes(entry.size) : " sending");
  entry.element = h("li", null, h("span", null, visible(entry.name)), entry.state, remove);
  files.push(entry);
  $("files").append(entry.element);
}

async function upload(file) {
  const entry = { name: file.name || "pasted", size: file.size, place: place() };
  showFile(entry);
  try {
    const answer = await ask("POST", "uploads", null, {
      raw: file,
      headers: { "Content-Type": "application/octet-stream", "X-Odek-Filename": encodeURIComponent(entry.name) },
    });
    entry.id = answer.id;
    entry.state.textContent = bytes(file.size);
    keepFiles(entry.place, [...keptFiles(entry.place), entry]);
  } catch (problem) {
    entry.failed = true;
    entry.element.classList.add("bad");
    entry.state.textContent = visible(problem.message);
  }
  showState();
}

$("attach").addEventListener("click", () => $("chooser").click());
$("chooser").addEventListener("change", () => {
  [...$("chooser").files].forEach(upload);
  $("chooser").value = "";
});
text.addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  [...event.clipboardData.files].forEach(upload);
});
for (const kind of ["dragover", "drop", "dragleave"]) {
  document.addEventListener(kind, (event) => {
    if (kind !== "dragleave" && event.dataTransfer?.types.includes("Files")) event.preventDefault();
    $("composer").classList.toggle("over", kind === "dragover" && Boolean(event.dataTransfer?.types.includes("Files")));
    if (kind === "drop") [...event.dataTransfer.files].forEach(upload);
  });
}

// names of files after "@"
let offered = [];
let chosen = 0;
let completeTimer = 0;

function complete() {
  clearTimeout(completeTimer);
  const found = /(?:^|\s)@([^\s@]{0,200})$/.exec(
    text.value.slice(Math.max(0, text.selectionStart - 220), text.selectionStart),
  );
  if (!found) return offer([]);
  completeTimer = setTimeout(async () => {
    try {
      const answer = await ask("GET", `files?q=${encodeURIComponent(found[1])}&limit=50`);
      if (text.value.slice(0, text.selectionStart).endsWith(`@${found[1]}`)) offer(answer.files || []);
    } catch {
      offer([]);
    }
  }, 100);
}

function offer(list) {
  offered = list;
  chosen = 0;
  const box = $("completion");
  box.hidden = !list.length;
  box.replaceChildren(
    ...list.map((one, index) =>
      h(
        "li",
        {
          id: `file-${index}`,
          role: "option",
          "aria-selected": "false",
          onmousedown: (event) => {
            event.preventDefault();
            accept(index);
          },
        },
        h("span", null, oneLine(one.path) + (one.folder ? "/" : "")),
        h("span.size", null, one.folder ? "" : bytes(one.size || 0)),
      ),
    ),
  );
  if (list.length) {
    say(`${plural(list.length, "file")} found`);
    choose(0);
  } else text.removeAttribute("aria-activedescendant");
}

function choose(index) {
  chosen = (index + offered.length) % offered.length;
  [...$("completion").children].forEach((one, at) => one.setAttribute("aria-selected", String(at === chosen)));
  text.setAttribute("aria-activedescendant", `file-${chosen}`);
  $(`file-${chosen}`).scrollIntoView({ block: "nearest" });
}

function accept(index) {
  const { path, folder } = offered[index];
  const start = text.value.slice(0, text.selectionStart).lastIndexOf("@");
  text.setRangeText(`@${path.replace(/\/$/, "")}${folder ? "/" : " "}`, start, text.selectionStart, "end");
  offer([]);
  typed();
  if (folder) complete();
}

function completionKey(event) {
  if (!offered.length) return false;
  const act = {
    ArrowDown: () => choose(chosen + 1),
    ArrowUp: () => choose(chosen - 1),
    Tab: () => accept(chosen),
    Enter: () => accept(chosen),
    Escape: () => offer([]),
  }[event.key];
  if (!act || event.shiftKey || event.isComposing) return false;
  event.preventDefault();
  act();
  return true;
}

// ---- login, ending, notifications, start ---------------------------------------------------------------------------

function full(...children) {
  $("full").replaceChildren(h("div", null, h("p.mark", null, icon("box"), "odek"), ...children));
  $("full").hidden = false;
  for (const id of ["top", "sessions", "main", "details"]) $(id).inert = true;
}

function unfull() {
  $("full").hidden = true;
  for (const id of ["top", "sessions", "main", "details"]) $(id).inert = false;
}

function signedOut(problem) {
  if (app.out && !problem) return;
  app.out = true;
  app.view?.stream?.abort();
  keepDraft();
  store.set(localStorage, KEY, "");
  const input = h("input", {
    type: "text",
    "aria-label": "Address or token",
    placeholder: "http://127.0.0.1:…/#token=…",
    autocomplete: "off",
    spellcheck: "false",
  });
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        login(/[0-9a-f]{64}/.exec(input.value)?.[0] || input.value.trim());
      },
    },
    input,
    h("button.plain", { type: "submit" }, "Sign in"),
  );
  full(
    h("h2", null, "Signed out"),
    h(
      "p",
      null,
      "Open the address that ",
      h("code", null, "odek serve"),
      " printed in its terminal, or paste it here. What you had typed is kept.",
    ),
    form,
    h("p.problem", { role: "alert" }, problem ? visible(problem.message) : ""),
  );
  document.title = "Signed out · odek";
  input.focus();
}

function ended() {
  if (app.ended) return;
  app.ended = true;
  app.view?.stream?.abort();
  keepDraft();
  full(
    h("h2", null, "odek serve has ended"),
    h(
      "p",
      null,
      "Start ",
      h("code", null, "odek serve"),
      " again in its folder and open the address that it prints. Sessions are kept, and so is what you had typed; containers are gone.",
    ),
    h(
      "p",
      null,
      plainButton("Look again", () => location.reload()),
    ),
  );
}

/** Signs in with `token`, unless another tab of this browser has done so already. */
async function login(token) {
  try {
    const known =
      store.get(localStorage, KEY) && (await ask("GET", "state", undefined, { login: true }).catch(() => null));
    if (!known) store.set(localStorage, KEY, (await ask("POST", "login", { token })).key);
    if (known && document.body.dataset.ready && !app.out) return route(); // the address was opened again in this tab
    app.out = false;
    unfull();
    await begin();
  } catch (problem) {
    signedOut(problem);
  }
}

function notifyOf(what) {
  if (
    !document.hidden ||
    store.get(localStorage, "odek-notify") !== "on" ||
    globalThis.Notification?.permission !== "granted"
  )
    return;
  new Notification("odek", { body: `${app.view?.snapshot?.title || "a session"} ${what}`, tag: "odek" });
}

function showNotify() {
  $("notify").setAttribute("aria-pressed", String(store.get(localStorage, "odek-notify") === "on"));
}

async function begin() {
  await refreshState();
  app.view?.stream?.abort();
  app.view = null;
  listKey = "";
  document.body.dataset.ready = "yes";
  performance.mark("odek-ready");
  // who comes from the terminal with work going on wants to see it
  const busy = (app.state.sessions || []).filter((one) => one.state === "working" || one.state === "asking");
  if (location.hash === "" && busy.length === 1)
    history.replaceState(null, "", `#/s/${encodeURIComponent(busy[0].id)}`);
  route();
  refreshList();
  poll();
  loadConfig(null).then(() => {
    if (!app.view) showIntro();
    showBadge();
    showMeters(app.view);
  });
}

let hiddenTimer = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  const view = app.view;
  if (document.hidden)
    hiddenTimer = setTimeout(() => {
      view?.stream?.abort();
      if (view) view.stream = null;
    }, HIDDEN_MS);
  else {
    wake();
    poll();
    if (view?.snapshot && !view.stream && !app.out && !app.ended) listen(view);
  }
});
addEventListener("focus", () => wake());
addEventListener("hashchange", () => {
  const token = takeToken();
  if (token) login(token);
  else if (!app.out && !app.ended) route();
});
addEventListener("pagehide", keepDraft);
addEventListener("storage", (event) => {
  if (event.key !== KEY || !event.newValue || !app.out) return;
  app.out = false;
  unfull();
  begin().catch(() => {});
});
setInterval(() => {
  for (const card of app.view?.calls.values() || []) if (card.state === "running") card.tick();
}, 1000);

/** Takes the token out of the address before anything else happens; it is in no history and is kept nowhere. */
function takeToken() {
  const found = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (found || location.hash.startsWith("#token=")) history.replaceState(null, "", location.pathname + location.search);
  return found?.[1];
}

for (const [id, name] of [
  ["open-sessions", "menu"],
  ["open-details", "panel"],
  ["close-sessions", "close"],
  ["close-details", "close"],
  ["attach", "clip"],
  ["send", "send"],
])
  $(id).append(icon(name));
$("stop").append(icon("stop"), "Stop", h("kbd", null, "Ctrl ."));
$("new").prepend(icon("plus"));
$("open-sessions").addEventListener("click", () => openSheet("sessions"));
$("close-sessions").addEventListener("click", () => closeSheet("sessions"));
$("close-details").addEventListener("click", () => closeSheet("details"));
$("open-details").addEventListener("click", () => ($("details").hidden ? openSheet("details") : closeSheet("details")));
$("badge").addEventListener("click", () => {
  pane = "sandbox";
  openSheet("details");
});
TABS.forEach((name, index) => {
  const choosePane = (which) => {
    pane = which;
    showPane();
  };
  $(`tab-${name}`).addEventListener("click", () => choosePane(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    choosePane(TABS[(index + step + TABS.length) % TABS.length]);
    $(`tab-${pane}`).focus();
  });
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  text.focus();
});
$("stop").addEventListener("click", stopTurn);
$("latest").addEventListener("click", toEnd);
$("keys").addEventListener("click", showHelp);
$("notify").addEventListener("click", async () => {
  const on =
    store.get(localStorage, "odek-notify") !== "on" &&
    globalThis.Notification &&
    (await Notification.requestPermission()) === "granted";
  store.set(localStorage, "odek-notify", on ? "on" : "");
  showNotify();
});
$("sign-out").addEventListener("click", async () => {
  await ask("POST", "logout", {}).catch(() => {});
  signedOut();
});
let filterTimer = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(filterTimer);
  filterTimer = setTimeout(refreshList, 200);
});
showHint();
showNotify();

const token = takeToken();
if (token) login(token);
else
  begin().catch((problem) => {
    if (problem.status !== 401) {
      showBanners();
      app.retry = setInterval(
        () =>
          begin().then(
            () => clearInterval(app.retry),
            () => {},
          ),
        2000,
      );
    }
  });
