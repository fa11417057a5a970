//! `edit`: replaces a piece of a file that is named by its text.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::workspace::{Folders, PathRefusal, Workspace};

use crate::blocking::{self, ToolOutcome};
use crate::diff;
use crate::governance::{self, Governance};
use crate::spec::{self, FILE_PATH, spec, text, yes_or_no};

/// The largest file that is edited, and the largest an edit makes.
const FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Edits of larger files happen one after the other: each holds the file twice.
const LARGE_BYTES: usize = 1024 * 1024;
static LARGE: Mutex<()> = Mutex::new(());
/// How many places an ambiguous piece is named at, and how many are counted.
const LINES_NAMED: usize = 20;
const MOST_COUNTED: usize = 100;

#[derive(Debug)]
pub struct EditTool {
    spec: ToolSpec,
    governance: Option<Arc<Governance>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl EditTool {
    /// Without `governance` the settings stay as they are.
    pub fn new(governance: Option<Arc<Governance>>) -> Self {
        let description = "Replaces old_string by new_string in a text file of the workspace. \
             old_string must occur exactly once, spaces and line ends included, unless \
             replace_all is set.";
        let properties = json!({
            "file_path": text(FILE_PATH),
            "old_string": text("The text to replace, with enough around it to be unique."),
            "new_string": text("The text to put in its place."),
            "replace_all": yes_or_no("Replace every occurrence. Default: false."),
        });
        let spec =
            spec("edit", description, properties, &["file_path", "old_string", "new_string"]);
        Self { spec, governance }
    }
}

impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, arguments: &Value, of: AgentReach<'_>) -> Manner {
        Manner::effect(governance::class(arguments, of.folder))
    }

    fn aliases(&self) -> &[&'static str] {
        &["Edit"]
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let takes = "edit takes file_path, old_string, new_string (texts) and replace_all (true or \
                     false)";
        let arguments: Arguments = spec::read(arguments, takes)?;
        if arguments.old_string.is_empty() {
            return Err("old_string is empty; to make a file use write".to_owned());
        }
        if arguments.old_string == arguments.new_string {
            return Err("old_string and new_string are the same".to_owned());
        }
        let governance = self.governance.clone();
        Ok(blocking::prepared(move |workspace, context| {
            answer(&arguments, governance.as_deref(), workspace, context)
        }))
    }
}

fn answer(
    arguments: &Arguments,
    governance: Option<&Governance>,
    workspace: &Workspace,
    context: &ToolContext,
) -> ToolOutcome {
    let path = &arguments.file_path;
    let refused = |refusal: PathRefusal| refusal.to_string();
    let target = workspace.target(path, Folders::MustExist).map_err(refused)?;
    let large = target.bytes() > LARGE_BYTES as u64;
    let _turn = large.then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
    let before = target.read(FILE_BYTES).map_err(refused)?;
    if before.contains(&0) {
        return Err(format!("not_text: {path} is binary data; edit changes text only"));
    }
    let after = replaced(arguments, &before)?;
    if context.cancel.is_cancelled() {
        return Err(blocking::cancelled());
    }
    let commit =
        governance::put("edit", governance, workspace, context, (&target, path), &after.content)?;
    let places = if after.places == 1 { "1 place" } else { &format!("{} places", after.places) };
    Ok(ToolAnswer::Done {
        text: format!("edited {path}: {places}{}", governance::note(&commit)),
        is_error: false,
        files: Vec::new(),
        details: Some(json!({
            "replaced": after.places,
            "commit": commit,
            "diff": diff::unified(path, &before, &after.content),
        })),
    })
}

#[derive(Debug)]
struct Replaced {
    content: Vec<u8>,
    places: usize,
}

