import { expect, test } from "vitest";
import { matching } from "./slash";

const commands = ["/stop", "/status", "/new"].map((name) => ({ name, arguments: "", help: "" }));

test("only the beginning of a command opens the list", () => {
  const names = (text: string) => matching(text, commands).map((command) => command.name);
  expect(names("/")).toEqual(["/stop", "/status", "/new"]);
  expect(names("/st")).toEqual(["/stop", "/status"]);
  for (const other of ["", "st", "//", "/new ", "/etc/x", "hello /st"]) {
    expect(names(other), other).toEqual([]);
  }
});
