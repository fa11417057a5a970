import { expect, test } from "vitest";
import { Cutter, type Sent } from "./sse";

const text = [
  ": hello\n\nevent: turn_end\nid: 7\n",
  'data: {"a":1}\n\n',
  "data: one\ndata: two\r\n\r\nevent: x\n\ndata\n\n",
].join("");
const expected: Sent[] = [
  { event: "turn_end", id: "7", data: '{"a":1}' },
  { event: "message", data: "one\ntwo" },
  { event: "message", data: "" },
];

test("any cut of the stream gives the same events", () => {
  for (let at = 0; at <= text.length; at++) {
    const cutter = new Cutter();
    const got = [...cutter.push(text.slice(0, at)), ...cutter.push(text.slice(at))];
    expect(got, `cut at ${at}`).toEqual(expected);
  }
});

test("an event without its end is not given out", () => {
  expect(new Cutter().push("data: half\n")).toEqual([]);
});
