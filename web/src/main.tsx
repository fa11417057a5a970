import "./styles/index.css";
import { createMemo, createSignal, onCleanup, onMount, Show } from "solid-js";
import { render } from "solid-js/web";
import { type Me, signIn } from "./api/session";
import { createHive } from "./state/hive";
import { createLive } from "./state/live";
import { needs } from "./state/needs";
import { createRoute } from "./state/route";
import { Chat } from "./view/Chat";
import { PageContext } from "./view/context";
import { headline, Home } from "./view/Home";
import { Search } from "./view/Search";
import { Shell } from "./view/Shell";
import { SignIn } from "./view/SignIn";
import { Sprite } from "./view/Sprite";

function App(props: { me: Me }) {
  const live = createLive();
  const hive = createHive(live);
  const router = createRoute();
  const [searching, setSearching] = createSignal(false);
  const waiting = createMemo(() => needs(hive.state).length);
  const chat = () => {
    const route = router.route();
    return route.page === "chat" ? route : undefined;
  };
  const title = () => (chat() ? "Chat" : "Home");

  function key(event: KeyboardEvent): void {
    const field = (event.target as HTMLElement).closest("input, textarea, [contenteditable]");
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      setSearching(true);
    }
  }
  onMount(() => {
    live.start();
    addEventListener("keydown", key);
    onCleanup(() => removeEventListener("keydown", key));
  });

  return (
    <PageContext.Provider value={{ hive, live, router, me: `${props.me.name}, ${props.me.role}` }}>
      <Title text={chat() ? `${chat()?.agent} · Skep` : `${headline(waiting())} · Skep`} />
      <Show when={live.link().state !== "out"} fallback={<SignIn why="You were signed out." />}>
        <Shell title={title()} needs={waiting()} find={() => setSearching(true)}>
          <Show when={chat()} fallback={<Home find={() => setSearching(true)} />}>
            {(route) => <Chat route={route()} find={() => setSearching(true)} />}
          </Show>
        </Shell>
        <Show when={searching()}>
          <Search close={() => setSearching(false)} />
        </Show>
      </Show>
    </PageContext.Provider>
  );
}

function Title(props: { text: string }) {
  createMemo(() => (document.title = props.text));
  return null;
}

const root = document.getElementById("root");
if (root) {
  const outcome = await signIn();
  render(
    () => (
      <>
        <Sprite />
        {"me" in outcome ? <App me={outcome.me} /> : <SignIn why={outcome.why} />}
      </>
    ),
    root,
  );
}
