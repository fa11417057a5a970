import { expect, test } from "vitest";
import type { AgentInfo, InboxItem, TemplateInfo } from "../api/types";
import {
  among,
  below,
  draw,
  filesProblem,
  freeName,
  lastFailure,
  NODE,
  taken,
  teamStanding,
} from "./team";

const member = (name: string, parent?: string) => ({ name, parent: parent ?? null });
const ORCHARD = [
  member("api", "cto"),
  member("books", "main"),
  member("cto", "main"),
  member("lab"),
  member("main"),
  member("web", "cto"),
];
const row = NODE.height + NODE.gap;

test("a tree is drawn from left to right, each agent beside the middle of its team", () => {
  const { order, places, lines, height } = draw(ORCHARD, false);
  expect(order).toEqual(["main", "books", "cto", "api", "web", "lab"]);
  const at = (name: string) => [places.get(name)?.x, places.get(name)?.y];
  expect(at("books")).toEqual([276, 0]);
  expect(at("api")).toEqual([552, row]);
  expect(at("web")).toEqual([552, 2 * row]);
  expect(at("cto")).toEqual([276, 1.5 * row]);
  expect(at("main")).toEqual([0, row]);
  expect(at("lab")).toEqual([0, 3 * row + NODE.gap]);
  const middle = NODE.height / 2;
  expect(lines.find(({ id }) => id === "main")).toEqual({
    id: "main",
    x: 254,
    top: middle,
    bottom: 1.5 * row + middle,
  });
  expect(height).toBe(3 * row + NODE.gap + NODE.height);
  expect(places.get("web")).toMatchObject({ level: 3, position: 2, siblings: 2, parent: "cto" });
});

test("on a phone each team is indented below its agent", () => {
  const { order, places, lines } = draw(ORCHARD, true);
  expect(order.map((name) => places.get(name)?.y)).toEqual([
    0,
    row,
    2 * row,
    3 * row,
    4 * row,
    5 * row + NODE.gap,
  ]);
  expect(order.map((name) => places.get(name)?.x)).toEqual([0, 28, 28, 56, 56, 0]);
  const last = 2 * row + NODE.stub;
  expect(lines.at(-1)).toEqual({ id: "main", x: 12, top: NODE.height, bottom: last });
  const above = (at: number) => (at ? `a${at - 1}` : undefined);
  const deep = Array.from({ length: 40 }, (_, at) => member(`a${at}`, above(at)));
  expect(draw(deep, true).places.get("a39")?.x).toBe(140);
});

test("an agent stands beside the first one of a large team", () => {
  const large = Array.from({ length: 1000 }, (_, at) => member(`a${at}`, "main"));
  const { places, order } = draw([...large, member("main")], false);
  expect(places.get("main")?.y).toBe(0);
  expect(order.length).toBe(1001);
});

test("circles and agents above that are not there leave nobody out", () => {
  const odd = [member("a", "b"), member("b", "a"), member("c", "b"), member("d", "gone")];
  expect([...draw(odd, false).order].sort()).toEqual(["a", "b", "c", "d"]);
  expect(draw([member("a", "a")], true).order).toEqual(["a"]);
});

test("a search keeps those above what it finds", () => {
  const agents = ORCHARD.map((one) => ({ ...one, description: "" }) as AgentInfo);
  agents[3]!.description = "Experiments";
  const found = (words: string) => among(agents, words).map(({ name }) => name);
  expect(found("WEB")).toEqual(["cto", "main", "web"]);
  expect(found(" experi")).toEqual(["lab"]);
  expect(found("")).toHaveLength(6);
  expect(found("nobody")).toEqual([]);
});

test("who is below an agent", () => {
  expect(below(ORCHARD, "main")).toEqual(["books", "cto", "api", "web"]);
  expect(below(ORCHARD, "cto")).toEqual(["api", "web"]);
  expect(below(ORCHARD, "lab")).toEqual([]);
  expect(below(ORCHARD, "gone")).toEqual([]);
});

test("what an agent does counts before what is wanted of it", () => {
  const agent = { name: "a", status: "paused" } as AgentInfo;
  const turn = { agent: "a", state: "running" };
  const known = (turns: object) => ({ turns, recent: [] }) as never;
  expect(teamStanding(known({ t: turn }), agent)).toBe("running");
  expect(teamStanding(known({}), agent)).toBe("paused");
  const active = { ...agent, status: "active" } as AgentInfo;
  expect(teamStanding(known({}), active)).toBe("idle");
  const work = { running: 0, waiting: 0, queued: 2 };
  expect(teamStanding(known({}), { ...active, work } as AgentInfo)).toBe("queued");
  expect(teamStanding(known({}), { ...active, status: "failed" } as AgentInfo)).toBe("failed");
});

test("the last failure of an agent, until a turn of it ends well", () => {
  const item = (item_id: string, agent: string, state: string, finished_at?: number) =>
    ({ item_id, agent, state, finished_at }) as InboxItem;
  const recent = [
    item("open", "a", "running"),
    item("short", "a", "done", 5),
    item("long", "a", "failed", 9),
    item("other", "b", "failed", 3),
    item("good", "b", "done", 7),
  ];
  expect(lastFailure(recent, "a")?.item_id).toBe("long");
  expect([lastFailure(recent, "b"), lastFailure([], "a")]).toEqual([undefined, undefined]);
});

test("files with a mistake belong to the agent in whose folder they are", () => {
  const problem = { file: "/home/x/.skep/teams/api/config.yaml", text: "unknown key" };
  const of = (name: string, status = "active") => filesProblem([problem], { name, status });
  expect([of("api"), of("ap"), of("api", "failed")]).toEqual([problem, undefined, undefined]);
  const relative = { ...problem, file: "teams/api/config.yaml" };
  expect(filesProblem([relative], { name: "api", status: "active" })).toBe(relative);
});

test("a team from a template gets a name that is free for all of it", () => {
  const agents = ["lab", "lab-scout"].map((name) => ({ name, description: "" }));
  const template: TemplateInfo = { name: "lab", description: "", agents, request: "" };
  expect(freeName(["main"], template)).toBe("lab");
  expect(freeName(["lab", "lab-2-scout"], template)).toBe("lab-3");
  expect(taken(["bees-scout"], template, "bees")).toEqual(["bees-scout"]);
});
