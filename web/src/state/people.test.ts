import { expect, test, vi } from "vitest";
import { createPeople } from "./people";

test("people by their name, tokens by theirs or by the beginning of their id", async () => {
  let asked = 0;
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async () => {
    asked += 1;
    return Response.json({ tokens: [{ id: "01a1e517b8637997", name: "ci" }] });
  });
  const unseen = createPeople(false);
  expect(unseen("token:01a1e517b8637997")).toBe("token 01a1e517");
  expect(asked).toBe(0);
  const named = createPeople(true);
  expect(["person:Ines: A", "agent:main"].map(named)).toEqual(["Ines: A", "agent:main"]);
  expect(named("token:01a1e517b8637997")).toBe("token 01a1e517");
  await vi.waitFor(() => expect(named("token:01a1e517b8637997")).toBe("ci"));
  expect(named("token:ffffffffffffffff")).toBe("token ffffffff");
  expect(asked).toBe(1);
});
