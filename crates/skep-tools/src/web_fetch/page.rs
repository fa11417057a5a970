//! A page as markdown or as plain text: what a reader would see, links absolute.

use std::rc::Rc;

use htmd::HtmlToMarkdown;
use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use markup5ever_rcdom::{Handle, Node, NodeData};
use url::Url;

use super::tree::{self, Excess};

/// Levels of elements that are kept: browsers lay out no more than 512, pages that people write
/// have fewer than 100, and the library walks them on the stack.
const DEEPEST: usize = 128;
/// Characters of a title.
const TITLE: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageForm {
    Markdown,
    Text,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenderedPage {
    pub title: String,
    pub text: String,
    /// Elements beneath too many others were left out.
    pub deep: bool,
}

/// Not for an async thread.
pub(super) fn render(html: &str, url: &Url, form: PageForm) -> Result<RenderedPage, Excess> {
    let document = tree::parse(html)?;
    let mut pruned = Pruned { title: String::new(), base: url.clone(), deep: false };
    pruned.prune(&document);
    let text = match form {
        PageForm::Markdown => HtmlToMarkdown::new().tree_to_markdown(&document),
        PageForm::Text => plain_text(&document),
    };
    Ok(RenderedPage { title: pruned.title, text, deep: pruned.deep })
}

/// What was learned of a page while all that no reader sees was taken out.
struct Pruned {
    title: String,
    /// What relative addresses are relative to.
    base: Url,
    deep: bool,
}

impl Pruned {
    /// Without recursion: nobody knows yet how deep it is.
    fn prune(&mut self, document: &Handle) {
        let mut left = vec![(Rc::clone(document), 0)];
        while let Some((node, depth)) = left.pop() {
            if let NodeData::Element { .. } = node.data {
                self.look_at(&node);
            }
            let mut children = node.children.borrow_mut();
            children.retain(|child| !is_unseen(child));
            let texts = |child: &Handle| matches!(child.data, NodeData::Text { .. });
            if depth >= DEEPEST && !children.iter().all(texts) {
                self.deep = true;
                children.retain(texts);
            }
            // In the order of the page, so that its first title and base count.
            left.extend(children.iter().rev().map(|child| (Rc::clone(child), depth + 1)));
        }
    }

    fn look_at(&mut self, node: &Node) {
        let NodeData::Element { name, attrs, .. } = &node.data else { return };
        let mut attrs = attrs.borrow_mut();
        match &*name.local {
            "title" if self.title.is_empty() => {
                let mut title = String::new();
                for child in node.children.borrow().iter() {
                    if let NodeData::Text { contents } = &child.data {
                        title.push_str(&contents.borrow());
                    }
                }
                let words: Vec<&str> = title.split_whitespace().collect();
                self.title = skep_scrub::known().beginning(&words.join(" "), TITLE);
                node.children.borrow_mut().clear();
            }
            "title" => node.children.borrow_mut().clear(),
            "base" => {
                let href = value(&mut attrs, "href");
                if let Some(base) = href.and_then(|href| self.base.join(href).ok()) {
                    self.base = base;
                }
            }
            "a" => {
                if let Some(href) = value(&mut attrs, "href") {
                    *href = self.absolute(href);
                }
            }
            "img" => {
                if let Some(src) = value(&mut attrs, "src") {
                    *src = self.absolute(src);
                }
            }
            _ => {}
        }
    }

    /// Empty where it leads to no page: scripts, data in the address.
    fn absolute(&self, address: &str) -> StrTendril {
        let found = self.base.join(address.trim()).ok();
        let usable = |url: &Url| matches!(url.scheme(), "http" | "https" | "mailto" | "tel");
        found.filter(usable).map(|url| StrTendril::from(url.as_str())).unwrap_or_default()
    }
}

fn value<'a>(attrs: &'a mut [Attribute], wanted: &str) -> Option<&'a mut StrTendril> {
    let found = attrs.iter_mut().find(|attr| &*attr.name.local == wanted);
    found.map(|attr| &mut attr.value)
}

