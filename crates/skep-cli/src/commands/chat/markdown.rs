//! Markdown as lines of a terminal. Pure: the same text, width and look give the same lines, so
//! that a text that still grows is simply rendered again.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::code;
use super::table::MarkdownTable;
use crate::print::text::{Colour, Style, TermInfo, TextLine, TextSpan, line_width, width, wrap};

/// The narrowest text column; deeper nesting loses its margin.
const ROOM: usize = 10;

pub fn render(text: &str, term: &TermInfo) -> Vec<TextLine> {
    let extensions =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = MarkdownRenderer { term: *term, ..MarkdownRenderer::default() };
    for event in Parser::new_ext(text, extensions) {
        page.take(event);
    }
    page.end_paragraph();
    while page.lines.last().is_some_and(|line| line_width(line) == 0) {
        page.lines.pop();
    }
    page.lines
}

/// The prefix of a block's lines.
struct Margin {
    first: Option<TextSpan>,
    rest: TextSpan,
}

#[derive(Default)]
struct MarkdownRenderer {
    term: TermInfo,
    lines: Vec<TextLine>,
    margins: Vec<Margin>,
    /// The text of the open block.
    words: Vec<TextSpan>,
    /// Styles of the emphases around the words.
    styles: Vec<Style>,
    /// The next number of each open list; none for bullets.
    lists: Vec<Option<u64>>,
    /// A blank line belongs before the next block.
    gap: bool,
    /// The language of the open code block, and its text.
    code: Option<(String, String)>,
    /// The address of each open link, and where its text began.
    links: Vec<(String, usize)>,
    table: Option<MarkdownTable>,
}

impl MarkdownRenderer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.say(&text),
            },
            Event::Code(code) => {
                let style = Style { colour: Some(Colour::Cyan), ..self.style() };
                let quoted = if self.term.colour { code.to_string() } else { format!("`{code}`") };
                self.words.push(TextSpan::new(quoted, style));
            }
            Event::SoftBreak => self.say(" "),
            Event::HardBreak => self.say("\n"),
            Event::Rule => {
                self.end_paragraph();
                let rule = self.term.sign("─", "-").repeat(self.room().min(40));
                self.block(vec![vec![TextSpan::new(rule, Style::FAINT)]]);
            }
            Event::TaskListMarker(done) => self.say(if done { "[x] " } else { "[ ] " }),
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.say(&text),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.end_paragraph();
                let top = matches!(level, HeadingLevel::H1 | HeadingLevel::H2);
                let style =
                    Style { bold: true, underline: level == HeadingLevel::H1, ..self.style() };
                self.styles.push(Style { colour: top.then_some(Colour::Blue), ..style });
                if !self.term.colour {
                    self.say(&format!("{} ", "#".repeat(level as usize)));
                }
            }
            Tag::CodeBlock(kind) => {
                self.end_paragraph();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                if !language.is_empty() {
                    self.block(vec![vec![TextSpan::new(format!("  {language}"), Style::FAINT)]]);
                    self.gap = false;
                }
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.end_paragraph();
                // A list inside an item follows its text closely.
                self.gap &= self.lists.is_empty();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::BlockQuote(_) => {
                self.end_paragraph();
                self.close_gap();
                let bar = TextSpan::new(self.term.sign("▌ ", "> "), Style::FAINT);
                self.indent(Margin { first: None, rest: bar });
            }
            Tag::Emphasis => self.styles.push(Style { italic: true, ..self.style() }),
            Tag::Strong => self.styles.push(Style { bold: true, ..self.style() }),
            Tag::Strikethrough => self.styles.push(Style { struck: true, ..self.style() }),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.words.len()));
                self.styles.push(Style { underline: true, ..self.style() });
            }
            Tag::Image { dest_url, .. } => {
                self.say("[image] ");
                self.links.push((dest_url.to_string(), self.words.len()));
                self.styles.push(self.style());
            }
            Tag::Table(alignments) => {
                self.end_paragraph();
                self.table = Some(MarkdownTable { alignments, rows: Vec::new() });
            }
            Tag::TableRow | Tag::TableHead => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_paragraph(),
            TagEnd::Heading(_) => {
                self.end_paragraph();
                self.styles.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_item();
                self.margins.pop();
                self.gap = false;
            }
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                self.margins.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let words = std::mem::take(&mut self.words);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(words);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.render(self.room(), &self.term);
                    self.block(lines);
                }
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn say(&mut self, text: &str) {
        self.words.push(TextSpan::new(text, self.style()));
    }

    /// Columns left of the margins.
    fn room(&self) -> usize {
        let taken: usize = self.margins.iter().map(|margin| width(&margin.rest.text)).sum();
        self.term.width.saturating_sub(taken)
    }

    fn indent(&mut self, margin: Margin) {
        if self.room() >= ROOM + width(&margin.rest.text) {
            self.margins.push(margin);
            return;
        }
        // Every margin is popped again, so there is one that takes no room.
        self.margins.push(Margin { first: None, rest: TextSpan::plain("") });
        self.words.extend(margin.first);
    }

    fn start_item(&mut self) {
        self.end_paragraph();
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                let sign = format!("{number}. ");
                *number += 1;
                sign
            }
            _ => self.term.sign("• ", "- ").to_owned(),
        };
        let rest = TextSpan::plain(" ".repeat(width(&sign)));
        self.indent(Margin { first: Some(TextSpan::plain(sign)), rest });
    }

    /// An item without any text still shows its sign.
    fn end_item(&mut self) {
        if self.words.is_empty() && self.margins.last().is_some_and(|m| m.first.is_some()) {
            self.block(vec![Vec::new()]);
        }
        self.end_paragraph();
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, from)) = self.links.pop() else { return };
        let shown: String = self.words.iter().skip(from).map(|span| span.text.as_str()).collect();
        let bare = address.strip_prefix("mailto:").unwrap_or(&address);
        // The address is shown too unless it equals the text.
        if !address.is_empty() && shown != bare {
            let style = Style { underline: false, ..Style::FAINT };
            self.words.push(TextSpan::new(format!(" ({address})"), style));
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let code = code.strip_suffix('\n').unwrap_or(&code);
        let room = self.room().saturating_sub(2);
        let lines = wrap(&code::spans(code, &language), room).into_iter().map(|mut line| {
            line.insert(0, TextSpan::plain("  "));
            line
        });
        let lines = lines.collect();
        self.block(lines);
    }

    fn end_paragraph(&mut self) {
        if self.words.is_empty() {
            return;
        }
        let words = std::mem::take(&mut self.words);
        let lines = wrap(&words, self.room());
        self.block(lines);
    }

    /// Puts finished lines below what is there, with the margins of the blocks around them.
    fn block(&mut self, lines: Vec<TextLine>) {
        self.close_gap();
        for line in lines {
            let margins = self.margins.iter_mut();
            let mut whole: TextLine =
                margins.map(|m| m.first.take().unwrap_or_else(|| m.rest.clone())).collect();
            whole.extend(line);
            self.lines.push(whole);
        }
        self.gap = true;
    }

    fn close_gap(&mut self) {
        if std::mem::take(&mut self.gap) && !self.lines.is_empty() {
            let margin: TextLine = self.margins.iter().map(|margin| margin.rest.clone()).collect();
            let blank = margin.iter().all(|span| span.text.trim().is_empty());
            self.lines.push(if blank { Vec::new() } else { margin });
        }
    }
}
