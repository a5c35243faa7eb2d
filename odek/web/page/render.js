// Draws values as elements: text made visible, Markdown, diffs, results, approval cards.
// No HTML is ever made from text: everything here is createElement and textContent (R-150).

export const $ = (id) => document.getElementById(id);

/** Returns an element: h("p.note", {title: "x", onclick: f}, "text", child, …). Null children are left out. */
export function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  menu: "M2 4h12M2 8h12M2 12h12",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  chevron: "M6 4l4 4-4 4",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3 8.5l3.5 3.5L13 4.5",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  stop: "M4.5 4.5h7v7h-7z",
  send: "M8 13V3M4 7l4-4 4 4",
  box: "M2.5 2.5h11v11h-11zM5.5 5.5h5v5h-5z",
  host: "M8 2l6.5 11.5h-13zM8 6.5v3.5M8 11.7v.6",
  panel: "M2.5 3h11v10h-11zM9.5 3v10",
  clip: "M11.5 5v5.5a3.5 3.5 0 0 1-7 0V4.7a2.2 2.2 0 0 1 4.4 0v5.5a.9.9 0 0 1-1.8 0V5.5",
  question: "M5.8 6a2.2 2.2 0 1 1 3.3 1.9C8.4 8.3 8 8.7 8 9.6M8 12v.4",
  wait: "M8 4.5v4l2.5 1.5M8 14A6 6 0 1 1 8 2a6 6 0 0 1 0 12z",
  dash: "M4 8h8",
};

/** Returns a decorative icon; what it means stands next to it in words. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** 12345 → "12 345", with thin spaces that do not break. */
export const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

export const short = (value) =>
  value < 1000
    ? String(value)
    : value < 1e6
      ? `${+(value / 1000).toFixed(value < 1e4 ? 1 : 0)}k`
      : `${+(value / 1e6).toFixed(1)}M`;

export const bytes = (value) =>
  value < 1000 ? `${value} B` : value < 1e6 ? `${+(value / 1000).toFixed(1)} kB` : `${+(value / 1e6).toFixed(1)} MB`;

export const seconds = (value) =>
  value < 10
    ? `${value.toFixed(1)} s`
    : value < 60
      ? `${Math.round(value)} s`
      : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;

// ---- foreign text made visible -------------------------------------------------------------------------------------

const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffc\u{16fe4}\u{1d159}\u{e0000}-\u{e0fff}]/gu;
// beyond ASCII a question shows letters, digits and a mark or two on a letter; signs that look like others are escapes
const DOUBTFUL = new RegExp(
  `\\p{M}+|${INVISIBLE.source}|[\\u02b0-\\u02ff]|[^\\u0000-\\u007f\\p{L}\\p{Nd}\\p{M}]`,
  "gu",
);
const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function escaped(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** Returns `text` with every control and invisible character but line ends and tabs as a backslash escape. */
export const visible = (text) =>
  text.replace(/\r\n/g, "\n").replace(INVISIBLE, (one) => (one === "\n" || one === "\t" ? one : escaped(one)));

export const oneLine = (text) => visible(text).replace(/\n/g, "\\n").replace(/\t/g, "\\t");

const BLANK_RUN = 25; // a Python body indented six deep still shows as it is
const COUNTED = new RegExp(`[ \\t]{${BLANK_RUN},}|\\n(?:[ \\t]*\\n){3,}`, "g");

/**
 * Appends `text` to `element` as a person must see it who decides on it: what could be overlooked or misread is a marked
 * escape, and long runs of blanks are counted instead of shown.
 */
export function appendExact(element, text) {
  const mark = (value) => element.append(h("span.escape", null, value));
  const plain = (piece) => {
    let from = 0;
    for (const found of piece.matchAll(DOUBTFUL)) {
      if (found[0] === "\n" || found[0] === "\t") continue;
      const onLetter = /\p{L}$/u.test(piece.slice(Math.max(0, found.index - 2), found.index));
      if (/^\p{M}{1,2}$/u.test(found[0]) && onLetter) continue;
      if (found.index > from) element.append(piece.slice(from, found.index));
      for (const one of found[0]) mark(escaped(one));
      from = found.index + found[0].length;
    }
    if (from < piece.length) element.append(piece.slice(from));
  };
  let from = 0;
  for (const found of text.matchAll(COUNTED)) {
    plain(text.slice(from, found.index));
    const run = found[0];
    if (run[0] === "\n") {
      element.append("\n");
      mark(`[${run.split("\n").length - 2} blank lines]`);
      element.append("\n");
    } else mark(`[${run.length} ${/^ +$/.test(run) ? "spaces" : /^\t+$/.test(run) ? "tabs" : "blanks"}]`);
    from = found.index + run.length;
  }
  plain(text.slice(from));
  return element;
}

/** Returns one line of ours or of the server as nodes, what stands in backticks as code. */
export const ticked = (text) =>
  visible(text)
    .split("`")
    .map((part, index) => (index % 2 ? h("code", null, part) : part));

// ---- Markdown: blocks ----------------------------------------------------------------------------------------------
// Block first, then inline; each line is looked at once a level, and levels are limited, so time is linear.

const DEPTH = 12;
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})([^]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]([^]*))?$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)|[ \t]|$)/;
const isRule = (line) => /^ {0,3}[-*_]/.test(line) && /^([-*_])(?:\1){2,}$/.test(line.replace(/[ \t]/g, ""));
const isBlank = (line) => !line.trim();
const indentOf = (line) => line.length - line.trimStart().length;

