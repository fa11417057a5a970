// What a model or a person wrote, as elements. Text becomes text nodes: there is no way from a
// message to markup, to a script or to another host. Pictures of other hosts are named, not loaded.

import type { Token, Tokens } from "marked";
import { createDeferred, createMemo, For, type JSX } from "solid-js";
import { Dynamic } from "solid-js/web";
import { lex } from "../text/markdown";
import { inert } from "../text/visible";
import { Code } from "./Code";

export function Markdown(props: { text: string }) {
  // Of all that comes at once only the last is taken apart.
  const text = createDeferred(() => inert(props.text));
  // While a text grows only its last block changes: the others keep their elements.
  const tokens = createMemo<Token[]>((before) => {
    const fresh = lex(text());
    return fresh.map((token, at) => {
      const known = before[at];
      return known && known.type === token.type && known.raw === token.raw ? known : token;
    });
  }, []);
  return <For each={tokens()}>{(token) => block(token)}</For>;
}

function block(token: Token): JSX.Element {
  switch (token.type) {
    case "heading":
      return paragraph(inline(token.tokens), "head-line");
    case "code":
      return <Code text={token.text} language={(token as Tokens.Code).lang ?? ""} />;
    case "list":
      return list(token as Tokens.List);
    case "blockquote":
      return (
        <blockquote class="quote" dir="auto">
          {blocks(token.tokens)}
        </blockquote>
      );
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr class="rule" />;
    case "space":
    case "def":
      return null;
    case "paragraph":
    case "text":
      return paragraph(token.tokens ? inline(token.tokens) : token.raw);
    default:
      return paragraph(token.raw);
  }
}

function paragraph(content: JSX.Element, kind = ""): JSX.Element {
  return (
    <p class={`say ${kind}`} dir="auto">
      {content}
    </p>
  );
}

function blocks(tokens: Token[] | undefined): JSX.Element {
  return <For each={tokens ?? []}>{(token) => block(token)}</For>;
}

function list(token: Tokens.List): JSX.Element {
  return (
    <Dynamic
      component={token.ordered ? "ol" : "ul"}
      class="list say"
      dir="auto"
      start={token.ordered && token.start !== "" ? token.start : undefined}
    >
      <For each={token.items}>
        {(item) => (
          <li>
            <For each={item.tokens}>
              {(part) => {
                if (part.type === "checkbox") return span(part);
                return part.type === "text" ? inline(part.tokens ?? [part]) : block(part);
              }}
            </For>
          </li>
        )}
      </For>
    </Dynamic>
  );
}

const ALIGNED = { left: undefined, center: "mid", right: "num" };

function table(token: Tokens.Table): JSX.Element {
  const side = (at: number) => ALIGNED[token.align[at] ?? "left"];
  return (
    <div class="wide" tabindex="0" role="region" aria-label="Table">
      <table class="tbl">
        <thead>
          <tr>
            <For each={token.header}>
              {(cell, at) => (
                <th class={side(at())} dir="auto">
                  {inline(cell.tokens)}
                </th>
              )}
            </For>
          </tr>
        </thead>
        <tbody>
          <For each={token.rows}>
            {(row) => (
              <tr>
                <For each={row}>
                  {(cell, at) => (
                    <td class={side(at())} dir="auto">
                      {inline(cell.tokens)}
                    </td>
                  )}
                </For>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] | undefined): JSX.Element {
  return <For each={tokens ?? []}>{(token) => span(token)}</For>;
}

function span(token: Token): JSX.Element {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return link(token as Tokens.Link);
    case "image": {
      const image = token as Tokens.Image;
      return <span class="faint">[{`picture: ${image.text || "unnamed"}, ${image.href}`}]</span>;
    }
    case "text": {
      const text = token as Tokens.Text;
      return text.tokens ? inline(text.tokens) : entities(text.text);
    }
    case "escape":
      return token.text;
    case "checkbox":
      return <span class="task">{(token as Tokens.Checkbox).checked ? "☑ " : "☐ "}</span>;
    default:
      return token.raw;
  }
}

function link(token: Tokens.Link): JSX.Element {
  const address = safeAddress(token.href);
  if (!address) return <span>{inline(token.tokens)}</span>;
  const { host, pathname } = new URL(address);
  const leads = host || pathname;
  return (
    <>
      <a href={address} target="_blank" rel="noopener noreferrer nofollow" title={address}>
        {inline(token.tokens)}
      </a>
      {token.text.includes(leads) ? "" : <span class="faint ltr"> ({leads})</span>}
    </>
  );
}

/** An address that a click may open: of the web or of mail, nothing that runs. */
export function safeAddress(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

const ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&nbsp;": " ",
};

/** Markdown knows the entities of markup; nothing else of markup means anything here. */
function entities(text: string): string {
  return text.replaceAll(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (name) => ENTITIES[name] ?? name);
}
