// Takes a text apart, in a time that grows with its length alone: whoever writes it, a model too,
// must not be able to make a page stand still. What no person writes stays plain text.

import { Lexer, type Token, Tokenizer, type Tokens, type TokensList } from "marked";

/** A text no person reads is not worth the time to take it apart. */
const LONGEST = 100_000;
/** Marks in one line that are looked at: each is compared with all that come after it. */
const MARKS = 100;
/** Quotes and lists inside each other. */
const DEEPEST = 12;
const COLUMNS = 40;
/** Short rows are filled up to the width of the table. */
const CELLS = 10_000;

/** An address may have an apostrophe, between letters. */
const ADDRESS_END = /[\s<]|\\?(?:["“”«»`]|'(?!\w))/;

export function lex(text: string): Token[] {
  if (text.length > LONGEST) return [{ type: "code", raw: text, text }];
  const options = { gfm: true, breaks: true, tokenizer: new BoundedTokenizer() };
  return new BoundedLexer(options).lex(text);
}

class BoundedLexer extends Lexer {
  #depth = 0;

  override blockTokens(src: string, tokens = [] as Token[] as TokensList, clipped?: boolean) {
    this.#depth += 1;
    if (this.#depth <= DEEPEST) super.blockTokens(src, tokens, clipped);
    else tokens.push({ type: "paragraph", raw: src, text: src, tokens: [plain(src)] });
    this.#depth -= 1;
    return tokens;
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (marks(src) <= MARKS) return super.inlineTokens(src, tokens);
    for (const [at, line] of src.split("\n").entries()) {
      if (at > 0) tokens.push({ type: "br", raw: "\n" });
      if (marks(line) > MARKS) tokens.push(plain(line));
      else super.inlineTokens(line, tokens);
    }
    return tokens;
  }
}

class BoundedTokenizer extends Tokenizer {
  override table(src: string): Tokens.Table | undefined {
    // The second line says whether it is one. Without a look at it, all lines are read each time.
    const [, second = ""] = src.split("\n", 2);
    if (!/^[ :|-]*\|[ :|-]*$/.test(second)) return undefined;
    const columns = second.split("|").length;
    const lines = src.split("\n\n", 1)[0]?.split("\n").length ?? 0;
    return columns > COLUMNS || columns * lines > CELLS ? undefined : super.table(src);
  }

  /** A bare address ends where a quote does: in JSON and code it stands between two. */
  override url(src: string): Tokens.Link | undefined {
    const end = src.search(ADDRESS_END);
    return super.url(end < 0 ? src : src.slice(0, end));
  }
}

function plain(text: string): Token {
  return { type: "text", raw: text, text };
}

const marks = (text: string) => text.match(/[*_~[@]/g)?.length ?? 0;