/// Code, and what its page hides.
fn is_unseen(node: &Handle) -> bool {
    let NodeData::Element { name, attrs, .. } = &node.data else {
        return !matches!(node.data, NodeData::Text { .. });
    };
    let hidden = || {
        let attrs = attrs.borrow();
        let of = |wanted: &str| attrs.iter().find(|attr| &*attr.name.local == wanted);
        let styled = of("style").is_some_and(|style| hides(&style.value));
        of("hidden").is_some() || styled || (&*name.local == "dialog" && of("open").is_none())
    };
    let code = matches!(
        &*name.local,
        "script"
            | "style"
            | "noscript"
            | "template"
            | "svg"
            | "iframe"
            | "object"
            | "embed"
            | "canvas"
            | "meta"
            | "link"
    );
    code || hidden()
}

/// Whether the style of an element keeps people from seeing it: a place for text that only a model
/// is to read.
fn hides(style: &str) -> bool {
    style.split(';').any(|declaration| {
        let Some((property, value)) = declaration.split_once(':') else { return false };
        let value = value.split('!').next().unwrap_or_default().trim().to_ascii_lowercase();
        match property.trim().to_ascii_lowercase().as_str() {
            "display" => value == "none",
            "visibility" => value == "hidden" || value == "collapse",
            "opacity" | "font-size" => value.trim_end_matches(char::is_alphabetic) == "0",
            _ => false,
        }
    })
}

/// What comes next of a page.
enum Walk {
    Enter(Handle),
    Leave(Handle),
}

/// Blocks on lines of their own, preformatted text as it is.
fn plain_text(document: &Handle) -> String {
    let mut text = PlainText::default();
    let mut left = vec![Walk::Enter(Rc::clone(document))];
    while let Some(step) = left.pop() {
        match step {
            Walk::Enter(node) => {
                text.enter(&node);
                left.push(Walk::Leave(Rc::clone(&node)));
                let children = node.children.borrow();
                left.extend(children.iter().rev().map(|child| Walk::Enter(Rc::clone(child))));
            }
            Walk::Leave(node) => text.leave(&node),
        }
    }
    text.out.trim().to_owned()
}

#[derive(Default)]
struct PlainText {
    out: String,
    /// Preformatted elements that are open.
    pre: usize,
}

impl PlainText {
    fn enter(&mut self, node: &Node) {
        match &node.data {
            NodeData::Text { contents } if self.pre > 0 => self.out.push_str(&contents.borrow()),
            NodeData::Text { contents } => self.words(&contents.borrow()),
            NodeData::Element { name, .. } => match &*name.local {
                "br" => self.out.push('\n'),
                "pre" => {
                    self.pre += 1;
                    self.lines(2);
                }
                "li" => {
                    self.lines(1);
                    self.out.push_str("- ");
                }
                "td" | "th" if !self.out.ends_with('\n') => self.out.push('\t'),
                tag => self.lines(lines_around(tag)),
            },
            _ => {}
        }
    }

    fn leave(&mut self, node: &Node) {
        let NodeData::Element { name, .. } = &node.data else { return };
        if &*name.local == "pre" {
            self.pre = self.pre.saturating_sub(1);
            self.lines(2);
        }
        self.lines(lines_around(&name.local));
    }

    /// At least so many line ends.
    fn lines(&mut self, count: usize) {
        if count == 0 || self.out.is_empty() {
            return;
        }
        self.out.truncate(self.out.trim_end_matches([' ', '\t']).len());
        let there = self.out.len() - self.out.trim_end_matches('\n').len();
        self.out.extend(std::iter::repeat_n('\n', count.saturating_sub(there)));
    }

    fn words(&mut self, text: &str) {
        let blank = |c: char| c.is_ascii_whitespace();
        let at_start = self.out.is_empty() || self.out.ends_with([' ', '\n', '\t']);
        if text.starts_with(blank) && !at_start {
            self.out.push(' ');
        }
        for (n, word) in text.split(blank).filter(|word| !word.is_empty()).enumerate() {
            if n > 0 {
                self.out.push(' ');
            }
            self.out.push_str(word);
        }
        if text.ends_with(blank) && !self.out.ends_with([' ', '\n', '\t']) {
            self.out.push(' ');
        }
    }
}

fn lines_around(tag: &str) -> usize {
    match tag {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table"
        | "blockquote" | "figure" => 2,
        "div" | "section" | "article" | "header" | "footer" | "main" | "nav" | "aside" | "tr"
        | "dt" | "dd" | "form" | "fieldset" | "hr" | "address" | "details" | "summary"
        | "figcaption" | "caption" | "option" => 1,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