function cellsOf(line) {
  let row = line.trim();
  if (row.startsWith("|")) row = row.slice(1);
  if (row.endsWith("|") && !row.endsWith("\\|")) row = row.slice(0, -1);
  const cells = [];
  let cell = "";
  let code = false;
  for (let index = 0; index < row.length; index++) {
    const character = row[index];
    if (character === "\\" && row[index + 1] === "|") {
      cell += "|";
      index++;
    } else if (character === "|" && !code) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (character === "`") code = !code;
      cell += character;
    }
  }
  cells.push(cell.trim());
  return cells;
}

function columnsOf(header, line) {
  if (
    line === undefined ||
    line.length > 2000 ||
    !line.includes("-") ||
    !header.includes("|") ||
    !/^[ |:-]+$/.test(line)
  )
    return null;
  const marks = cellsOf(line);
  if (!marks.every((mark) => /^:?-+:?$/.test(mark)) || marks.length > 40) return null;
  if (cellsOf(header).length !== marks.length) return null;
  return marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "left"));
}

const startsBlock = (line) =>
  FENCE.test(line) || HEADING.test(line) || /^ {0,3}>/.test(line) || isRule(line) || ITEM.test(line);

/** Returns the blocks of `lines`, each with the number of its first line; an open fence at the end is code. */
export function parseBlocks(lines, depth = 0) {
  const blocks = [];
  let at = 0;
  const add = (type, start, fields) => blocks.push({ type, start, ...fields });
  while (at < lines.length) {
    const line = lines[at];
    const start = at;
    let found;
    if (isBlank(line)) {
      at++;
    } else if ((found = FENCE.exec(line))) {
      const [, fence, info] = found;
      const indent = indentOf(line);
      const body = [];
      const isEnd = (one) => {
        const end = one.trim();
        return indentOf(one) < 4 && end.length >= fence.length && end === fence[0].repeat(end.length);
      };
      for (at++; at < lines.length && !isEnd(lines[at]); at++) {
        body.push(lines[at].slice(Math.min(indent, indentOf(lines[at]))));
      }
      const closed = at < lines.length;
      at++;
      add("code", start, { info: info.trim(), text: body.join("\n"), closed });
    } else if ((found = HEADING.exec(line))) {
      at++;
      add("heading", start, { level: found[1].length, text: (found[2] || "").trim().replace(/(^|[ \t])#+$/, "") });
    } else if (isRule(line)) {
      at++;
      add("rule", start);
    } else if (depth < DEPTH && /^ {0,3}>/.test(line)) {
      const body = [];
      for (; at < lines.length && !isBlank(lines[at]); at++) {
        if (!/^ {0,3}>/.test(lines[at]) && startsBlock(lines[at])) break;
        body.push(lines[at].replace(/^ {0,3}> ?/, ""));
      }
      add("quote", start, { blocks: parseBlocks(body, depth + 1) });
    } else if (depth < DEPTH && ITEM.test(line)) {
      at = parseList(lines, at, depth, add);
    } else if (/^(?: {4}|\t)/.test(line)) {
      const body = [];
      for (; at < lines.length && (/^(?: {4}|\t)/.test(lines[at]) || isBlank(lines[at])); at++) {
        body.push(lines[at].replace(/^(?: {4}|\t)/, ""));
      }
      add("code", start, { info: "", text: body.join("\n").trimEnd(), closed: true });
    } else if ((found = columnsOf(line, lines[at + 1]))) {
      const rows = [];
      for (at += 2; at < lines.length && !isBlank(lines[at]) && lines[at].includes("|"); at++)
        rows.push(cellsOf(lines[at]));
      add("table", start, { columns: found, header: cellsOf(line), rows });
    } else {
      const body = [line];
      let level = 0;
      for (at++; at < lines.length && !isBlank(lines[at]) && !level; at++) {
        if (/^ {0,3}=+[ \t]*$/.test(lines[at])) level = 1;
        else if (startsBlock(lines[at]) || columnsOf(lines[at], lines[at + 1])) break;
        else body.push(lines[at]);
      }
      const text = body
        .map((one) => one.trimStart())
        .join("\n")
        .trimEnd();
      if (level) add("heading", start, { level, text });
      else add("paragraph", start, { text });
    }
  }
  return blocks;
}

function parseList(lines, at, depth, add) {
  const start = at;
  const kind = (mark) => (/\d/.test(mark) ? mark.at(-1) : mark);
  const first = ITEM.exec(lines[at]);
  const items = [];
  let loose = false;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || kind(found[2]) !== kind(first[2]) || isRule(lines[at])) break;
    const width = found[0].length;
    const body = [lines[at].slice(width)];
    let blanks = 0;
    for (at++; at < lines.length; at++) {
      const line = lines[at];
      if (isBlank(line)) {
        blanks++;
        continue;
      }
      const inside = indentOf(line) >= Math.min(width, found[1].length + 2);
      if (!inside && (blanks || startsBlock(line))) break;
      for (; blanks; blanks--) body.push("");
      body.push(inside ? line.slice(Math.min(width, indentOf(line))) : line);
    }
    const blocks = parseBlocks(body, depth + 1);
    if (body.includes("") && blocks.length > 1 && blocks.some((one, index) => index && one.type === "paragraph"))
      loose = true;
    items.push(blocks);
  }
  add("list", start, { ordered: /\d/.test(first[2]), from: parseInt(first[2], 10), items, loose });
  return at;
}

// ---- Markdown: inline ----------------------------------------------------------------------------------------------

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'", apos: "'" };
const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
const isSpace = (character) => character === undefined || /\s/.test(character);

/** Returns the URL if a link may lead there, else null. */
export function safeUrl(text) {
  if (!/^https?:\/\/[^\s<>"'`\\]+$/i.test(text) || text !== visible(text)) return null;
  try {
    const url = new URL(text);
    return (url.protocol === "http:" || url.protocol === "https:") && url.host ? url : null;
  } catch {
    return null;
  }
}

/**
 * Returns tokens in order: text, code, br, link (open, with its URL), end (of a link), and em/strong/del with `open`.
 * Openers wait on stacks and each leaves them once, so time is linear.
 */
function tokensOf(text) {
  const tokens = [];
  const brackets = []; // indexes of tokens that are "["
  const delimiters = new Map(); // kind of run → indexes of tokens that may open
  const runs = new Map(); // length of a run of backticks → where such runs are, the next one last
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    if (!runs.has(run.length)) runs.set(run.length, []);
    runs.get(run.length).push(index);
  }
  for (const places of runs.values()) places.reverse();
  let nextParenthesis = -1;
  let plain = "";
  const flush = () => {
    if (plain) tokens.push({ type: "text", text: plain });
    plain = "";
  };
  const forget = (index) => {
    for (const stack of delimiters.values()) while (stack.length && stack.at(-1) > index) stack.pop();
    while (brackets.length && brackets.at(-1) > index) brackets.pop();
  };
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === "\\") {
      const next = text[at + 1];
      if (next === "\n") {
        flush();
        tokens.push({ type: "br" });
        at += 2;
      } else if (next && /[!-/:-@[-`{-~]/.test(next)) {
        plain += next;
        at += 2;
      } else {
        plain += "\\";
        at++;
      }
    } else if (character === "`") {
      let length = 1;
      while (text[at + length] === "`") length++;
      const places = runs.get(length) || []; // a part of a run, after a backslash, is no run
      while (places.length && places.at(-1) <= at) places.pop();
      const end = places.length ? places.at(-1) : -1;
      if (end < 0) {
        plain += text.slice(at, at + length);
        at += length;
      } else {
        flush();
        const code = text.slice(at + length, end).replace(/\n/g, " ");
        tokens.push({
          type: "code",
          text: code.length > 2 && code.startsWith(" ") && code.endsWith(" ") && code.trim() ? code.slice(1, -1) : code,
        });
        at = end + length;
      }
    } else if (character === "\n") {
      const hard = plain.endsWith("  ");
      plain = plain.trimEnd();
      flush();
      tokens.push(hard ? { type: "br" } : { type: "text", text: "\n" });
      at++;
    } else if (character === "[" || (character === "!" && text[at + 1] === "[")) {
      flush();
      brackets.push(tokens.length);
      const length = character === "!" ? 2 : 1;
      tokens.push({ type: "bracket", text: text.slice(at, at + length) });
      at += length;
    } else if (character === "]") {
      const opener = brackets.pop();
      let target = null;
      if (opener !== undefined && text[at + 1] === "(") {
        if (nextParenthesis < at) nextParenthesis = text.indexOf(")", at);
        if (nextParenthesis < 0) nextParenthesis = text.length;
        if (nextParenthesis < text.length) target = destination(text, at + 2);
      }
      const url = target && safeUrl(target.url);
      flush();
      if (target && (url || tokens[opener].text === "![")) {
        forget(opener);
        tokens[opener] = { type: "link", url, image: tokens[opener].text === "![", target: target.url };
        tokens.push({ type: "end" });
        at = target.end;
      } else {
        plain += "]";
        at++;
      }
    } else if (character === "*" || character === "_" || character === "~") {
      let length = 1;
      while (text[at + length] === character && length < 4) length++;
      const before = text[at - 1];
      const after = text[at + length];
      const known = length < 4 && (character !== "~" || length === 2);
      let opens = known && !isSpace(after);
      let closes = known && !isSpace(before);
      if (character === "_") {
        opens &&= !isWord(before);
        closes &&= !isWord(after);
      }
      const kind = character + length;
      const stack = delimiters.get(kind) || [];
      flush();
      if (closes && stack.length && stack.at(-1) < tokens.length - 1) {
        const opener = stack.pop();
        forget(opener);
        tokens[opener] = { ...tokens[opener], type: "open", tags: tagsOf(character, length) };
        tokens.push({ type: "close", count: tagsOf(character, length).length });
      } else {
        if (opens) {
          stack.push(tokens.length);
          delimiters.set(kind, stack);
        }
        tokens.push({ type: "delimiter", text: character.repeat(length) });
      }
      at += length;
    } else if (character === "<" || ((character === "h" || character === "H") && !isWord(text[at - 1]))) {
      const angle = character === "<";
      const from = at + (angle ? 1 : 0);
      const head = text.slice(from, from + 8).toLowerCase();
      let end = from;
      if (head.startsWith("http://") || head === "https://") {
        while (end < text.length && end < from + 2000 && !/[\s<>"'`]/.test(text[end])) end++;
      }
      const paired = text.slice(from, end).includes("(");
      while (!angle && end > from && /[.,:;!?*_~\])}|]/.test(text[end - 1]) && !(paired && text[end - 1] === ")"))
        end--;
      const url = end > from ? safeUrl(text.slice(from, end)) : null;
      if (url && (!angle || text[end] === ">")) {
        flush();
        tokens.push({ type: "link", url }, { type: "text", text: text.slice(from, end) }, { type: "end" });
        at = end + (angle ? 1 : 0);
      } else {
        plain += character;
        at++;
      }
    } else if (character === "&") {
      const end = text.slice(at + 1, at + 7).indexOf(";");
      const entity = end > 0 ? ENTITIES[text.slice(at + 1, at + 1 + end)] : undefined;
      plain += entity || "&";
      at += entity ? end + 2 : 1;
    } else {
      plain += character;
      at++;
    }
  }
  flush();
  return tokens;
}

function destination(text, from) {
  // the place in parentheses, which may hold pairs of them, and a title, which is not shown
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const character = text[at];
    if (character === "(" && ++depth > 8) return null;
    if (character === "\n") return null;
    if (character === ")" && depth-- === 0) {
      const inside = text.slice(from, at).trim();
      const [url, ...title] = inside.split(/[ \t]+/);
      if (title.length && !/^["'(]/.test(title[0])) return null;
      return { url: url.replace(/^<(.*)>$/, "$1"), end: at + 1 };
    }
  }
  return null;
}

const tagsOf = (character, length) =>
  character === "~" ? ["del"] : length === 1 ? ["em"] : length === 2 ? ["strong"] : ["strong", "em"];

const NESTED = 24; // elements within each other in one paragraph

/** Appends the inline Markdown of `text` to `parent`. */
export function appendInline(parent, text) {
  const stack = [parent]; // null: too deep for an element of its own
  const top = () => stack.findLast((one) => one);
  const push = (element) => {
    if (stack.length < NESTED) {
      top().append(element);
      stack.push(element);
    } else stack.push(null);
  };
  for (const token of tokensOf(text.replace(REORDERING, escaped))) {
    if (token.type === "code") top().append(h("code", null, visible(token.text)));
    else if (token.type === "br") top().append(h("br"));
    else if (token.type === "open") token.tags.forEach((tag) => push(h(tag)));
    else if (token.type === "close") for (let count = token.count; count; count--) stack.pop();
    else if (token.type === "link") push(linkTo(token));
    else if (token.type === "end") {
      const link = stack.pop();
      if (link) finishLink(link);
    } else top().append(token.text);
  }
  return parent;
}

function linkTo({ url, image, target }) {
  if (!url) return h("span.unlinked", { "data-target": target || "" });
  const link = h("a", { href: url.href, rel: "noopener noreferrer", target: "_blank", "data-host": url.host });
  if (image) link.append("image: ");
  return link;
}

function finishLink(link) {
  const { host, target } = link.dataset;
  if (!link.textContent) link.append(host || target);
  if (host && !link.textContent.includes(host)) link.append(h("span.origin", null, ` (${host})`));
  if (target !== undefined) link.append(h("span.origin", null, ` (image: ${visible(target)})`));
}

// ---- Markdown: elements --------------------------------------------------------------------------------------------

function blockElement(block) {
  switch (block.type) {
    case "code":
      return codeElement(block.text, block.info);
    case "heading":
      return appendInline(h(`h${Math.min(block.level + 2, 6)}`), block.text);
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", null, block.blocks.map(blockElement));
    case "table":
      return tableElement(block);
    case "list": {
      const list = h(block.ordered ? "ol" : "ul");
      if (block.ordered && block.from !== 1) list.start = block.from;
      for (const item of block.items) list.append(itemElement(item, block.loose));
      return list;
    }
    default:
      return appendInline(h("p"), block.text);
  }
}

function itemElement(blocks, loose) {
  const item = h("li");
  blocks.forEach((block, index) => {
    const task = index === 0 && block.type === "paragraph" && /^\[([ xX])\] /.exec(block.text);
    if (task) {
      item.classList.add("task");
      item.append(task[1] === " " ? "☐ " : "☑ ");
    }
    const text = task ? block.text.slice(4) : block.text;
    if (block.type === "paragraph" && !loose) appendInline(item, text);
    else item.append(blockElement(task ? { ...block, text } : block));
  });
  return item;
}

function tableElement({ columns, header, rows }) {
  const last = columns.length - 1; // takes what a row has too many
  const row = (cells, tag) =>
    h(
      "tr",
      null,
      columns.map((side, index) =>
        appendInline(h(`${tag}.${side}`), (index < last ? cells[index] : cells.slice(last).join(" | ")) || ""),
      ),
    );
  const table = h(
    "table",
    null,
    h("thead", null, row(header, "th")),
    h(
      "tbody",
      null,
      rows.map((cells) => row(cells, "td")),
    ),
  );
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

/** Returns code in a frame, with its language and a button that copies it. */
export function codeElement(text, language = "") {
  const body = /^(?:diff|patch)\b/.test(language)
    ? diffElement(text)
    : h("pre", { tabindex: "0" }, h("code", null, visible(text)));
  return h(
    "figure.code",
    null,
    h(
      "figcaption",
      null,
      h("span", null, visible(language) || "text"),
      copyButton(() => text, "Copy code"),
    ),
    body,
  );
}

/** Appends the Markdown of `text` to `parent`. */
export function appendMarkdown(parent, text) {
  for (const block of parseBlocks(text.replace(/\r\n?/g, "\n").split("\n"))) parent.append(blockElement(block));
  return parent;
}

/**
 * Text that is being written: finished blocks are drawn once and for all, only the last one is drawn again. The last
 * one stands where no reader announces it; it moves out when it is complete (R-160).
 */
export class GrowingText {
  constructor() {
    this.rest = ""; // from the beginning of the last block
    this.text = "";
    this.done = h("div.prose");
    this.tail = h("div.prose.tail", { "aria-live": "off" });
    this.element = h("div.growing", null, this.done, this.tail);
  }

  add(piece) {
    this.text += piece;
    this.rest += piece;
  }

  draw() {
    const lines = this.rest.replace(/\r\n?/g, "\n").split("\n");
    const blocks = parseBlocks(lines);
    const last = blocks.at(-1);
    this.tail.replaceChildren();
    if (!last) return;
    for (const block of blocks.slice(0, -1)) this.done.append(blockElement(block));
    this.tail.append(blockElement(last));
    this.rest = lines.slice(last.start).join("\n");
  }
}

// ---- copying -------------------------------------------------------------------------------------------------------

/** Returns a button that copies what `read` returns; without a clipboard the text is selected. */
export function copyButton(read, label = "Copy") {
  const button = h("button.quiet.copy", { type: "button", "aria-label": label, title: label }, icon("copy"));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(await read());
      button.replaceChildren(icon("check"));
      button.setAttribute("aria-label", "Copied");
      setTimeout(() => {
        button.replaceChildren(icon("copy"));
        button.setAttribute("aria-label", label);
      }, 1500);
    } catch {
      const near = button.closest("figure, .call, .fact, .reply");
      getSelection().selectAllChildren(near?.querySelector("pre, .prose, .diff, code") || near || button);
    }
  });
  return button;
}

// ---- diffs ---------------------------------------------------------------------------------------------------------

const DIFF_KINDS = {
  "+": ["added", "+"],
  "-": ["removed", "−"],
  "@": ["hunk", ""],
  "\\": ["remark", ""],
  "=": ["file", ""],
};

/** Returns a unified diff line by line: sign, number, colour, and a word for those who hear it. */
export function diffElement(text) {
  const body = h("div.diff", { tabindex: "0", role: "group", "aria-label": "Diff" });
  let oldLine = 0;
  let newLine = 0;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) [oldLine, newLine] = [Number(hunk[1]), Number(hunk[2])];
    const header = /^(?:---|\+\+\+) /.test(line) && !oldLine;
    const [kind, sign] = header
      ? ["file", ""]
      : ((line[0] === "=" ? /^== /.test(line) : true) && DIFF_KINDS[line[0]]) || ["same", ""];
    const counted = kind === "added" || kind === "removed" || kind === "same";
    const shown = counted ? line.slice(1) : line;
    const where =
      !counted || !(oldLine + newLine)
        ? ""
        : kind === "removed"
          ? oldLine++
          : (kind === "same" && oldLine++, newLine++);
    body.append(
      h(
        `div.line.${kind}`,
        null,
        h("span.number", { "aria-hidden": "true" }, String(where)),
        h("span.sign", { "aria-hidden": "true" }, sign),
        kind === "added" || kind === "removed" ? h("span.unseen", null, `${kind}: `) : null,
        h("span.content", null, visible(shown) || "\u200b"),
      ),
    );
  }
  return body;
}

