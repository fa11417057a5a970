import { expect, test } from "vitest";
import { formProblem, formWords, isByHand } from "./profile";

const whole = { kind: "anthropic", name: "x", address: "", key: "sk-0123456789", model: "m" };

test("what the form lacks is said in its words", () => {
  const cases: [object, string | undefined][] = [
    [{}, undefined],
    [{ name: " " }, "Enter a name."],
    [{ model: "" }, "Enter the model."],
    [{ key: "" }, "Enter the key."],
    [{ kind: "ollama", key: "" }, undefined],
    [{ kind: "server" }, "Enter the address."],
    [{ kind: "server", key: "" }, "Enter the address."],
    [{ kind: "server", address: "http://127.0.0.1:1/v1", key: "" }, undefined],
    [{ address: "127.0.0.1:8080" }, "The address begins with http:// or https://."],
  ];
  for (const [over, problem] of cases) expect(formProblem({ ...whole, ...over })).toBe(problem);
});

test("what is saved stays while its field is empty", () => {
  const before = { address: "https://a.example", key: "keys.env" };
  const problem = (over: object) => formProblem({ ...whole, key: "", ...over }, before);
  expect(problem({})).toBeUndefined();
  expect(problem({ address: "https://a.example" })).toBeUndefined();
  expect(problem({ address: "https://b.example" })).toMatch(/^Enter the key too/);
  expect(problem({ kind: "server" })).toBeUndefined();
  expect(formProblem({ ...whole, key: "" }, { key: "none" })).toBe("Enter the key.");
});

test("names of the file are names of the form", () => {
  expect(formWords("is api_url right?")).toBe("is the address right?");
  expect(formWords("check the profile's api_url; the key")).toBe("check the address; the key");
  expect(formWords("check `api_key`")).toBe("check the key");
});

test("a key that was not saved here tells that the profile was not, either", () => {
  const keys = ["written out in providers.yaml", "OPENAI_API_KEY of the environment", "keys.env"];
  expect([...keys, "none"].map((key) => isByHand({ key }))).toEqual([true, true, false, false]);
});
