//! Canaries: secrets that must not turn up anywhere, and files that nobody may touch.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

const PLAIN_BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A secret that occurs nowhere by chance.
#[derive(Clone, Debug)]
pub struct Canary {
    value: String,
    forms: Vec<(&'static str, String)>,
}

/// Where a canary was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub path: PathBuf,
    /// How it was written: plain, json, url, hex, base64.
    pub form: &'static str,
}

/// A file outside every workspace.
#[derive(Debug)]
pub struct CanaryFile {
    path: PathBuf,
    content: Canary,
    changed: SystemTime,
}

impl Canary {
    /// Letters, digits and dashes only: fits wherever a key or token fits.
    pub fn new(name: &str) -> Self {
        Self::of(&format!("canary-{name}-{}", fresh()))
    }

    /// With characters that every encoding writes differently.
    pub fn awkward(name: &str) -> Self {
        Self::of(&format!("canary \"{name}\" /+=&\\ {}", fresh()))
    }

    /// A given secret, at least 12 characters long.
    pub fn of(value: &str) -> Self {
        let json = serde_json::Value::from(value).to_string();
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![
            ("plain", value.to_owned()),
            ("json", json.trim_matches('"').to_owned()),
            ("url", percent_encoded(value)),
            ("hex", hex.to_uppercase()),
            ("hex", hex),
        ];
        for skipped in 0..3 {
            forms.push(("base64", base64_inside(value.as_bytes(), skipped, PLAIN_BASE64)));
            forms.push(("base64", base64_inside(value.as_bytes(), skipped, URL_BASE64)));
        }
        Canary { value: value.to_owned(), forms }
    }

    pub fn value(&self) -> &str {
        &self.value
    }

    /// How the secret is written in these bytes, if it is there. Join chunks before asking.
    pub fn find_in(&self, bytes: &[u8]) -> Option<&'static str> {
        // Every form but the plain one is ASCII, which a lossy reading keeps.
        let text = String::from_utf8_lossy(bytes);
        self.forms.iter().find(|(_, form)| text.contains(form)).map(|(name, _)| *name)
    }

    /// Every regular file below the folder that contains the secret, in whatever form; also file
    /// names.
    pub fn find_below(&self, folder: &Path) -> io::Result<Vec<Sighting>> {
        let mut found = Vec::new();
        let mut next = vec![folder.to_owned()];
        while let Some(path) = next.pop() {
            let kind = fs::symlink_metadata(&path)?.file_type();
            let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
            let inside = if kind.is_file() { self.find_in(&fs::read(&path)?) } else { None };
            if let Some(form) = self.find_in(name).or(inside) {
                found.push(Sighting { path: path.clone(), form });
            }
            if kind.is_dir() {
                for entry in fs::read_dir(&path)? {
                    next.push(entry?.path());
                }
            }
        }
        Ok(found)
    }
}

impl CanaryFile {
    pub fn plant(path: &Path) -> io::Result<Self> {
        let content = Canary::new("file");
        fs::write(path, content.value())?;
        let changed = fs::metadata(path)?.modified()?;
        Ok(CanaryFile { path: path.to_owned(), content, changed })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// To be searched for where the file must not have been read to.
    pub fn content(&self) -> &Canary {
        &self.content
    }

    /// Still there, same content, never written again.
    pub fn is_untouched(&self) -> bool {
        let same_time = fs::metadata(&self.path).and_then(|data| data.modified());
        let same_text = fs::read_to_string(&self.path);
        same_time.is_ok_and(|time| time == self.changed)
            && same_text.is_ok_and(|text| text == self.content.value())
    }
}

/// As keys are: small letters, capitals and digits in turn.
fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let digits = format!("{}{time}{number}", std::process::id());
    let letter = |(at, digit): (usize, u8)| match at % 3 {
        0 => char::from(digit - b'0' + b'a'),
        1 => char::from(digit - b'0' + b'A'),
        _ => char::from(digit),
    };
    digits.bytes().enumerate().map(letter).collect()
}

fn percent_encoded(value: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| {
        if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    value.bytes().map(encode).collect()
}

/// What every base64 text has in common that contains the value `skipped` bytes after a group of
/// three began: the characters that depend on the value alone.
fn base64_inside(value: &[u8], skipped: usize, alphabet: &[u8]) -> String {
    let mut padded = vec![0; skipped];
    padded.extend_from_slice(value);
    let bits = padded.len() * 8;
    let first = (skipped * 8).div_ceil(6);
    let digit = |at: usize| {
        let value = (0..6).fold(0usize, |digit, bit| {
            let at = at * 6 + bit;
            digit << 1 | usize::from(padded[at / 8] >> (7 - at % 8) & 1)
        });
        char::from(alphabet[value])
    };
    (first..bits / 6).map(digit).collect()
}