export const isDiff = (text) => /^(?:@@ -\d|--- |== )/.test(text) && /^@@ -\d+(?:,\d+)? \+\d+/m.test(text);

// ---- results -------------------------------------------------------------------------------------------------------

const TAG = /^<untrusted_content_([0-9a-f]{16}) source="([^"\n]*)">\n/;

/**
 * Returns the parts of a tool's result in order: {source, text} of what stood between tags, {text} of what did not.
 * A tag ends only with its own nonce, so nothing inside can pose as the end.
 */
export function partsOf(text) {
  const parts = [];
  let rest = text;
  while (rest) {
    const begin = rest.startsWith("<untrusted_content_") ? 0 : rest.indexOf("\n<untrusted_content_") + 1;
    const found = (begin > 0 || rest.startsWith("<untrusted_content_")) && TAG.exec(rest.slice(begin));
    const end = found ? rest.indexOf(`</untrusted_content_${found[1]}>`, begin + found[0].length) : -1;
    if (end < 0) {
      parts.push({ text: rest });
      break;
    }
    if (begin) parts.push({ text: rest.slice(0, begin) });
    parts.push({ source: found[2], text: rest.slice(begin + found[0].length, end).replace(/\n$/, "") });
    rest = rest.slice(end + found[1].length + 22).replace(/^\n/, "");
  }
  return parts.filter((part) => part.source !== undefined || part.text.trim());
}

