// What the page shows is asked of the other routes of this address. Text from outside goes in as text, never as markup.

const $ = (id) => document.getElementById(id);

/** An element with attributes; children are elements or text. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function s(tag, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

// Numbers as they are read.

const THIN = "\u202f";

/** A number with three digits that count, and its unit. */
function scaled(number, units, base) {
  if (!Number.isFinite(number)) return ["–", ""];
  let n = 0;
  while (Math.abs(number) >= base * 0.9995 && n < units.length - 1) [number, n] = [number / base, n + 1];
  const digits = n === 0 && Number.isInteger(number) ? 0 : Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2;
  return [number.toFixed(digits), units[n]];
}
/** Of round numbers, without needless zeros. */
const short = (told) => told.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
const joined = ([number, unit]) => (unit ? number + THIN + unit : number);
const count = (n) => joined(scaled(n, ["", "k", "M", "G", "T"], 1000));
const bytes = (n) => joined(scaled(n, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024));
const exact = (n) => n.toLocaleString("en").replaceAll(",", THIN);
const percent = (part, of) => (of > 0 ? ((part / of) * 100).toFixed(1) : "–");
const micros = (us) => (us === null || us === undefined ? "–" : joined(scaled(us, ["µs", "ms", "s"], 1000)));

function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, name] = units.find(([size]) => seconds >= size) ?? [1, "s"];
  const value = seconds / size;
  return (value < 10 && size > 1 ? value.toFixed(1) : Math.floor(value)) + THIN + name;
}
const two = (n) => String(n).padStart(2, "0");
const clock = (seconds) => {
  const at = new Date(seconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
};
const stamp = (seconds) => {
  const at = new Date(seconds * 1000);
  const day = Date.now() / 1000 - seconds > 86400 ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` : "";
  return `${day}${clock(seconds)}:${two(at.getSeconds())}`;
};

// What is asked, and with which token.

class Refused extends Error {}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  if (answer.status === 401) throw new Refused("unauthorized");
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim() || `status ${answer.status}`);
  return text;
}
const json = async (path) => JSON.parse(await ask(path));

// What is shown of requests, and the word of the history that each outcome belongs to.

const GROUPS = {
  memory: "from memory", disk: "from disk", validated: "validated or stale", collapsed: "shared a fetch", miss: "fetched", passed: "passed",
  refused: "refused or left", failed: "failed",
};
const HITS = ["hit-memory", "hit-disk", "hit-offline"];
const group = (outcome) =>
  ({ "hit-memory": "memory", "hit-disk": "disk", "stale-on-error": "validated", "hit-offline": "validated", revalidated: "validated", miss: "miss", collapsed: "collapsed",
    "refused-502": "failed", "refused-503": "failed", "refused-504": "failed" })[outcome] ??
  (/^(refused|left)/.test(outcome) ? "refused" : "passed");

const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);
const total = (section, names = Object.keys(section)) => sum(names.map((name) => section[name] ?? 0));

/** Of how much is counted between two looks, a second. */
const seen = [];
const WINDOW = 10_000;

const now = { stats: null, history: null, recent: null, state: null };

// The tiles.

function quantile(buckets, part) {
  let rank = part * sum(buckets);
  for (const [n, here] of buckets.entries()) {
    if (here > 0 && rank <= here) {
      const from = n === 0 ? 0 : 2 ** (n - 1);
      return from + ((2 ** n - from) * rank) / here;
    }
    rank -= here;
  }
  return null;
}

function tile(name, [value, unit], hour) {
  return h("div", {}, h("dt", {}, name), h("dd", { class: "value" }, value, unit ? h("span", { class: "unit" }, unit) : null),
    h("dd", { class: "hour" }, hour));
}

function showTiles() {
  const last = seen.at(-1);
  const first = seen.find((look) => last.at - look.at <= WINDOW * 1.2) ?? last;
  const seconds = (last.at - first.at) / 1000;
  const grown = (section, names) => total(last.stats[section], names) - total(first.stats[section], names);
  const rate = (section, names) => (seconds > 0 ? grown(section, names) / seconds : NaN);
  const ratio = (section) => [percent(grown(section, HITS), grown(section)), "%"];
  const times = (names) => {
    const of = (stats) => names.map((name) => stats["first-byte"][name]).reduce((a, b) => a.map((n, i) => n + b[i]));
    const [before, after] = [of(first.stats), of(last.stats)];
    const grown = after.map((n, i) => n - before[i]);
    return [quantile(grown, 0.5), quantile(grown, 0.99)];
  };
  const time = (us) => scaled(us ?? NaN, ["µs", "ms", "s"], 1000);
  const bins = now.history?.minutes.bins ?? [];
  const all = bins.reduce((sums, bin) => ({ seconds: sums.seconds + bin.seconds, requests: sums.requests.map((n, i) => n + bin.requests[i]),
    bytes: sums.bytes.map((n, i) => n + bin.bytes[i]), origin: sums.origin + bin["origin-bytes"] }),
    { seconds: 0, requests: Array(8).fill(0), bytes: Array(8).fill(0), origin: 0 });
  const hour = (text) => (all.seconds > 0 ? `1 h: ${text}` : "");
  const hits = times(HITS);
  const fetched = times(["miss", "collapsed", "revalidated"]);
  const failed = ["refused-502", "refused-503", "refused-504"];
  $("tiles").replaceChildren(
    tile("Hit ratio", ratio("requests"), hour(`${percent(sum(all.requests.slice(0, 2)), sum(all.requests))} %`)),
    tile("Byte hit ratio", ratio("bytes"), hour(`${percent(sum(all.bytes.slice(0, 2)), sum(all.bytes))} %`)),
    tile("Requests", scaled(rate("requests"), ["/s", "k/s", "M/s"], 1000), hour(`${count(sum(all.requests) / all.seconds)}/s`)),
    tile("To clients", scaled(rate("bytes"), ["B/s", "KiB/s", "MiB/s", "GiB/s"], 1024), hour(`${bytes(sum(all.bytes) / all.seconds)}/s`)),
    tile("From origins", scaled(rate("origin", ["bytes"]), ["B/s", "KiB/s", "MiB/s", "GiB/s"], 1024), hour(`${bytes(all.origin / all.seconds)}/s`)),
    tile("Hits take", time(hits[0]), `99 %: ${micros(hits[1])}`),
    tile("Fetches take", time(fetched[0]), `99 %: ${micros(fetched[1])}`),
    tile("Failed", scaled(rate("requests", failed), ["/s", "k/s"], 1000), hour(exact(all.requests[7]))),
    tile("Connections", scaled(last.stats.connections.open, ["", "k"], 1000), `${exact(last.stats.origin.open)} to origins`),
  );
  const failing = grown("requests", failed);
  return failing > 0 && failing / Math.max(grown("requests"), 1) > 0.01 ? failing / seconds : 0;
}

// What is wrong.

function showTroubles(failing) {
  const { stats, state, recent } = now;
  const bad = [];
  const doubtful = [];
  for (const disk of state?.disks ?? []) {
    if (!disk.serves) bad.push(`Disk ${disk.name} is left: the others serve without it. The error log says why.`);
    if (disk.stats?.["writes-fail"]) bad.push(`Writes to disk ${disk.name} fail; they are tried again.`);
    if (disk.stats?.["read-errors"] > 0) doubtful.push(`${exact(disk.stats["read-errors"])} reads of disk ${disk.name} have failed since the start.`);
    if (disk.stats?.["scrub-damaged"] > 0) doubtful.push(`The scrub found ${exact(disk.stats["scrub-damaged"])} damaged records on disk ${disk.name}.`);
    if (disk.stats?.["parts-left"] > 0) doubtful.push(`The index of disk ${disk.name} is being loaded: ${exact(disk.stats["parts-left"])} parts are left.`);
  }
  if (stats.origin.offline) doubtful.push("Offline: stale responses answer without asking the origins.");
  if (failing > 0) bad.push(`${count(failing)} requests a second fail since their origins do not answer, or not in time.`);
  for (const origin of recent?.origins ?? []) {
    if (origin["last-failure"] && recent.now - origin["last-failure"] < 300 && origin["last-failure"] >= (origin["last-answer"] ?? 0)) {
      bad.push(`Origin ${origin.name} does not answer: ${origin.cause}`);
    }
  }
  for (const pool of ["heads", "origins", "disk"]) {
    const used = stats.budget[`${pool}-used`] / Math.max(stats.budget[pool], 1);
    if (used > 0.9) doubtful.push(`The memory for bodies in transit (${pool}) is ${percent(used, 1)} % used: requests may have to wait.`);
  }
  if (stats["access-log"].lost > 0) doubtful.push(`${exact(stats["access-log"].lost)} lines of the access log are lost.`);
  const items = [...bad.map((text) => h("li", { class: "bad" }, text)), ...doubtful.map((text) => h("li", { class: "tag" }, text))];
  $("troubles").replaceChildren(...(items.length ? items : [h("li", {}, "Nothing is wrong, as far as it can be seen from here.")]));
  document.title = bad.length ? `(${bad.length}) Cosm` : "Cosm";
}

// Pictures.

/** A drawing as wide as its place, whose text keeps its size. */
function canvas(id, height) {
  const svg = $(id);
  const width = Math.max(svg.parentElement.clientWidth, 240);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  return [svg, width];
}

function nice(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= most * 0.999);
}

/** The same of bytes: round in the unit that they are told in. */
function niceBytes(most) {
  const unit = 1024 ** Math.max(Math.floor(Math.log2(Math.max(most, 1)) / 10), 0);
  return nice(most / unit) * unit;
}

const LEFT = 62;
const TOP = 8;
const BOTTOM = 20;
const HEIGHT = 170;

/** Axes; gives where a time and a value lie. */
function axes(id, bins, most, label, log = null) {
  const [svg, width] = canvas(id, HEIGHT);
  const end = bins.length ? bins.at(-1).at + bins.at(-1).seconds : Date.now() / 1000;
  const reach = chosen === "minutes" ? 3600 : 172800;
  const begin = end - reach;
  const x = (at) => LEFT + (Math.max(at - begin, 0) / reach) * (width - LEFT - 4);
  const part = log ? (value) => Math.log(Math.max(value, log[0]) / log[0]) / Math.log(log[1] / log[0]) : (value) => value / most;
  const y = (value) => HEIGHT - BOTTOM - part(value) * (HEIGHT - BOTTOM - TOP);
  for (const value of log ? log[2] : [0, most / 2, most]) {
    svg.append(s("line", { class: "grid", x1: LEFT, x2: width - 4, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, short(label(value))));
  }
  const step = chosen === "minutes" ? 900 : 43200;
  const offset = new Date().getTimezoneOffset() * 60;
  for (let at = Math.ceil((begin - offset) / step) * step + offset; at <= end; at += step) {
    if (x(at) > width - 24 || x(at) < LEFT + 12) continue;
    svg.append(s("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }),
      s("text", { x: x(at), y: HEIGHT - 5, "text-anchor": "middle" }, clock(at)));
  }
  return [svg, x, y];
}

let chosen = "minutes";
const SPANS = { minutes: "1 h", quarters: "2 d" };

function showHistory() {
  const { history } = now;
  const bins = history[chosen].bins.filter((bin) => bin.seconds > 0);
  const present = history.groups.filter((_, n) => bins.some((bin) => bin.requests[n] > 0 || bin.bytes[n] > 0));
  $("legend").replaceChildren(...present.map((name) => h("span", { class: name }, GROUPS[name])));
  for (const [id, unit, round] of [["requests", (n) => `${count(n)}/s`, nice], ["bytes", (n) => `${bytes(n)}/s`, niceBytes]]) {
    const most = round(Math.max(0, ...bins.map((bin) => sum(bin[id]) / bin.seconds)));
    const [svg, x, y] = axes(id, bins, most, unit);
    for (const bin of bins) {
      let below = 0;
      history.groups.forEach((name, n) => {
        const value = bin[id][n] / bin.seconds;
        if (value <= 0) return;
        const [from, to] = [x(bin.at), x(bin.at + bin.seconds)];
        const rect = s("rect", { class: name, x: from, width: Math.max(to - from - 0.5, 0.8), y: y(below + value), height: Math.max(y(below) - y(below + value), 0.4) });
        rect.append(s("title", {}, `${clock(bin.at)}  ${GROUPS[name]}: ${unit(value)}`));
        svg.append(rect);
        below += value;
      });
    }
  }
  const curve = (svg, x, y, of, style) => {
    let path = "";
    let pen = "M";
    for (const bin of bins) {
      const value = of(bin);
      if (value === null || Number.isNaN(value)) { pen = "M"; continue; }
      path += `${pen}${x(bin.at).toFixed(1)} ${y(value).toFixed(1)}H${x(bin.at + bin.seconds).toFixed(1)}`;
      pen = "L";
    }
    if (path) svg.append(s("path", { class: `curve ${style}`, d: path }));
  };
  const ratio = (of) => (bin) => (sum(of(bin)) > 0 ? (sum(of(bin).slice(0, 2)) / sum(of(bin))) * 100 : null);
  {
    const [svg, x, y] = axes("ratio", bins, 100, (n) => `${n}${THIN}%`);
    curve(svg, x, y, ratio((bin) => bin.bytes), "k-byte");
    curve(svg, x, y, ratio((bin) => bin.requests), "k-hit");
  }
  {
    const all = bins.flatMap((bin) => ["hit-p50", "hit-p99", "fetch-p50", "fetch-p99"].map((name) => bin[name])).filter((n) => n !== null);
    const least = 10 ** Math.floor(Math.log10(Math.max(Math.min(...all, 1000), 1)));
    const most = 10 ** Math.ceil(Math.log10(Math.max(...all, least * 100)));
    const ticks = [];
    for (let tick = least; tick <= most; tick *= 10) ticks.push(tick);
    const [svg, x, y] = axes("times", bins, most, micros, [least, most, ticks]);
    for (const [name, style] of [["hit", "k-hit"], ["fetch", "k-miss"]]) {
      curve(svg, x, y, (bin) => bin[`${name}-p99`], `${style} thin`);
      curve(svg, x, y, (bin) => bin[`${name}-p50`], style);
    }
  }
}

function showSwitch() {
  $("span").replaceChildren(...Object.entries(SPANS).map(([name, text]) =>
    h("button", { type: "button", "aria-pressed": String(name === chosen), onclick: () => { chosen = name; showSwitch(); if (now.history) showHistory(); } }, text)));
}

// Tables.

const cell = (text, style) => h("td", style ? { class: style } : {}, text);
function fill(id, heads, rows, nothing) {
  if (!rows.length) return $(id).replaceChildren(h("tbody", {}, h("tr", {}, h("td", { class: "words dim" }, nothing))));
  $(id).replaceChildren(
    h("thead", {}, h("tr", {}, heads.map(([text, style]) => h("th", style ? { class: style } : {}, text)))),
    h("tbody", {}, rows),
  );
}

function showOutcomes() {
  const { stats } = now;
  const last = seen.at(-1);
  const first = seen.find((look) => last.at - look.at <= WINDOW * 1.2) ?? last;
  const seconds = (last.at - first.at) / 1000;
  const [all, sent] = [total(stats.requests), total(stats.bytes)];
  const names = Object.keys(stats.requests).filter((name) => stats.requests[name] > 0);
  names.sort((a, b) => stats.requests[b] - stats.requests[a]);
  const rows = names.map((name) => h("tr", { "data-outcome": name },
    h("td", { class: `words swatch ${group(name)}` }, name),
    cell(seconds > 0 ? count((last.stats.requests[name] - first.stats.requests[name]) / seconds) : "–"),
    h("td", { class: "requests" }, exact(stats.requests[name])),
    cell(percent(stats.requests[name], all)),
    cell(bytes(stats.bytes[name])),
    cell(percent(stats.bytes[name], sent), "less")));
  fill("outcomes", [["outcome", "words"], ["now, /s"], ["since the start"], ["%"], ["bytes"], ["%", "less"]], rows, "No request came so far.");
}

function showRecent() {
  const { recent } = now;
  const ago = (at) => (at ? `${span(Math.max(recent.now - at, 0))} ago` : "–");
  fill("origins", [["origin", "name"], ["fetches"], ["failed"], ["5xx"], ["mean first byte"], ["last answer", "less"], ["last failure", "words less"]],
    recent.origins.map((origin) => h("tr", {},
      cell(origin.name, "name"), cell(exact(origin.fetches)), cell(exact(origin.failed), origin.failed ? "bad" : ""),
      cell(exact(origin["server-errors"]), origin["server-errors"] ? "bad" : ""), cell(micros(origin["mean-microseconds"])),
      cell(ago(origin["last-answer"]), "less"), cell(origin.cause ? `${ago(origin["last-failure"])}: ${origin.cause}` : "–", "name less"))),
    "No origin was asked.");
  const find = (url) => h("button", { type: "button", title: "Find it", onclick: () => search(url) }, url);
  for (const [id, head, name] of [["hosts", "host", (row) => row.name], ["urls", "URL", (row) => find(row.name)]]) {
    const error = recent[id].most.some((row) => row.error > 0);
    fill(id, [[head, "name"], ["requests"], ["hits, %"], ["bytes", "less"]].concat(error ? [["too many by", "less"]] : []),
      recent[id].most.map((row) => h("tr", {}, h("td", { class: "name" }, name(row)), cell(exact(row.requests)),
        cell(percent(row.hits, row.requests - row.error)), cell(bytes(row.bytes), "less"), ...(error ? [cell(row.error ? `≤ ${exact(row.error)}` : "0", "less")] : []))),
      "No request came.");
  }
  const most = Math.max(recent.hosts["others-at-most"], recent.urls["others-at-most"]);
  $("sketch").textContent =
    (recent["one-in"] === 1 ? "All requests are counted." :
      `Of each worker's requests in half an hour the first 4096 are counted, then one in ${recent["one-in"]}, which stands for that many: a count of n is right to about ± ${Math.round(2 * Math.sqrt(recent["one-in"]))}·√n.`) +
    (most ? ` What is not listed was asked for ${exact(most)} times at most.` : "");
  fill("slowest", [["when", "words"], ["first byte"], ["all", "less"], ["outcome", "words less"], ["status"], ["URL", "name"], ["id", "words less"]],
    recent.slowest.map((row) => h("tr", {}, cell(stamp(row.at), "words"), cell(micros(row["first-microseconds"])), cell(micros(row["last-microseconds"]), "less"),
      cell(row.outcome, "words less"), cell(row.status ?? "–"), h("td", { class: "name" }, row.method === "GET" ? find(row.url) : `${row.method} ${row.url}`),
      cell(row.id.slice(0, 16), "words less dim"))),
    "None took longer than a millisecond.");
  fill("events", [["when", "words"], ["level", "words"], ["area", "words less"], ["what", "name"]],
    recent.events.toReversed().map((event) => h("tr", {}, cell(stamp(event.at), "words"),
      cell(event.level, `words ${event.level === "error" || event.level === "warn" ? "bad" : "dim"}`), cell(event.area, "words less"), cell(event.text, "name"))),
    "Nothing was written to it.");
}

// Disks, memory, the day.

const fact = (name, value) => h("span", {}, `${name} `, h("b", {}, value));

function showDisks() {
  const disks = now.state.disks;
  if (!disks.length) return $("disks").replaceChildren(h("p", { class: "dim" }, "There is none: what is cached is in memory alone."));
  $("disks").replaceChildren(...disks.map((disk, n) => {
    const title = h("h3", {}, disk.name, disk.serves ? null : h("span", { class: "bad" }, " is left"));
    const { stats, map } = disk;
    if (!stats || !map) return h("div", {}, title);
    const budget = stats["write-budget"];
    const facts = h("p", { class: "disk-facts" },
      fact("size", bytes(stats.size)), fact("holds", `${percent(stats.filled, map.segments * map.segment)} %`), fact("records", count(stats.objects)),
      fact("comes round in", stats.lap ? span(stats.lap) : "–"),
      fact("written in a day", bytes(stats["written-last-day"]) + (budget ? ` of ${bytes(budget)}` : "")),
      fact("reads waiting", exact(stats["waiting-reads"])), fact("writes waiting", exact(stats["waiting-writes"])),
      disks.length > 1 ? fact("share of keys", `${percent(disk.share, 1)} %`) : null);
    return h("div", {}, title, facts, h("div", {}, s("svg", { id: `map-${n}`, class: "map", role: "img", "aria-label": `Map of the log: the sweep is at ${percent(map.next, map.segments)} %` })));
  }));
  disks.forEach((disk, n) => disk.map && drawMap(`map-${n}`, disk.map));
}

/** The log in the order of the disk: the darker the newer; what is at the sweep leaves next. */
function drawMap(id, map) {
  const [svg, width] = canvas(id, 58);
  const [top, high] = [12, 26];
  const each = width / map.cells.length;
  map.cells.forEach(([held, behind, age], n) => {
    const title = s("title", {}, behind === null ? "empty" : `${percent(held, 1)} % in use; ${exact(behind)} segments ago${age === null ? ", before the start" : `, ${span(age)}`}`);
    const frame = s("rect", { class: "empty", x: n * each, y: top, width: each, height: high, "stroke-width": 0.5 });
    svg.append(frame);
    if (behind === null) return frame.append(title);
    const rect = s("rect", { class: "memory", x: n * each, width: Math.max(each - (each > 3 ? 0.5 : 0), 0.5), y: top + high * (1 - held), height: high * held,
      "fill-opacity": (1 - 0.8 * Math.min(behind / map.segments, 1)).toFixed(2) });
    rect.append(title);
    svg.append(rect);
  });
  const at = (map.next / map.segments) * width;
  svg.append(s("line", { class: "head", x1: at, x2: at, y1: top - 4, y2: top + high + 3 }),
    s("path", { class: "sweep", d: `M${at - 5} ${top - 11}h10l-5 8z` }));
  const [right, narrow] = [at > width / 2, width < 640];
  const oldest = map.cells.reduce((old, [, behind, age]) => (behind !== null && (!old || behind > old[0]) ? [behind, age] : old), null);
  svg.append(s("text", { x: narrow ? 0 : at + (right ? -6 : 6), y: top + high + 16, "text-anchor": right && !narrow ? "end" : "start" },
    `sweep at segment ${exact(map.next)} of ${exact(map.segments)}${oldest ? `; what leaves next is ${oldest[1] === null ? "from before the start" : `${span(oldest[1])} old`}` : ""}`));
}

function showMemory() {
  const { state, stats } = now;
  const limit = stats.budget.total;
  $("memory-sum").textContent = `The process has ${bytes(stats.process["resident-bytes"])}` + (limit && limit < 2 ** 53 ? ` of at most ${bytes(limit)} (--memory-total).` : ".");
  fill("memory", [["part", "words"], ["taken"], ["of"], ["", "words"]], state.memory.filter((part) => part.bytes > 0).map((part) => h("tr", {},
    cell(part.name, "words"), cell(part.taken === null ? "–" : bytes(part.taken)), cell(bytes(part.bytes)),
    h("td", { class: "words" }, part.taken === null ? h("span", { class: "dim" }, "set apart") : h("meter", { value: Math.min(part.taken / part.bytes, 1), high: 0.95, "aria-label": part.name })))),
    "It has no bound.");
  fill("memory-clients", [["client", "words"], ["bodies from origins"]], state["memory-clients"].map((client) =>
    h("tr", {}, cell(client.address, "words"), cell(bytes(client.taken)))), "No client has bodies from origins under way that take memory.");
}

function showDay() {
  const { day } = now.state;
  $("day-section").hidden = !day;
  if (!day) return;
  const [svg, width] = canvas("day", 110);
  const most = Math.max(1, ...day.slots.map(([load]) => load ?? 0));
  const [low, left] = [90, LEFT];
  const each = (width - left - 4) / day.slots.length;
  for (const [at, value] of [[low, 0], [8, most]]) {
    svg.append(s("line", { class: "grid", x1: left, x2: width - 4, y1: at, y2: at }), s("text", { x: left - 5, y: at + 4, "text-anchor": "end" }, count(value)));
  }
  day.slots.forEach(([load, quiet], n) => {
    const height = load === null ? 0 : (load / most) * (low - 8);
    const rect = s("rect", { class: quiet ? "disk" : "memory", x: left + n * each, width: Math.max(each - 0.5, 0.5), y: low - Math.max(height, 1.5), height: Math.max(height, 1.5) });
    rect.append(s("title", {}, `${two(Math.floor(n / 4))}:${two((n % 4) * 15)}  ${load === null ? "not known yet" : `${count(load)} requests`}${quiet ? ", off-peak" : ""}`));
    svg.append(rect);
  });
  const at = left + (day.minute / 15) * each;
  svg.append(s("line", { class: "head", x1: at, x2: at, y1: 4, y2: low + 3 }));
  for (const hour of [0, 6, 12, 18, 24]) {
    svg.append(s("text", { x: left + hour * 4 * each, y: 105, "text-anchor": hour === 24 ? "end" : "middle" }, `${two(hour)}:00`));
  }
}

/** Curves of simulated policies, and this cache among them. */
function showShadow() {
  const shadow = now.stats.shadow;
  $("shadow-section").hidden = !shadow;
  if (!shadow) return;
  const styles = ["memory", "miss", "validated", "refused", "disk", "passed"];
  const policies = [...new Set(shadow.curve.map((point) => point.policy))];
  const style = (policy) => styles[policies.indexOf(policy) % styles.length];
  $("shadow-legend").replaceChildren(...policies.map((policy) => h("span", { class: style(policy) }, policy)));
  const sizes = [...new Set(shadow.curve.map((point) => point.size))].sort((a, b) => a - b);
  const [least, most] = [Math.log(sizes[0]), Math.log(sizes.at(-1))];
  for (const [id, ratio] of [["shadow", "hit-ratio"], ["shadow-bytes", "byte-hit-ratio"]]) {
    const [svg, width] = canvas(id, HEIGHT);
    const x = (size) => LEFT + ((Math.log(size) - least) / Math.max(most - least, 1e-9)) * (width - LEFT - 34);
    const y = (value) => HEIGHT - BOTTOM - value * (HEIGHT - BOTTOM - TOP);
    for (const value of [0, 0.5, 1]) {
      svg.append(s("line", { class: "grid", x1: LEFT, x2: width - 4, y1: y(value), y2: y(value) }),
        s("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, `${value * 100}${THIN}%`));
    }
    const each = Math.ceil((sizes.length * 70) / (width - LEFT));
    sizes.forEach((size, n) => n % each === 0 && svg.append(s("text", { x: x(size), y: HEIGHT - 5, "text-anchor": "middle" }, short(bytes(size)))));
    for (const policy of policies) {
      const points = shadow.curve.filter((point) => point.policy === policy && point[ratio] !== null);
      if (!points.length) continue;
      svg.append(s("path", { class: `curve ${style(policy)} line`, d: `M${points.map((point) => `${x(point.size).toFixed(1)} ${y(point[ratio]).toFixed(1)}`).join("L")}` }));
      for (const point of points) {
        const dot = s("circle", { class: `${style(policy)} ${point.full ? "" : "hollow"}`, cx: x(point.size), cy: y(point[ratio]), r: 3 });
        dot.append(s("title", {}, `${policy}, ${bytes(point.size)}: ${percent(point[ratio], 1)} %${point.full ? "" : ", not full yet"}`));
        svg.append(dot);
      }
    }
    if (shadow[ratio] !== null) {
      const [at, up] = [x(shadow.size), y(shadow[ratio])];
      const mark = s("path", { class: "head", d: `M${at - 5} ${up - 5}l10 10m0 -10l-10 10` });
      mark.append(s("title", {}, `this cache, ${bytes(shadow.size)}: ${percent(shadow[ratio], 1)} %`));
      svg.append(mark);
    }
  }
}

// A URL.

function search(url) {
  location.hash = `url=${encodeURIComponent(url)}`;
  $("url").scrollIntoView({ block: "center" });
}

async function find() {
  const url = new URLSearchParams(location.hash.slice(1)).get("url");
  if (!url) return;
  $("url").value = url;
  const query = new URLSearchParams({ url });
  const field = $("field").value.trim();
  if (field) query.append("field", field);
  try {
    showFound(JSON.parse(await ask(`/object.json?${query}`)));
  } catch (error) {
    if (error instanceof Refused) return login();
    $("found").replaceChildren(h("p", { class: "bad" }, error.message));
  }
}

function showFound(object) {
  const style = { fresh: "good", purged: "bad", "not-stored": "dim", unknown: "bad" }[object.state] ?? "";
  const rows = [];
  const row = (name, value) => value !== null && value !== undefined && rows.push(h("dt", {}, name), h("dd", {}, value));
  if (object["varies-by"]) row("varies by", object["varies-by"].join(", "));
  if (object.status) {
    row("status", object.status);
    row("body", `${bytes(object["body-bytes"])} (${exact(object["body-bytes"])} bytes)` + (object.pieces ? `, ${exact(object.pieces.count)} pieces, ${exact(object.pieces.missing ?? 0)} missing of ${exact(object.pieces["looked-at"])}` : ""));
    if (object.part) row("part", `from byte ${exact(object.part.first)} of ${object.part["complete-length"] === null ? "an unknown length" : exact(object.part["complete-length"])}`);
    row("received", `${stamp(object.received)} (${new Date(object.received * 1000).toISOString()})`);
    row("age", `${span(object.age)} of ${span(object["fresh-for"])} that it is fresh`);
    row("stale while revalidated", object["stale-while-revalidate"] && span(object["stale-while-revalidate"]));
    row("stale on error", object["stale-if-error"] && span(object["stale-if-error"]));
    const places = object["on-disk"].map((at) => `${at.disk}, segment ${exact(at.segment)}, offset ${exact(at.offset)}, up to ${bytes(at["record-bytes-at-most"])}` +
      `${at.written ? "" : ", to be written"}, used ${at.uses === 3 ? "3 times or more" : at.uses === 1 ? "once" : `${at.uses} times`}${at["seconds-there"] === null ? "" : `, there for ${span(at["seconds-there"])}`}`);
    row("place", (object["in-memory"] ? ["in memory"] : []).concat(places).join("; "));
    rows.push(h("dt", {}, "fields"), h("dd", { class: "fields" }, object.fields.map(([name, value]) => h("div", {}, `${name}: ${value}`))));
  }
  const purge = h("button", { type: "button", class: "bad", id: "purge" }, "Purge");
  const said = h("span", { class: "dim" });
  let sure = false;
  purge.addEventListener("click", async () => {
    if (!sure) { sure = true; purge.textContent = "Purge: what is stored of this URL is not served any more. Sure?"; return; }
    purge.disabled = true;
    try {
      said.textContent = ` ${(await ask(`/purge?${new URLSearchParams({ url: object.url })}`, { method: "POST" })).trim()}`;
      find();
    } catch (error) {
      if (error instanceof Refused) return login();
      said.textContent = ` ${error.message}`;
    }
  });
  $("found").replaceChildren(
    h("p", { class: "state" }, h("span", { class: style }, object.state.replaceAll("-", " ")), " ", h("span", { class: "dim name" }, object.url)),
    h("p", {}, object.why), rows.length ? h("dl", {}, rows) : "", h("p", {}, purge, said));
}

// What goes round.

function login(why = "") {
  sessionStorage.removeItem("token");
  $("all").hidden = true;
  $("login").hidden = false;
  $("login-why").textContent = why;
  $("token").focus();
  live("The token is needed", "dim");
}

function live(text, style = "") {
  $("live").textContent = text;
  $("live").className = style;
}

/** Each with the milliseconds after which it is asked again, and what is drawn of it. */
const SOURCES = [
  { path: "/stats.json", every: 2000, took: tookStats },
  { path: "/state.json", every: 10_000, took: (told) => { now.state = told; showState(); } },
  { path: "/recent.json", every: 5000, took: (told) => { now.recent = told; showRecent(); } },
  { path: "/history.json", every: 20_000, took: (told) => { now.history = told; showHistory(); } },
];

function tookStats(stats) {
  now.stats = stats;
  // What was counted before a start is of no use after it.
  if (seen.length && seen.at(-1).stats.process["start-time"] !== stats.process["start-time"]) seen.length = 0;
  seen.push({ at: performance.now(), stats });
  while (seen.length > 2 && seen[0].at < performance.now() - 2 * WINDOW) seen.shift();
}

function showState() {
  const { state } = now;
  $("what").textContent = `${state.version}, ${state["reverse-proxy-for"] ? `reverse proxy for ${state["reverse-proxy-for"]}` : "forward proxy"}`;
  showDisks();
  showDay();
}

function showCounts() {
  const failing = showTiles();
  showTroubles(failing);
  showOutcomes();
  showMemory();
  showShadow();
}

let timer = null;
let asking = false;

async function look() {
  clearTimeout(timer);
  if (asking) return;
  if (document.hidden) return live("paused", "dim");
  asking = true;
  try {
    const due = SOURCES.filter((source) => !(source.next > performance.now()));
    const told = await Promise.all(due.map((source) => json(source.path)));
    $("login").hidden = true;
    $("all").hidden = false;
    due.forEach((source, n) => { source.next = performance.now() + source.every - 100; source.took(told[n]); });
    showCounts();
    live(`up ${span(now.stats.process.uptime)}`);
    document.documentElement.dataset.ready = "yes";
    timer = setTimeout(look, 2000);
  } catch (error) {
    if (error instanceof Refused) login(sessionStorage.getItem("token") ? "That is not the token." : "");
    else {
      live(error instanceof TypeError ? "no answer; trying again" : error.message, "bad");
      timer = setTimeout(look, 4000);
    }
  } finally {
    asking = false;
  }
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  // No header field takes another.
  if (!/^[!-~]+$/.test(token)) return login("That is not the token.");
  sessionStorage.setItem("token", token);
  look().then(find);
});
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const hash = `#url=${encodeURIComponent($("url").value.trim())}`;
  if (location.hash === hash) find();
  else location.hash = hash;
});
addEventListener("hashchange", find);
document.addEventListener("visibilitychange", () => !document.hidden && look());
let drawn = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === drawn || !now.history || !now.state) return;
  drawn = innerWidth;
  showHistory();
  showState();
});
showSwitch();
look().then(find);
