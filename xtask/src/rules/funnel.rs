//! The dangerous things stand once: processes, dialing, the wall clock, the environment are
//! reached through skep-guard, so that walls, limits and tests have one place to act on.

use crate::finding::Finding;
use crate::source::{LexToken, SourceFile, pattern};
use crate::tree::Tree;

const RULE: &str = "funnel";

/// Code that is no part of the running product, or is the funnel itself.
const EXCEPTIONS: [&str; 4] = ["crates/skep-guard/", "crates/skep-testkit/", "xtask/", "bench/"];

const PROCESS: (&str, &[&str]) = ("starts a process", &["Command::new"]);
const DIAL: (&str, &[&str]) = (
    "dials",
    &[
        "TcpStream::connect",
        "TcpSocket::new_v4",
        "TcpSocket::new_v6",
        "UnixStream::connect",
        "UdpSocket::bind",
        "Client::new",
        "Client::builder",
        "ClientBuilder::new",
        "reqwest::get",
        "connect_async",
    ],
);
const CLOCK: (&str, &[&str]) = (
    "reads the wall clock",
    &["SystemTime::now", "Utc::now", "Local::now", "Zoned::now", "Timestamp::now", "now_v7"],
);
const ENVIRONMENT: (&str, &[&str]) = (
    "reads or changes the environment",
    &[
        "env::var",
        "env::var_os",
        "env::vars",
        "env::vars_os",
        "env::set_var",
        "env::remove_var",
        "env::home_dir",
        "env::temp_dir",
    ],
);

struct Funnelled {
    code: &'static str,
    pattern: Vec<LexToken>,
    what: &'static str,
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let funnelled: Vec<Funnelled> = [PROCESS, DIAL, CLOCK, ENVIRONMENT]
        .iter()
        .flat_map(|(what, codes)| {
            codes.iter().map(|code| Funnelled { code, pattern: pattern(code), what })
        })
        .collect();
    let mut findings = Vec::new();
    for source in tree.sources.iter().filter(|source| !is_exempt(source)) {
        for (at, token) in source.product_tokens() {
            for Funnelled { code, pattern, what } in &funnelled {
                if source.spells(at, pattern) {
                    findings.push(Finding {
                        path: source.path.clone(),
                        line: token.line,
                        rule: RULE,
                        text: format!("`{code}` {what}: go through skep-guard"),
                    });
                }
            }
        }
    }
    findings
}

fn is_exempt(source: &SourceFile) -> bool {
    let path = source.path.as_str();
    path.ends_with("/build.rs") || EXCEPTIONS.iter().any(|exception| path.starts_with(exception))
}
