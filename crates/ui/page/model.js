// What is known of the cluster: rows by kind, pods by node and by owner, controllers, activity. It follows the messages of the
// stream; the views read it.

const MOST_LINES = 3000;

const POD = (row) => ({ node: row[5], top: row[6], restarts: row[7] });
const NODE = (row) => ({ zone: row[5], power: row[6] });
const OTHER = (row) => ({ ready: row[5], wanted: row[6] });

export const GROUPS = {
  Pod: "", Node: "", Namespace: "", PersistentVolumeClaim: "",
  Deployment: "apps", StatefulSet: "apps", DaemonSet: "apps", ReplicaSet: "apps", Job: "batch",
};

const keyOf = (namespace, name) => (namespace ? `${namespace}/${name}` : name);

function object(kind, row) {
  const more = kind === "Pod" ? POD(row) : kind === "Node" ? NODE(row) : OTHER(row);
  const [namespace, name, level, text, since] = row;
  return { kind, namespace, name, level, text, since, key: keyOf(namespace, name), ...more };
}

// One picture of the cluster. A new stream begins a new one; the old one is shown until that is complete.
class Picture {
  constructor() {
    this.kinds = new Map();
    this.podsOfNode = new Map();
    this.podsOfTop = new Map();
    this.controllers = [];
    this.leads = undefined;
  }

  rows(kind) {
    return this.kinds.get(kind) ?? new Map();
  }

  put(kind, row) {
    const found = object(kind, row);
    let rows = this.kinds.get(kind);
    if (!rows) this.kinds.set(kind, (rows = new Map()));
    const before = rows.get(found.key);
    rows.set(found.key, found);
    if (kind === "Pod") {
      if (before) this.unlink(before);
      this.link(found);
    }
  }

  remove(kind, key) {
    const rows = this.kinds.get(kind);
    const before = rows?.get(key);
    if (!before) return;
    rows.delete(key);
    if (kind === "Pod") this.unlink(before);
  }

  link(pod) {
    for (const [index, at] of this.places(pod)) {
      let pods = index.get(at);
      if (!pods) index.set(at, (pods = new Map()));
      pods.set(pod.key, pod);
    }
  }

  unlink(pod) {
    for (const [index, at] of this.places(pod)) {
      const pods = index.get(at);
      pods?.delete(pod.key);
      if (pods?.size === 0) index.delete(at);
    }
  }

  places(pod) {
    const places = [];
    if (pod.node) places.push([this.podsOfNode, pod.node]);
    if (pod.top) places.push([this.podsOfTop, `${pod.namespace}/${pod.top}`]);
    return places;
  }
}

export class Model {
  constructor() {
    this.picture = new Picture();
    this.next = null;
    this.about = null;
    this.lines = [];
    this.lastLine = 0;
    this.seenDecision = -1;
    this.rates = new Map();
    // The time of the manager when its last message came, and that of the browser. `speed` is null unless the clock can be moved.
    this.base = Date.now();
    this.at = Date.now();
    this.speed = null;
    this.isComplete = false;
  }

  // The manager's time in seconds: clocks of browsers differ, and that of a playground can be moved.
  now() {
    return (this.base + (Date.now() - this.at) * (this.speed ?? 1)) / 1000;
  }

  // Takes a message in; what it changed is told as a set of words.
  take(message) {
    const changed = new Set();
    if (message.now) {
      this.base = message.now;
      this.at = Date.now();
      this.speed = message.speed ?? null;
    }
    if (message.begin) {
      this.about = message.begin;
      this.next = new Picture();
    }
    const picture = this.next ?? this.picture;
    for (const [kind, rows] of Object.entries(message.rows ?? {})) {
      for (const row of rows) picture.put(kind, row);
      changed.add("rows");
    }
    for (const [kind, keys] of Object.entries(message.gone ?? {})) {
      for (const key of keys) picture.remove(kind, key);
      changed.add("rows");
    }
    if (message.controllers) {
      picture.controllers = message.controllers;
      picture.leads = message.leads;
      this.measure(message.controllers);
      changed.add("controllers");
    }
    if (message.lines?.length || message.missed) {
      this.addLines(message.lines ?? [], message.missed ?? 0);
      changed.add("lines");
    }
    if (message.complete) {
      this.picture = this.next ?? this.picture;
      this.next = null;
      this.isComplete = true;
      changed.add("rows").add("controllers").add("lines");
    }
    return changed;
  }

  addLines(lines, missed) {
    for (const line of lines) {
      // After a new beginning the latest decisions come again.
      if (line.decision) {
        if (line.decision.id <= this.seenDecision) continue;
        this.seenDecision = line.decision.id;
      }
      this.lines.push({ id: this.lastLine++, ...line });
    }
    if (missed) this.lines.push({ id: this.lastLine++, missed });
    if (this.lines.length > MOST_LINES) this.lines.splice(0, this.lines.length - MOST_LINES);
  }

  // Syncs and failures per second, over the last ten seconds or so.
  measure(controllers) {
    const now = performance.now() / 1000;
    for (const { name, work } of controllers) {
      if (!work) continue;
      const seen = this.rates.get(name) ?? [];
      if (seen.length && work.syncs < seen.at(-1).syncs) seen.length = 0;
      seen.push({ now, syncs: work.syncs, failures: work.failures });
      while (seen.length > 2 && now - seen[0].now > 10) seen.shift();
      this.rates.set(name, seen);
    }
  }

  rate(name, what) {
    const seen = this.rates.get(name);
    if (!seen || seen.length < 2) return undefined;
    const [first, last] = [seen[0], seen.at(-1)];
    return last.now > first.now ? (last[what] - first[what]) / (last.now - first.now) : undefined;
  }

  find(kind, namespace, name) {
    return this.picture.rows(kind).get(keyOf(namespace, name));
  }
}

export function address({ group, kind, namespace, name }) {
  const query = new URLSearchParams({ kind, name });
  if (namespace) query.set("namespace", namespace);
  const known = group ?? GROUPS[kind];
  if (known !== undefined) query.set("group", known);
  return `#/object?${query}`;
}

// How many pods are in each level.
export function tally(pods) {
  const counts = [0, 0, 0, 0];
  for (const pod of pods) counts[pod.level]++;
  return counts;
}
