// Colour in code: comments, strings and words of the language. It goes from left to right and knows
// no grammar; a language it does not know stays as it is.

export interface Piece {
  text: string;
  kind?: "comment" | "string" | "word";
}

/** More than this nobody reads for its colours. */
const LONGEST = 20_000;

const HASH = "(?<=^|\\s)#.*";
const SLASHES = "//.*|/\\*[^]*?\\*/";
const TEXT = `"(?:\\\\[^]|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'`;
const LONG_TEXT = `"""[^]*?"""|'''[^]*?'''`;
const TEMPLATE = "`(?:\\\\[^]|[^`\\\\])*`";
/** One letter in single quotes: the name of a lifetime has one alone. */
const LETTERS = `"(?:\\\\[^]|[^"\\\\])*"|'(?:\\\\[^']+|[^'\\\\\\n])'`;

const BRACES = `abstract as async await bool boolean break case catch char class const continue
  crate default defer delete do double dyn else enum export extends extern false final finally
  float fn for from func function go goto if impl implements import in instanceof int interface
  let long loop match mod move mut namespace new nil null of override package private protected
  pub public range readonly ref return self Self static string struct super switch this throw
  throws trait true try type typeof undefined union unsafe unsigned use using val var void where
  while yield`;
const WORDS = `and as assert async await begin break case class continue def del do done elif else
  elsif end ensure esac except exit export False false fi finally for from function global if
  import in is lambda local module nil None nonlocal not null or pass raise rescue return self
  source then True true try unless until when while with yield`;
const SQL = `add all alter and as begin between by case commit create cross default delete desc
  distinct drop else end exists from full group having in index inner insert into is join key left
  like limit not null on or order outer primary references returning right rollback select set
  table then union unique update values view when where with`;

const LANGUAGES: [names: string, skipped: string, words: string, flags?: string][] = [
  ["rust rs c h cpp c++ go java kotlin swift cs csharp dart", `${SLASHES}|${LETTERS}`, BRACES],
  ["js javascript jsx mjs ts typescript tsx php", `${SLASHES}|${TEXT}|${TEMPLATE}`, BRACES],
  ["py python rb ruby sh bash zsh shell console", `${HASH}|${LONG_TEXT}|${TEXT}`, WORDS],
  ["yaml yml toml ini conf env dockerfile makefile", `${HASH}|${LONG_TEXT}|${TEXT}`, "true|false"],
  ["json jsonc json5 css scss", `${SLASHES}|${TEXT}`, "true|false|null"],
  ["html xml svg", `<!--[^]*?-->|${TEXT}`, "(?!)"],
  ["sql", `--.*|/\\*[^]*?\\*/|${TEXT}`, SQL, "i"],
];

export function coloured(text: string, language: string): Piece[] {
  const known = LANGUAGES.find(([names]) => names.split(" ").includes(language.toLowerCase()));
  if (!known || text.length > LONGEST) return [{ text }];
  const [, skipped, words, flags = ""] = known;
  const word = `(?<![\\w.$-])(?:${words.replaceAll(/\s+/g, "|")})(?![\\w-])`;
  const pieces: Piece[] = [];
  let at = 0;
  for (const match of text.matchAll(new RegExp(`(${skipped})|${word}`, `gm${flags}`))) {
    if (match.index > at) pieces.push({ text: text.slice(at, match.index) });
    const quoted = /^["'`]/.test(match[0]);
    pieces.push({ text: match[0], kind: !match[1] ? "word" : quoted ? "string" : "comment" });
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push({ text: text.slice(at) });
  return pieces;
}