/** Returns the sentence of {"error": …} and nothing else, or null. */
export function errorOf(text) {
  if (!text.startsWith('{"error"')) return null;
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

/** What of a result is always in sight: exit code, time-out, true size. */
export function factsOf(text) {
  const outside = partsOf(text)
    .filter((part) => part.source === undefined)
    .map((part) => part.text)
    .join("\n");
  const code = /^exit code: (-?\d+|none)/m.exec(outside);
  const size = /^the whole output had (\d+) bytes/m.exec(outside);
  const late = /^timed out after .*$/m.exec(outside);
  return {
    code: code ? code[1] : null,
    size: size ? Number(size[1]) : null,
    late: late ? late[0] : "",
    lines: text
      ? partsOf(text).reduce((sum, part) => sum + (part.source === undefined ? 0 : part.text.split("\n").length), 0)
      : 0,
  };
}

const FOLDED = 40;
const HEAD = 24;
const TAIL = 8;
const SLICE = 2000;

/** Returns lines as text in a frame; more than 40 are folded to head and tail, and unfold in slices of 2 000. */
function linesElement(text) {
  const lines = visible(text).split("\n");
  const pre = h("pre", { tabindex: "0" });
  if (lines.length <= FOLDED) {
    pre.append(lines.join("\n"));
    return pre;
  }
  const head = h("code", null, lines.slice(0, HEAD).join("\n"));
  const tail = h("code", null, lines.slice(-TAIL).join("\n"));
  let shown = HEAD;
  const button = h("button.fold", { type: "button" });
  const say = () => {
    const left = lines.length - TAIL - shown;
    button.textContent =
      left > SLICE
        ? `show ${number(SLICE)} more of ${plural(lines.length, "line")}`
        : `show all (${plural(lines.length, "line")})`;
    if (left <= 0) {
      button.remove();
      pre.insertBefore(document.createTextNode("\n"), tail);
    }
  };
  button.addEventListener("click", () => {
    const more = Math.min(SLICE, lines.length - TAIL - shown);
    head.append(`\n${lines.slice(shown, shown + more).join("\n")}`);
    shown += more;
    const inside = document.activeElement === button;
    say();
    if (inside && !button.isConnected) pre.focus({ preventScroll: true });
  });
  say();
  pre.append(head, button, tail);
  return pre;
}

/** Returns a tool's result: what is foreign in frames that say where it is from, the rest as it is. */
export function resultElement(text) {
  const body = h("div.result");
  const sentence = errorOf(text);
  if (sentence !== null) {
    body.append(h("p.error-text", null, visible(sentence)));
    return body;
  }
  for (const part of partsOf(text)) {
    if (part.source === undefined) {
      const rest = part.text.replace(/^exit code: .*$/m, "").trim();
      if (rest)
        body.append(
          rest.length < 200 && !rest.includes("\n") ? h("p.remark", null, visible(rest)) : linesElement(rest),
        );
      continue;
    }
    const content = isDiff(part.text) ? diffElement(part.text) : linesElement(part.text);
    body.append(
      h(
        "figure.code",
        null,
        h(
          "figcaption",
          null,
          h("span.from", null, `from: ${visible(part.source)}`),
          copyButton(() => part.text, "Copy result"),
        ),
        content,
      ),
    );
  }
  return body;
}

/** Returns a call's arguments: a command or a text as it is, others by name. */
export function argumentsElement(name, json) {
  let values;
  try {
    values = JSON.parse(json || "{}");
  } catch {
    values = null;
  }
  if (!values || typeof values !== "object" || Array.isArray(values)) return linesElement(json || "");
  const body = h("div.arguments");
  for (const [key, value] of Object.entries(values)) {
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
    if (text.includes("\n") || text.length > 60 || key === "command") {
      body.append(
        h(
          "figure.code",
          null,
          h(
            "figcaption",
            null,
            h("span", null, visible(key)),
            copyButton(() => text, `Copy ${visible(key)}`),
          ),
          linesElement(text),
        ),
      );
    } else body.append(h("p.argument", null, h("span.key", null, visible(key)), " ", h("code", null, oneLine(text))));
  }
  return body;
}

// ---- approval cards ------------------------------------------------------------------------------------------------

const ANSWERS = {
  once: ["Allow once", "yes"],
  trust: ["Allow, and trust for this session", "yes", "second"],
  deny: ["Deny", "no"],
  all: ["Allow all", "yes"],
  singly: ["Ask one by one", "neutral"],
  none: ["Deny all", "no"],
};
export const SETTLED = {
  once: "allowed once",
  trust: "allowed, and trusted for this session",
  deny: "denied",
  all: "all allowed",
  singly: "asked one by one",
  none: "all denied",
};
const HOWS = {
  timeout: "nobody answered in time",
  cancelled: "the turn was stopped",
  closed: "the session was closed",
};
export const settledText = (answer, how) =>
  `${SETTLED[answer] || visible(String(answer))}${HOWS[how] ? `: ${HOWS[how]}` : ""}`;

const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
const fact = (name, ...value) => h("div.fact", null, h("dt", null, name), h("dd", null, ...value));

/**
 * Returns the card as an element. `onAnswer(answer, confirm)` sends an answer and returns a promise of a sentence to
 * show, or of null when the card is over. What says yes is enabled once the end of every text has been in view.
 */
export function approvalElement(card, onAnswer) {
  const items = Array.isArray(card.items) ? card.items : [];
  const unseen = new Set();
  const yes = [];
  const body = h("div.items");
  let busy = false;
  let typed = !card.hasty;
  const status = h("p.card-status", { role: "status" });
  const update = () => {
    for (const button of yes) button.disabled = busy || unseen.size > 0 || !typed;
    if (busy) return;
    status.textContent = unseen.size
      ? `Scroll to the end of ${items.length > 1 ? "every text" : "the text"} to allow`
      : "";
  };
  let watch = null;
  // the buttons lie over the bottom of what scrolls: what is under them was not seen
  const observe = () => {
    watch?.disconnect();
    const rootMargin = `0px 0px ${-Math.ceil(footer.getBoundingClientRect().height)}px 0px`;
    watch = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          unseen.delete(entry.target);
          watch.unobserve(entry.target);
        }
        update();
      },
      { root: element.parentElement, rootMargin },
    );
    unseen.forEach((end) => watch.observe(end));
  };
  for (const item of items) {
    const end = h("span.end", { "aria-hidden": "true" });
    const text = h("pre.exact", null);
    appendExact(text, String(item.text ?? ""));
    unseen.add(end);
    const size = item.lines > 1 ? `${plural(item.lines, "line")}, ${plural(item.characters, "character")}` : "";
    body.append(
      h(
        "div.item",
        null,
        h(
          "p.item-head",
          null,
          items.length > 1 ? h("span.number", null, `${item.n}.`) : null,
          (item.classes || []).map((name) => h("span.class", null, visible(String(name)))),
          h("span.risk", null, visible(String(item.risk ?? ""))),
        ),
        h("div.exact-box", null, text, end),
        h(
          "dl.facts",
          null,
          item.reason ? fact("reason given", oneLine(item.reason)) : null,
          size ? fact("size", size) : null,
          item.rule ? fact("rule", oneLine(item.rule)) : null,
          item.setting ? fact("setting", h("code", null, oneLine(item.setting))) : null,
        ),
      ),
    );
  }
  const answer = async (name, confirm) => {
    if (busy) return;
    busy = true;
    const pressed = buttons.find((button) => button === document.activeElement);
    pressed && element.focus(); // a disabled button loses the focus, and the page with it
    buttons.forEach((button) => (button.disabled = true));
    status.textContent = "sending the answer …";
    const problem = await onAnswer(name, confirm);
    if (problem === null) return;
    busy = false;
    buttons.forEach((button) => (button.disabled = false));
    update();
    if (document.activeElement === element) pressed?.focus();
    status.textContent = problem;
  };
  const word = card.hasty
    ? h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "Type approve to allow" })
    : null;
  const buttons = (card.answers || ["deny"]).map((name) => {
    const [words, kind, rank] = ANSWERS[name] || [name, "neutral"];
    const label = name === "trust" && card.from ? "Allow, and trust for this sub-agent" : words;
    const button = h(`button.answer.${kind}${rank ? `.${rank}` : ""}`, { type: "button" }, label);
    button.addEventListener("click", () => answer(name, kind === "yes" && word ? word.value.trim() : undefined));
    if (kind === "yes") yes.push(button);
    return button;
  });
  word?.addEventListener("input", () => {
    typed = word.value.trim() === "approve";
    update();
  });
  word?.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  const networks = card.sandbox?.networks || [];
  const from = card.from ? `sub-agent ${card.from.task} of ${card.from.of}` : "";
  const title =
    items.length > 1
      ? `${items.length} operations need your approval`
      : `A ${{ write: "file write", call: "tool call" }[items[0]?.kind] ?? "command"} needs your approval`;
  const footer = h("footer", null, buttons, status);
  const element = h(
    "article.approval" + (card.host ? ".on-host" : ""),
    { tabindex: "-1", "aria-label": `${title}: ${visible(String(card.place ?? ""))}`, "data-id": card.id },
    h("header", null, icon("question"), h("h3", null, title), from ? h("span.chip", null, from) : null),
    from && card.from.goal ? h("p.goal", null, `for: ${oneLine(String(card.from.goal))}`) : null,
    h(
      "dl.facts.place",
      null,
      fact(
        "runs on",
        card.host ? h("strong.danger", null, "THIS HOST, without a sandbox") : visible(String(card.place ?? "unknown")),
      ),
      card.sandbox
        ? fact(
            "network",
            visible(String(card.sandbox.network)),
            card.sandbox.internet
              ? h("span.warn", null, ", reaches the internet")
              : card.sandbox.network === "none"
                ? ""
                : ", no internet",
          )
        : null,
      networks.length
        ? fact("attached", networks.map((one) => visible(one.name) + (one.internal ? " (internal)" : "")).join(", "))
        : null,
      Date.parse(card.ends_at) ? fact("open until", `${clock(card.ends_at)}, then it is a no`) : null,
    ),
    body,
    word
      ? h(
          "p.hasty",
          null,
          h(
            "label",
            null,
            "Many of this kind were allowed just now. Type ",
            h("code", null, "approve"),
            " to allow: ",
            word,
          ),
        )
      : null,
    footer,
  );
  new ResizeObserver(() => element.isConnected && observe()).observe(footer);
  update();
  return element;
}
