// What is broken, from the rows: workloads with the causes that their pods show, nodes, and controllers.

// What is under way for longer is broken.
const PATIENCE = 60;
const WORKLOADS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "PersistentVolumeClaim", "Namespace"];

const RANK = { controller: 0, Node: 1 };

export const isOverdue = (row, now) => row.level === 1 && row.since > 0 && now - row.since > PATIENCE;

export const seriousness = (row, now) => (isOverdue(row, now) ? 2 : row.level);

export function problems(model) {
  const now = model.now();
  const found = new Map();
  const add = (row) => {
    const id = `${row.kind} ${row.key}`;
    const level = seriousness(row, now);
    let item = found.get(id);
    if (!item) found.set(id, (item = { id, row, level, since: row.since, causes: new Map() }));
    item.level = Math.max(item.level, level);
    return item;
  };
  for (const kind of ["Node", ...WORKLOADS]) {
    for (const row of model.picture.rows(kind).values()) if (row.level === 1 || row.level === 2) add(row);
  }
  for (const pod of model.picture.rows("Pod").values()) {
    if (pod.level === 1 || pod.level === 2) addPod(model, pod, now, add);
  }
  const items = [...found.values(), ...model.picture.controllers.flatMap(ofController)];
  items.sort((a, b) => rank(a) - rank(b) || b.since - a.since || (a.id < b.id ? -1 : 1));
  return { broken: items.filter((item) => item.level === 2), moving: items.filter((item) => item.level === 1) };
}

const rank = (item) => RANK[item.row?.kind ?? "controller"] ?? 2;

// A pod counts for the workload that it belongs to, if that has a row.
function addPod(model, pod, now, add) {
  const [kind, name] = pod.top ? pod.top.split("/") : [];
  const top = kind && model.find(kind, pod.namespace, name);
  if (!top) {
    add(pod);
    return;
  }
  // Failed attempts of a Job that has ended well.
  if (top.level === 3) return;
  const level = seriousness(pod, now);
  if (level < 2) return;
  const item = add(top);
  item.level = 2;
  // A workload that has enough pods otherwise has been broken since its first pod was.
  if (top.level === 0) item.since = item.causes.size ? Math.min(item.since, pod.since) : pod.since;
  item.causes.set(pod.text, (item.causes.get(pod.text) ?? 0) + 1);
}

function ofController(controller) {
  const texts = [];
  if (controller.unhealthy) texts.push(controller.unhealthy);
  for (const [resource, seconds, error] of controller.stale ?? []) {
    if (error) texts.push(`its cache of ${resource} is ${seconds} s old: ${error}`);
  }
  const { quarantine = 0, quarantined = [] } = controller.work ?? {};
  if (quarantine) texts.push(`a sync panicked; in quarantine: ${quarantined.map(([key]) => key).join(", ")}`);
  if (!texts.length) return [];
  const id = `controller ${controller.name}`;
  return [{ id, controller: controller.name, level: 2, since: 0, text: texts.join("; "), causes: new Map() }];
}

// The causes that pods show, most frequent first: "ImagePullBackOff (3 pods)".
export function causes(item) {
  const sorted = [...item.causes].sort((a, b) => b[1] - a[1]);
  return sorted.slice(0, 3).map(([text, pods]) => `${text} (${pods} pod${pods === 1 ? "" : "s"})`).join(", ");
}
