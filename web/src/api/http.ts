// Requests to the hive. The cookie alone opens nothing: the key of this origin goes with it.

import type { Problem } from "./types";

const KEY = "skep.key";
/**
 * Of whoever is signed in in this tab. When another tab of the browser signs somebody else in,
 * their cookie and this key open nothing: nothing is sent under another name.
 */
let own: string | null = null;

/** Why a request failed, in the hive's own words. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** Whether asking again later may help. */
  get passing(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 507 || this.status === 429;
  }
}

/** From here on this tab is whose key is stored; `changed` when that is somebody else's. */
export function useStoredKey(changed: () => void): string | null {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === KEY && newValue !== null && newValue !== own) changed();
  });
  return (own = localStorage.getItem(KEY));
}

/** Whether this browser keeps anything here: asked before a link is used up. */
export function mayStore(): boolean {
  try {
    localStorage.setItem("skep.try", "");
    localStorage.removeItem("skep.try");
    return true;
  } catch {
    return false;
  }
}

export function keep(key: string): void {
  localStorage.setItem(KEY, key);
}

export function forget(): void {
  if (localStorage.getItem(KEY) === own) localStorage.removeItem(KEY);
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (own) headers.set("X-Skep-Key", own);
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, { ...init, headers, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw away();
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

export function post<T>(path: string, body: unknown, idempotency?: string): Promise<T> {
  return give("POST", path, body, idempotency ? { "Idempotency-Key": idempotency } : {});
}

export function put<T>(path: string, body: unknown): Promise<T> {
  return give("PUT", path, body, {});
}

/** `put` that replaces nothing: refused where something is there already. */
export function putNew<T>(path: string, body: unknown): Promise<T> {
  return give("PUT", path, body, { "If-None-Match": "*" });
}

export function patch<T>(path: string, body: unknown): Promise<T> {
  return give("PATCH", path, body, {});
}

async function give<T>(method: string, path: string, body: unknown, more: object): Promise<T> {
  const headers = { "Content-Type": "application/json", ...more };
  const response = await request(path, { method, headers, body: JSON.stringify(body) });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export async function remove(path: string): Promise<void> {
  await request(path, { method: "DELETE" });
}

/** Saves what the hive answers as a file of the person's. */
export async function download(path: string, name: string): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await request(path)).blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function refusal(response: Response): Promise<Refusal> {
  const { status } = response;
  const problem = (await response.json().catch(() => null)) as Partial<Problem> | null;
  // Not the hive's own answer: a proxy says that the hive is away.
  if (typeof problem?.code !== "string" && [502, 503, 504].includes(status)) return away();
  const text = problem?.detail ?? problem?.title ?? `The hive answered ${status}.`;
  return new Refusal(status, problem?.code ?? "unknown", text);
}

function away(): Refusal {
  return new Refusal(0, "offline", "The hive cannot be reached.");
}

/** An address: each value put into it is encoded as one part. */
export function url(parts: TemplateStringsArray, ...values: string[]): string {
  return String.raw({ raw: parts }, ...values.map(encodeURIComponent));
}

/** A query string without the parts that were not given. */
export function query(parts: Record<string, string | number | undefined>): string {
  const given = Object.entries(parts).filter(([, value]) => value !== undefined && value !== "");
  const pairs = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length ? `?${pairs.join("&")}` : "";
}
