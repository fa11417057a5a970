// Vault & access: names, owners, hosts and uses of the entries, and the tokens. A value is typed
// here and never shown: the hive does not send it.

import { createSignal, For, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { post, put, putNew, query, Refusal, remove, url } from "../api/http";
import type { SecretScan, TokenInfo, Tokens, VaultEntry, VaultInfo } from "../api/types";
import { clock, plural } from "../text/format";
import { inert } from "../text/visible";
import { usePage } from "./context";
import { Confirm, Dialog } from "./Dialog";
import { createAction, createReading } from "./hooks";
import { Notice, PageBody, Problem, Section, Select, Unavailable } from "./parts";

export function Vault() {
  const [changed, setChanged] = createSignal(0);
  const stale = () => setChanged(changed() + 1);
  const vault = createReading<VaultInfo>(() => "/vault", changed);
  const [edited, edit] = createSignal<VaultEntry | "new">();
  const [deleted, setDeleted] = createSignal<VaultEntry>();
  const [rotating, setRotating] = createSignal(false);
  const action = createAction();
  const text = () => {
    const { entries = [], key, key_file: file = "" } = vault.latest ?? {};
    const sealed = key ? `sealed with the key ${key} in ${file}` : "no key yet";
    return `${entries.length === 1 ? "1 entry" : `${entries.length} entries`}, ${sealed}.`;
  };
  const inFiles = () => vault.latest?.in_files.length ?? 0;
  return (
    <PageBody
      title="Vault & access"
      text={text()}
      beside={
        <>
          <button class="btn bare hide-s" onClick={() => setRotating(true)}>
            Rotate vault key…
          </button>
          <button class="btn" onClick={() => edit("new")}>
            Add entry
          </button>
        </>
      }
    >
      <div class="vault">
        <Notice text={vault.error ?? vault.latest?.problem ?? action.problem()} marked />
        <Show when={inFiles()}>
          <div class="notice" role="status">
            <span class="grow">
              {plural(inFiles(), "profile")} with a key in plain text in{" "}
              <code>keys.env</code> or <code>providers.yaml</code>.
            </span>
            <button
              class="btn"
              aria-disabled={action.busy()}
              onClick={() => void action.run(() => post("/vault/move", {}).then(stale))}
            >
              Move to vault
            </button>
          </div>
        </Show>
        <Section id="entries-h" title="Entries">
          <Entries of={vault.latest?.entries ?? []} edit={edit} />
          <p class="small faint">
            Agents write <code>{"{{vault:NAME}}"}</code> in a web request, a model profile has{" "}
            <code>api_key: vault:NAME</code>; the hive fills the value in, and nobody is shown it.
            In a terminal: <code>skep vault set NAME</code>
          </p>
        </Section>
        <Scan />
        <TokenList />
      </div>
      <Show when={edited()} keyed>
        {(entry) => (
          <EntryForm
            entry={entry === "new" ? undefined : entry}
            close={() => edit(undefined)}
            saved={stale}
            remove={setDeleted}
          />
        )}
      </Show>
      <Show when={deleted()} keyed>
        {(entry) => (
          <Confirm
            label="Delete entry"
            title={`Delete ${entry.name} of ${entry.agent ?? "the whole hive"}?`}
            acts={[["Delete", () => remove(entryPath(entry)).then(stale)]]}
            close={() => setDeleted(undefined)}
          >
            {users(entry)} stop working until it is set again. The value cannot be brought back.
          </Confirm>
        )}
      </Show>
      <Show when={rotating()}>
        <Confirm
          label="Rotate vault key"
          title="Rotate the vault key?"
          acts={[["Rotate", () => post("/vault/rotate", {}).then(stale)]]}
          close={() => setRotating(false)}
        >
          Every entry is sealed with a new key. The old key stays in{" "}
          {inert(vault.latest?.key_file ?? "its file")}: other homes and backups may need it.
        </Confirm>
      </Show>
    </PageBody>
  );
}

const entryPath = ({ name, agent }: { name: string; agent?: string | null | undefined }) =>
  url`/vault/entries/${name}` + query({ agent: agent ?? undefined });

/** Who goes without it when it is gone. */
function users({ agent, profiles }: VaultEntry): string {
  const calls = `alls of ${agent ? `the agent ${agent}` : "agents"} that use it`;
  const count = profiles.length;
  return count ? `${plural(count, "model profile")} and c${calls}` : `C${calls}`;
}

function Entries(props: { of: VaultEntry[]; edit: (entry: VaultEntry) => void }) {
  const uses = (entry: VaultEntry) => {
    const by = entry.secret ? undefined : "set by the agent";
    const profiles = entry.profiles.length ? `profile ${entry.profiles.join(", ")}` : undefined;
    return [profiles, by, entry.problem].filter(Boolean).join(" · ");
  };
  return (
    <table class="tbl stack">
      <thead>
        <tr>
          <th>Name</th>
          <th>Scope</th>
          <th>Allowed hosts</th>
          <th class="num">Last use</th>
          <th class="num">Set</th>
          <th>
            <span class="sr">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        <For each={props.of} fallback={<tr><td colspan="6">No entries yet.</td></tr>}>
          {(entry) => (
            <tr>
              <td class="full">
                <code>{inert(entry.name)}</code>{" "}
                <span class="small faint">{inert(uses(entry))}</span>
              </td>
              <td>{inert(entry.agent ?? "hive")}</td>
              <td>{inert(entry.hosts.join(", ") || "no hosts")}</td>
              <td class="num muted">
                {entry.used_at ? `used ${clock(entry.used_at)}` : "never used"}
              </td>
              <td class="num faint hide-s">{clock(entry.set_at)}</td>
              <td>
                <button
                  class="btn"
                  aria-label={`Edit ${entry.name} of ${entry.agent ?? "the hive"}`}
                  onClick={() => props.edit(entry)}
                >
                  Edit…
                </button>
              </td>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  );
}

const HIVE = "Whole hive";

function EntryForm(props: {
  /** Nothing: a new one. */
  entry: VaultEntry | undefined;
  close: () => void;
  saved: () => void;
  remove: (entry: VaultEntry) => void;
}) {
  const { hive } = usePage();
  const action = createAction();
  const { entry } = props;
  const hosts = entry?.hosts.join("\n") ?? "";
  const [form, set] = createStore({ name: "", scope: entry?.agent ?? HIVE, value: "", hosts });
  const agents = () => (hive.state.snapshot?.agents ?? []).map(({ name }) => name);
  const agent = () => (form.scope === HIVE ? undefined : form.scope);
  const path = () => entryPath({ name: entry?.name ?? form.name.trim(), agent: agent() });
  /** The path of an entry that turned out to be there: it is replaced when asked for once more. */
  const [taken, setTaken] = createSignal<string>();
  const replaces = () => taken() !== undefined && taken() === path();
  const done = () => {
    set("value", "");
    props.saved();
    props.close();
  };
  async function save(): Promise<void> {
    const listed = form.hosts.split(/[\s,]+/).filter(Boolean);
    const value = form.value || undefined;
    if (entry) return put(path(), { value, hosts: listed }).then(done);
    // Of one that is there the hosts stay, unless others are listed.
    const hosts = replaces() && !listed.length ? undefined : listed;
    if (replaces()) return put(path(), { value, hosts }).then(done);
    try {
      await putNew(path(), { value, hosts });
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== "vault_exists") throw error;
      setTaken(path());
      return;
    }
    done();
  }
  return (
    <Dialog class="entry" label={entry ? `Edit ${entry.name}` : "Add entry"} close={props.close}>
      <h2>{entry ? inert(entry.name) : "Add entry"}</h2>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run(save);
        }}
      >
        <Show when={!entry}>
          <label for="entry-name">Name</label>
          <input
            class="field mono"
            id="entry-name"
            autocomplete="off"
            spellcheck={false}
            value={form.name}
            onInput={(event) => set("name", event.currentTarget.value)}
          />
          <label for="entry-scope">Scope</label>
          <Select
            id="entry-scope"
            of={[HIVE, ...agents()]}
            words={(one) => (one === HIVE ? one : `Agent ${one}`)}
            chosen={form.scope}
            choose={(scope) => set("scope", scope)}
          />
        </Show>
        <label for="entry-value">{entry ? "New value" : "Value"}</label>
        <input
          class="field"
          id="entry-value"
          type="password"
          autocomplete="off"
          placeholder={entry ? "Unchanged" : "Paste the value"}
          value={form.value}
          onInput={(event) => set("value", event.currentTarget.value)}
        />
        <p class="hint">
          One line, at least 8 characters. Stored encrypted; nobody can show it again. For several
          lines: <code>skep vault set NAME {"<"} FILE</code>
        </p>
        <label for="entry-hosts">Allowed hosts, one per line</label>
        <textarea
          class="field mono"
          id="entry-hosts"
          rows={2}
          placeholder="api.example.org"
          value={form.hosts}
          onInput={(event) => set("hosts", event.currentTarget.value)}
        />
        <p class="hint">
          The tool web_fetch sends the value to these hosts alone; with none, to nobody. Model
          profiles need no hosts.
        </p>
        <Show when={replaces()}>
          <p class="notice" role="alert">
            {inert(form.name.trim())} is there already, for{" "}
            {agent() ? `the agent ${inert(agent() ?? "")}` : "the whole hive"}. If you replace its
            value, the old one cannot be brought back.
          </p>
        </Show>
        <div class="acts">
          <button
            class="btn"
            classList={{ go: !replaces(), stop: replaces() }}
            aria-disabled={action.busy()}
          >
            {replaces() ? "Replace value" : "Save"}
          </button>
          <button type="button" class="btn bare" onClick={props.close}>
            Cancel
          </button>
          <Show when={entry}>
            <button
              type="button"
              class="btn bare stop"
              onClick={() => {
                props.close();
                if (entry) props.remove(entry);
              }}
            >
              Delete…
            </button>
          </Show>
          <Unavailable />
        </div>
        <Problem text={action.problem()} />
      </form>
    </Dialog>
  );
}

