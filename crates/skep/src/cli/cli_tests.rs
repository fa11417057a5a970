#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::CommandFactory;

use super::{RootArgs, VERSION};

#[test]
fn the_command_line_is_consistent() {
    RootArgs::command().debug_assert();
}

/// Every command that does something shows how it is used.
#[test]
fn every_command_has_examples() {
    fn check(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        let mut below = command.get_subcommands().peekable();
        if below.peek().is_none() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n  "), "{path}: {help}");
        }
        below.for_each(|inner| check(inner, &path));
        assert!(command.get_about().is_some(), "{path} does not say what it does");
    }
    check(&RootArgs::command(), "");
}

/// `0.1.0 (1a2b3c4d5e6f, 2026-11-15)`; built without git, the version alone.
#[test]
fn the_version_names_the_commit_and_its_day() {
    let git = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.git");
    if option_env!("SKEP_COMMIT").is_some() || !std::fs::exists(git).unwrap() {
        return assert!(VERSION.starts_with(env!("CARGO_PKG_VERSION")), "{VERSION}");
    }
    let commit = VERSION.strip_prefix(concat!(env!("CARGO_PKG_VERSION"), " (")).expect(VERSION);
    let (commit, day) = commit.strip_suffix(')').and_then(|it| it.split_once(", ")).expect(VERSION);
    assert!(commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{VERSION}");
    let shape: String = day.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00", "{VERSION}");
}
