// The tree of agents as a picture: where each one stands, and what one looks at.

import type { AgentInfo, ConfigProblem, InboxItem, TemplateInfo } from "../api/types";
import { agentStanding, type Known, type Standing } from "./standing";

/** One agent in the tree. Pixels from the corner of the picture. */
export interface Place {
  name: string;
  parent?: string;
  /** From 1 on, as it is read out. */
  level: number;
  /** Among those beside it, from 1 on. */
  position: number;
  siblings: number;
  x: number;
  y: number;
  children: string[];
}

/** A line from the first child of an agent to its last one. */
export interface Line {
  id: string;
  x: number;
  top: number;
  bottom: number;
}

export interface Picture {
  /** Each agent before those below it. */
  order: string[];
  places: Map<string, Place>;
  lines: Line[];
  width: number;
  height: number;
}

/** The parts of the picture that the style sheet has, too. */
export const NODE = { width: 232, height: 82, gap: 10, reach: 22, stub: 24 };
const STEP = NODE.width + 2 * NODE.reach;
const ROW = NODE.height + NODE.gap;
/** An agent stands beside the middle of a team of so many; above it, beside its first one. */
const CENTRED = 8 * ROW;
/** On a phone: how far a team is indented, and how often. */
const INDENT = 28;
const DEEPEST = 5;

type Member = Pick<AgentInfo, "name" | "parent">;

/** Left to right, or indented where there is no room for that. */
export function draw(agents: Member[], indented: boolean): Picture {
  const teams = teamsOf(agents);
  const picture: Picture = { order: [], places: new Map(), lines: [], width: 0, height: 0 };
  const { order, places, lines } = picture;
  let next = 0;

  function put(name: string, parent: string | undefined, level: number): Place {
    const children = (teams.get(name) ?? []).filter((child) => !places.has(child));
    const x = indented ? Math.min(level - 1, DEEPEST) * INDENT : (level - 1) * STEP;
    const place: Place = { name, level, position: 1, siblings: 1, x, y: next, children };
    if (parent !== undefined) place.parent = parent;
    places.set(name, place);
    order.push(name);
    const top = next;
    if (indented || children.length === 0) next += ROW;
    const below = children.map((child) => put(child, name, level + 1));
    number(below);
    const end = next - ROW;
    if (!indented && below.length) place.y = end - top < CENTRED ? (top + end) / 2 : top;
    picture.width = Math.max(picture.width, x + NODE.width);
    const [first, last] = [below[0], below.at(-1)];
    if (first && last) lines.push(lineOf(place, first, last, indented));
    return place;
  }

  const roots = teams.get("") ?? [];
  number(
    roots.map((name) => {
      const root = put(name, undefined, 1);
      next += NODE.gap;
      return root;
    }),
  );
  picture.height = Math.max(0, next - 2 * NODE.gap);
  return picture;
}

/** Names by their parent's; those of the roots by an empty one, `main` first. */
function teamsOf(agents: Member[]): Map<string, string[]> {
  const parents = new Map(agents.map(({ name, parent }) => [name, parent ?? ""]));
  // Of a circle, each is a root: nobody is left out.
  const isRoot = (name: string) => {
    const above = new Set([name]);
    for (let parent = parents.get(name); parent; parent = parents.get(parent)) {
      if (above.has(parent)) return parent === name;
      above.add(parent);
    }
    return false;
  };
  const teams = new Map<string, string[]>();
  for (const name of [...parents.keys()].sort(mainFirst)) {
    const parent = parents.get(name) ?? "";
    const above = !parents.has(parent) || isRoot(name) ? "" : parent;
    const team = teams.get(above);
    if (team) team.push(name);
    else teams.set(above, [name]);
  }
  return teams;
}

function mainFirst(a: string, b: string): number {
  if (a === "main" || b === "main") return a === b ? 0 : a === "main" ? -1 : 1;
  return a < b ? -1 : 1;
}