function Scan() {
  const action = createAction();
  const [scan, setScan] = createSignal<SecretScan>();
  return (
    <Section id="scan-h" title="Secrets in plain text">
      <div class="row">
        <p class="grow small faint">
          Searches the files and the database of this hive for keys, tokens and values of the
          vault that can be read there. Shows where they are, never the value.
        </p>
        <button
          class="btn"
          aria-disabled={action.busy()}
          onClick={() => void action.run(() => post<SecretScan>("/secrets/scan", {}).then(setScan))}
        >
          {action.busy() ? "Scanning…" : "Scan now"}
        </button>
      </div>
      <Problem text={action.problem()} />
      <Show when={scan()} keyed>
        {({ files, found, skipped }) => (
          <>
            <p role="status">
              {found.length ? plural(found.length, "secret") : "Nothing found"} in{" "}
              {plural(files, "file")} and the database.
            </p>
            <Show when={found.length}>
              <table class="tbl stack">
                <thead>
                  <tr>
                    <th>File</th>
                    <th>Line or row</th>
                    <th>Secret</th>
                    <th>Have it replaced by</th>
                  </tr>
                </thead>
                <tbody>
                  <For each={found}>
                    {(one) => (
                      <tr>
                        <td class="full">
                          <code>{inert(one.file)}</code>
                        </td>
                        <td>{inert(one.place)}</td>
                        <td>{inert(one.secret)}</td>
                        <td>{inert(one.rotate)}</td>
                      </tr>
                    )}
                  </For>
                </tbody>
              </table>
            </Show>
            <Notice text={skipped.length ? `Not read: ${skipped.join("; ")}` : undefined} />
          </>
        )}
      </Show>
    </Section>
  );
}

