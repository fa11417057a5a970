// Who gave what to whom: the tasks of a chain as a tree, and where its nodes stand in a picture.

import type { ItemInfo, ItemState, TaskInfo } from "../api/types";
import { clock, span, title } from "./format";
import { failureWords } from "./outcomes";
import { inert } from "./visible";
import {
  howWords,
  isOpen,
  markOf,
  nameOfWork,
  RETRYING,
  standingOfItem,
  stateWords,
  type WorkMark,
} from "./work";

export interface LineageNode {
  id: string;
  /** In the list of nodes; none at the root. */
  parent: number | undefined;
  depth: number;
  /** Whoever has it: a person, an agent, the operator. */
  who: string;
  how: string;
  what: string;
  /** What came of it. */
  result?: string | undefined;
  mark: WorkMark;
  /** In words what the mark says. */
  state: string;
  when: string;
  /** When it began, of what goes on: `when` is as of the reading. */
  since?: number | undefined;
  /** Of an item that is on this page. */
  item?: string | undefined;
  approval?: string | undefined;
  picked: boolean;
}

/** A node of the picture, in pixels. */
export interface Placed {
  node: LineageNode;
  x: number;
  y: number;
  width: number;
}

/** Whether the turn there, or this one of it, is tried again later. */
type Retries = (of: { agent: string; session_key: string; turn?: string | null }) => boolean;

/** `root` is the first item of the chain and knows all of its tasks. */
export function lineage(
  root: ItemInfo,
  picked: string,
  whoIs: (principal: string) => string,
  now = Date.now(),
  retries: Retries = () => false,
): LineageNode[] {
  const nodes: LineageNode[] = [];
  const children = (parent: string | undefined) =>
    (root.chain ?? []).filter((task) => (task.parent_task ?? undefined) === parent);
  const add = (node: LineageNode) => nodes.push(node) - 1;
  const asked = (item: string, parent: number, depth: number) => {
    for (const approval of root.approvals ?? []) {
      if (approval.item_id !== item) continue;
      const { id, tool, state, decided_by, asked_at, decided_at } = approval;
      const by = decided_by ? ` by ${whoIs(decided_by)}` : "";
      add({
        id,
        parent,
        depth,
        who: "approval",
        how: inert(tool),
        what: state === "open" ? "waiting" : `${state}${by}`,
        mark: state === "open" ? "wait" : state === "approved" ? "done" : "stop",
        state: state === "open" ? "waiting" : state,
        when: clock(decided_at ?? asked_at, now),
        approval: id,
        picked: false,
      });
    }
  };
  const walk = (task: TaskInfo, parent: number, depth: number) => {
    const at = add({ ...nodeOf(task, picked, now, retries), parent, depth });
    asked(task.item_id, at, depth + 1);
    for (const child of children(task.item_id)) walk(child, at, depth + 1);
  };
  const sender = add({
    id: "sender",
    parent: undefined,
    depth: 0,
    who: whoIs(root.from),
    how: "",
    what: root.channel ? inert(root.channel.split(":", 1)[0] ?? "") : howWords(root.kind),
    mark: "done",
    state: "",
    when: clock(root.created_at, now),
    picked: false,
  });
  const again = isOpen(root.state) && root.turn != null && retries(root);
  const [mark, state] = standingOfItem(root.state, again);
  const first = add({
    id: root.item_id,
    parent: sender,
    depth: 1,
    who: root.agent,
    how: root.kind === "message" ? "" : howWords(root.kind),
    what: nameOfWork(root),
    result: root.response ? title(root.response, 120) : undefined,
    mark,
    state,
    when: took(root.started_at ?? root.created_at, root.finished_at, now),
    since: root.finished_at == null ? (root.started_at ?? root.created_at) : undefined,
    item: root.item_id,
    picked: root.item_id === picked,
  });
  asked(root.item_id, first, 2);
  for (const task of children(undefined)) walk(task, first, 2);
  return nodes;
}

type Bare = Omit<LineageNode, "parent" | "depth">;

function nodeOf(task: TaskInfo, picked: string, now: number, retries: Retries): Bare {
  const toOperator = task.agent === "operator";
  // Of several that are queued in one conversation nothing says which its turn has taken.
  const again = task.state === "open" && task.item_state === "waiting" && retries(task);
  const [mark, state] = again ? RETRYING : standing(task);
  const { code, result } = task;
  const failed = code && failureWords({ code, error: result ?? "" });
  return {
    id: task.item_id,
    who: task.agent,
    how: howWords(task.kind),
    what: task.kind === "shape" ? change(task.preview) : nameOfWork(task),
    result: task.state === "failed" || !result ? failed || undefined : title(result, 120),
    mark,
    state,
    when: took(task.created_at, task.ended_at, now),
    since: task.ended_at == null ? task.created_at : undefined,
    item: toOperator ? undefined : task.item_id,
    picked: task.item_id === picked,
  };
}

/** Which change of the hive is asked for: the tool, and whom it is about. */
function change(preview: string): string {
  const [tool = "", name] = [preview.split(" ", 1)[0], /"name":"([^"]+)"/.exec(preview)?.[1]];
  return inert(name ? `${tool} ${name}` : title(preview));
}

/** A task is open while anything given in its course is, also when its own turn has ended. */
function standing(task: TaskInfo): [WorkMark, string] {
  if (task.state === "open") {
    const item: ItemState = task.item_state === "done" ? "waiting" : task.item_state;
    // Only a person is waited for with the mark of waiting.
    if (item === "waiting" && task.agent !== "operator") return ["run", "open"];
    return [markOf(item), stateWords(item)];
  }
  return [task.state === "cancelled" ? "stop" : markOf(task.state), task.state];
}

function took(from: number, until: number | null | undefined, now: number): string {
  return span(Math.max(0, (until ?? now) - from));
}

export const NODE = { height: 62, gap: 14, width: 188, between: 30 };
const SENDER = 104;

/** From left to right by depth, children beside their parent. */
export function place(nodes: LineageNode[]): { placed: Placed[]; width: number; height: number } {
  const xOf = (depth: number) =>
    depth === 0 ? 1 : 1 + SENDER + NODE.between + (depth - 1) * (NODE.width + NODE.between);
  const children = new Map<number, number[]>();
  nodes.forEach(({ parent }, at) => {
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), at]);
  });
  const y: number[] = [];
  let next = 2;
  // From the last to the first: what stands below another comes behind it.
  const put = (at: number): number => {
    const own = children.get(at) ?? [];
    const places = own.map(put);
    const [first, last] = [places[0], places.at(-1)];
    if (first === undefined || last === undefined) {
      y[at] = next;
      next += NODE.height + NODE.gap;
    } else {
      y[at] = (first + last) / 2;
    }
    return y[at] ?? 0;
  };
  if (nodes.length) put(0);
  const placed = nodes.map((node, at) => ({
    node,
    x: xOf(node.depth),
    y: y[at] ?? 0,
    width: node.depth === 0 ? SENDER : NODE.width,
  }));
  const width = Math.max(0, ...placed.map((one) => one.x + one.width)) + 2;
  return { placed, width, height: Math.max(next - NODE.gap, 0) + 2 };
}
