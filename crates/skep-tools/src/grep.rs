//! `grep`: lines that match a regular expression, by ripgrep's own searcher, in this process.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch,
};
use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Subject, Tool, ToolAnswer, ToolContext};
use skep_guard::workspace::{Opened, Workspace};
use skep_scrub::CleanReader;
use tokio_util::sync::CancellationToken;

use crate::blocking::{self, ToolOutcome};
use crate::spec::{self, spec, text};
use crate::walk::{self, FileFilter, Next, WalkEnd};

/// Matching lines in an answer unless `max` says otherwise, and the most it may say.
const DEFAULT_MAX: u64 = 200;
const MOST_MAX: u64 = 10_000;
const MOST_CONTEXT: usize = 100;
/// The most of one line that is shown.
const LINE_BYTES: usize = 1000;
/// Room left in an answer for the closing note.
const NOTE_BYTES: usize = 256;
/// The longest line that is searched; a file with a longer one is left out from there.
const HEAP_BYTES: usize = 8 * 1024 * 1024;
/// Keeps a hostile pattern from taking the memory of the hive.
const PATTERN_BYTES: usize = 10 * 1024 * 1024;

#[derive(Debug)]
pub struct GrepTool {
    spec: ToolSpec,
    output_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    r#type: Option<String>,
    #[serde(default)]
    context: usize,
    max: Option<u64>,
}

impl GrepTool {
    /// `output_bytes` is what the gate lets an answer hold.
    pub fn new(output_bytes: usize) -> Self {
        let description = "Searches the workspace's files for a regular expression (Rust syntax) \
             line by line. Answers `path:line:text`, lines around a match as `path-line-text`. \
             Hidden, ignored and binary files are left out.";
        let properties = json!({
            "pattern": text("The regular expression; (?i) before it ignores case."),
            "path": text("Folder or file to search. Default: the whole workspace."),
            "glob": text("Only files whose path matches, such as `*.rs` or `!*.lock`."),
            "type": text("Only files of a type, such as rust, py, js, md."),
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": MOST_CONTEXT,
                "description": "Lines to show before and after each match. Default: 0.",
            },
            "max": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_MAX,
                "description": "Most matching lines. Default: 200.",
            },
        });
        let spec = spec("grep", description, properties, &["pattern"]);
        Self { spec, output_bytes }
    }
}

impl Tool for GrepTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::READ
    }

    fn aliases(&self) -> &[&'static str] {
        &["Grep"]
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::beneath(arguments)
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let takes = "grep takes pattern, path, glob, type (texts), context and max (whole numbers)";
        let arguments: Arguments = spec::read(arguments, takes)?;
        if arguments.context > MOST_CONTEXT {
            return Err(format!("context is at most {MOST_CONTEXT}"));
        }
        if arguments.max.is_some_and(|max| max == 0 || max > MOST_MAX) {
            return Err(format!("max is between 1 and {MOST_MAX}"));
        }
        let search = Search {
            matcher: matcher(&arguments.pattern)?,
            choice: FileFilter::new(arguments.glob.as_deref(), arguments.r#type.as_deref())?,
            context: arguments.context,
            max: arguments.max.unwrap_or(DEFAULT_MAX),
            room: self.output_bytes.saturating_sub(NOTE_BYTES),
        };
        let path = arguments.path.unwrap_or_else(|| ".".to_owned());
        Ok(blocking::prepared(move |workspace, context| answer(&search, &path, workspace, context)))
    }
}

#[derive(Debug)]
struct Search {
    matcher: RegexMatcher,
    choice: FileFilter,
    context: usize,
    max: u64,
    room: usize,
}

fn matcher(pattern: &str) -> Result<RegexMatcher, String> {
    walk::check_pattern(pattern)?;
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build(pattern)
        .map_err(|error| format!("bad_pattern: {error}"))
}

fn answer(
    search: &Search,
    path: &str,
    workspace: &Workspace,
    context: &ToolContext,
) -> ToolOutcome {
    let mut searcher = SearcherBuilder::new()
        .line_terminator(LineTerminator::byte(b'\n'))
        .line_number(true)
        .before_context(search.context)
        .after_context(search.context)
        .binary_detection(BinaryDetection::quit(0))
        // A mapped file that another process cuts short would end the hive.
        .memory_map(MmapChoice::never())
        .heap_limit(Some(HEAP_BYTES))
        .build();
    let mut page = Page::new(search, &context.cancel);
    let opened = workspace.open_any(path).map_err(|refusal| refusal.to_string())?;
    let walked = match opened {
        Opened::File(file) => {
            page.search(&mut searcher, Path::new(path), file);
            WalkEnd::All
        }
        Opened::Folder(start) => {
            walk::files(workspace, start, &search.choice, &context.cancel, &mut |found| {
                if let Ok(file) = found.open() {
                    page.search(&mut searcher, found.path, file);
                }
                if page.is_full() || context.cancel.is_cancelled() {
                    Next::Stop
                } else {
                    Next::GoOn
                }
            })
        }
    };
    if context.cancel.is_cancelled() {
        return Err(blocking::cancelled());
    }
    Ok(ToolAnswer::ok(page.finish(walked)))
}