fn replaced(arguments: &Arguments, before: &[u8]) -> Result<Replaced, String> {
    let path = &arguments.file_path;
    let mut old = arguments.old_string.clone();
    let mut new = arguments.new_string.clone();
    let hidden = hidden(before);
    let mut places = occurrences(before, old.as_bytes(), &hidden);
    if places.is_empty() && before.windows(2).any(|pair| pair == b"\r\n") && !old.contains('\r') {
        // `read` shows such lines without their carriage return.
        old = old.replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
        places = occurrences(before, old.as_bytes(), &hidden);
    }
    match places.as_slice() {
        [] => {
            return Err(format!(
                "no_match: old_string does not occur in {path}; read the file and copy the text \
                 exactly"
            ));
        }
        [_] => {}
        _ if arguments.replace_all => {}
        several => return Err(ambiguous(path, before, several)),
    }
    let finder = memchr::memmem::Finder::new(old.as_bytes());
    let apart = || found(&finder, before, &hidden, old.len());
    let count = apart().count();
    // Before anything is built: a short text in many places makes gigabytes of a long one.
    let kept = before.len() - count * old.len();
    let bytes = count.saturating_mul(new.len()).saturating_add(kept);
    if bytes as u64 > FILE_BYTES {
        return Err(format!(
            "too_large: {path} would have {bytes} bytes; edit makes files of at most {FILE_BYTES}. \
             Replace fewer places or by a shorter text"
        ));
    }
    let mut content = Vec::with_capacity(bytes);
    let mut from = 0;
    for place in apart() {
        content.extend_from_slice(&before[from..place]);
        content.extend_from_slice(new.as_bytes());
        from = place + old.len();
    }
    content.extend_from_slice(&before[from..]);
    Ok(Replaced { content, places: count })
}

/// Where `wanted` begins, overlapping places included: `aa` stands in `aaa` twice. No more
/// than can be counted: in a text that repeats itself each costs as much as the text is long.
fn occurrences(text: &[u8], wanted: &[u8], hidden: &[Range<usize>]) -> Vec<usize> {
    let finder = memchr::memmem::Finder::new(wanted);
    found(&finder, text, hidden, 1).take(MOST_COUNTED + 1).collect()
}

/// Where it begins, each so many bytes behind the one before. What touches a secret does not
/// count: `read` shows a name there, and by what is changed the value could be found.
fn found<'t>(
    finder: &'t memchr::memmem::Finder<'_>,
    text: &'t [u8],
    hidden: &'t [Range<usize>],
    step: usize,
) -> impl Iterator<Item = usize> {
    let mut from = 0;
    let any = std::iter::from_fn(move || {
        loop {
            let place = from + finder.find(text.get(from..)?)?;
            let next = hidden.partition_point(|secret| secret.end <= place);
            let end = place + finder.needle().len();
            if hidden.get(next).is_none_or(|secret| secret.start >= end) {
                from = place + step;
                return Some(place);
            }
            from = place + 1;
        }
    });
    any.fuse()
}

/// Where secrets stand, in their order.
fn hidden(text: &[u8]) -> Vec<Range<usize>> {
    let mut begun = 0;
    let mut all = Vec::new();
    for chunk in text.utf8_chunks() {
        let places = skep_scrub::known().places(chunk.valid()).into_iter();
        all.extend(places.map(|(at, _)| begun + at.start..begun + at.end));
        begun += chunk.valid().len() + chunk.invalid().len();
    }
    all
}

fn ambiguous(path: &str, before: &[u8], places: &[usize]) -> String {
    let times = match places.len() {
        more if more > MOST_COUNTED => format!("more than {MOST_COUNTED}"),
        few => few.to_string(),
    };
    let mut text = format!("ambiguous: old_string occurs {times} times in {path}, ");
    text.push_str("in lines ");
    let (mut line, mut from) = (1, 0);
    for (index, place) in places.iter().take(LINES_NAMED).enumerate() {
        line += before[from..*place].iter().filter(|byte| **byte == b'\n').count();
        from = *place;
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{line}");
    }
    if places.len() > LINES_NAMED {
        text.push_str(" and more");
    }
    text.push_str("; give more of the text around it, or set replace_all");
    text
}