function TokenList() {
  const [changed, setChanged] = createSignal(0);
  const list = createReading<Tokens>(() => "/tokens", changed);
  const [revoked, setRevoked] = createSignal<TokenInfo>();
  const revoke = ({ id }: TokenInfo) =>
    remove(url`/tokens/${id}`).then(() => setChanged(changed() + 1));
  const valid = () => (list.latest?.tokens ?? []).filter((token) => token.revoked_at == null);
  return (
    <Section id="tokens-h" title="Tokens">
      <Notice text={list.error} />
      <ul class="profiles">
        <For each={valid()}>
          {(token) => (
            <li>
              <div class="row">
                <b>{inert(token.name)}</b>
                <span class="grow clip faint">
                  {token.role}
                  {inert(token.prefix ?? token.agent ?? "").replace(/^(?=.)/, " ")}, made{" "}
                  {clock(token.created_at)}
                </span>
                <button
                  class="btn"
                  aria-label={`Revoke ${token.name}`}
                  onClick={() => setRevoked(token)}
                >
                  Revoke…
                </button>
              </div>
            </li>
          )}
        </For>
      </ul>
      <p class="small faint">
        New tokens are made in a terminal: <code>skep token new NAME --role user</code>
      </p>
      <Show when={revoked()} keyed>
        {(token) => (
          <Confirm
            label="Revoke token"
            title={`Revoke ${token.name}?`}
            acts={[["Revoke", () => revoke(token)]]}
            close={() => setRevoked(undefined)}
          >
            Whoever uses it is signed out at once. This cannot be undone.
          </Confirm>
        )}
      </Show>
    </Section>
  );
}