/// The answer while it grows.
struct Page<'a> {
    search: &'a Search,
    cancel: &'a CancellationToken,
    text: String,
    matches: u64,
    /// The room for text is used up.
    cut: bool,
    /// Files that could not be searched to their end.
    unread: usize,
}

impl<'a> Page<'a> {
    fn new(search: &'a Search, cancel: &'a CancellationToken) -> Self {
        Self { search, cancel, text: String::new(), matches: 0, cut: false, unread: 0 }
    }

    fn is_full(&self) -> bool {
        self.cut || self.matches > self.search.max
    }

    fn search(&mut self, searcher: &mut Searcher, path: &Path, file: File) {
        if self.try_search(searcher, path, file).is_err() {
            self.unread += 1;
        }
    }

    /// Most files have no match and are read once, as they are. What is shown of the others, and
    /// counted as a match, is read without its secrets: a pattern cannot feel its way along one.
    fn try_search(
        &mut self,
        searcher: &mut Searcher,
        path: &Path,
        mut file: File,
    ) -> io::Result<()> {
        let matcher = &self.search.matcher;
        let mut any = AnyMatch(false);
        searcher.search_file(matcher, &file, &mut any)?;
        if !any.0 {
            return Ok(());
        }
        file.rewind()?;
        // As the searcher reads files itself: by their byte order mark.
        let text = DecodeReaderBytesBuilder::new()
            .utf8_passthru(true)
            .strip_bom(true)
            .bom_override(true)
            .build(file);
        let clean = CleanReader::new(skep_scrub::known(), text, 0);
        let path = walk::line(path);
        let separate = !self.text.is_empty();
        searcher.search_reader(matcher, clean, Lines { page: self, path: &path, separate })
    }

    fn add(&mut self, path: &str, number: Option<u64>, mark: char, bytes: &[u8]) -> bool {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // Cut before it is made text, which is up to three times as long.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES + 4)]);
        let cut = text.floor_char_boundary(LINE_BYTES);
        let note = if cut < text.len() { " [cut]" } else { "" };
        let number = number.unwrap_or(0);
        let line = format!("{path}{mark}{number}{mark}{}{note}\n", &text[..cut]);
        if self.text.len() + line.len() > self.search.room {
            self.cut = true;
            return false;
        }
        self.text.push_str(&line);
        true
    }

    fn finish(self, walked: WalkEnd) -> String {
        let mut text = self.text;
        if self.matches == 0 {
            text.push_str("[no line matches]\n");
        }
        if self.cut {
            text.push_str("[more lines match: the answer is full; narrow the search]\n");
        } else if self.matches > self.search.max {
            let max = self.search.max;
            text.push_str(&format!("[more lines match: only {max} are shown]\n"));
        }
        if self.unread > 0 {
            text.push_str(&format!("[{} files could not be searched whole]\n", self.unread));
        }
        if walked == WalkEnd::Part {
            text.push_str("[the workspace is too large or too deep; not all was searched]\n");
        }
        text
    }
}

/// Whether a file has a match.
struct AnyMatch(bool);

impl Sink for AnyMatch {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.0 = true;
        Ok(false)
    }
}

/// Takes the lines of one file.
struct Lines<'a, 'b> {
    page: &'a mut Page<'b>,
    path: &'a str,
    /// Something stands above: a break comes first when there is context.
    separate: bool,
}

impl Lines<'_, '_> {
    fn break_before(&mut self) {
        if std::mem::take(&mut self.separate) && self.page.search.context > 0 {
            self.page.text.push_str("--\n");
        }
    }
}

impl Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.page.matches += 1;
        if self.page.is_full() || self.page.cancel.is_cancelled() {
            return Ok(false);
        }
        self.break_before();
        Ok(self.page.add(self.path, found.line_number(), ':', found.bytes()))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        // The lines before a match that is one too many belong to nothing.
        if self.page.matches >= self.page.search.max
            && *around.kind() == grep_searcher::SinkContextKind::Before
        {
            self.page.matches += 1;
            return Ok(false);
        }
        self.break_before();
        Ok(self.page.add(self.path, around.line_number(), '-', around.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.separate = true;
        Ok(true)
    }
}