function number(places: Place[]): void {
  places.forEach((place, at) => {
    place.position = at + 1;
    place.siblings = places.length;
  });
}

function lineOf(of: Place, first: Place, last: Place, indented: boolean): Line {
  const middle = NODE.height / 2;
  if (indented) {
    const top = of.y + NODE.height;
    return { id: of.name, x: of.x + 12, top, bottom: last.y + NODE.stub };
  }
  const ends = [of.y, first.y, last.y].map((y) => y + middle);
  const x = of.x + NODE.width + NODE.reach;
  return { id: of.name, x, top: Math.min(...ends), bottom: Math.max(...ends) };
}

/** Those whose name or description holds the words, with everybody above them. */
export function among(agents: AgentInfo[], words: string): AgentInfo[] {
  const wanted = words.trim().toLowerCase();
  if (wanted === "") return agents;
  const byName = new Map(agents.map((agent) => [agent.name, agent]));
  const kept = new Set<string>();
  for (const agent of agents) {
    const text = `${agent.name} ${agent.description}`.toLowerCase();
    if (!text.includes(wanted)) continue;
    for (let at: AgentInfo | undefined = agent; at && !kept.has(at.name); ) {
      kept.add(at.name);
      at = byName.get(at.parent ?? "");
    }
  }
  return agents.filter(({ name }) => kept.has(name));
}

/** The agents below this one, whoever is above them in between. */
export function below(agents: Member[], name: string): string[] {
  const { places, order } = draw(agents, true);
  const own = places.get(name);
  if (!own) return [];
  const after = order.slice(order.indexOf(name) + 1);
  const end = after.findIndex((other) => (places.get(other)?.level ?? 0) <= own.level);
  return end < 0 ? after : after.slice(0, end);
}

/** What an agent does, or that it does nothing because somebody wants that. */
export type TeamStanding = Standing | "paused" | "stopped";

export function teamStanding(known: Known, agent: AgentInfo): TeamStanding {
  // How much is queued is known: recent items, which say it too, are looked through for nothing.
  const busy: Known = agent.work ? { turns: known.turns, recent: [] } : known;
  const standing = agentStanding(busy, agent);
  if (standing !== "queued" && standing !== "idle") return standing;
  if (agent.status === "paused" || agent.status === "stopped") return agent.status;
  const { running = 0, waiting = 0, queued = 0 } = agent.work ?? {};
  if (running > 0) return "running";
  if (waiting > 0) return "waiting";
  return queued > 0 ? "queued" : "idle";
}

/** What the newest turn of an agent failed at; nothing where it did not fail. */
export function lastFailure(recent: InboxItem[], agent: string): InboxItem | undefined {
  let last: InboxItem | undefined;
  for (const item of recent) {
    const isNewer = (item.finished_at ?? 0) > (last?.finished_at ?? 0);
    if (item.agent === agent && isNewer) last = item;
  }
  return last?.state === "failed" || last?.state === "dead" ? last : undefined;
}

/** Why the files of an agent are not in force, while it goes on with earlier ones. */
export function filesProblem(
  problems: ConfigProblem[] | undefined,
  { name, status }: Pick<AgentInfo, "name" | "status">,
): ConfigProblem | undefined {
  // One that cannot work says so itself.
  if (status === "failed") return undefined;
  return problems?.find(({ file }) => `/${file}`.includes(`/teams/${name}/`));
}

/** Those of a template's agents whose names are taken, where its lead is called `name`. */
export function taken(names: string[], template: TemplateInfo, name: string): string[] {
  const team = template.agents.map((one) => name + one.name.slice(template.name.length));
  return team.filter((one) => names.includes(one));
}

/** The template's own name, else one behind it by number, that nobody of the team is called yet. */
export function freeName(names: string[], template: TemplateInfo): string {
  let name = template.name;
  for (let at = 2; taken(names, template, name).length; at += 1) name = `${template.name}-${at}`;
  return name;
}
