#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::CommandFactory;

use super::{RootArgs, VERSION};

#[test]
fn the_command_line_is_consistent() {
    RootArgs::command().debug_assert();
}

/// Every command shows how it is used.
#[test]
fn every_command_has_examples() {
    fn check(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.starts_with("Examples:\n  "), "{path}: {help}");
        command.get_subcommands().for_each(|inner| check(inner, &path));
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

/// Commands that README and docs name within a sentence exist, with their options.
#[test]
fn commands_in_the_docs_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let (tree, mut found) = (RootArgs::command(), 0);
    for page in pages.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap();
        // Blocks are run by a journey; what is left are spans between single backticks.
        let prose = text.split("```").step_by(2).collect::<Vec<_>>().join(" ");
        for span in prose.split('`').skip(1).step_by(2) {
            if let Some(words) = span.strip_prefix("skep ") {
                check_words(&tree, words, &format!("{}: `{span}`", page.display()));
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found}");
}

/// `a|b` names several; words in capitals, and what follows a command without others, are values.
fn check_words(tree: &clap::Command, words: &str, place: &str) {
    let mut command = tree;
    let clean = |word: &str| word.replace("\\|", "|").replace(['[', ']', ','], "");
    for word in words.split_whitespace().map(clean) {
        if let Some(option) = word.strip_prefix("--") {
            let known = [command, tree].iter().any(|command| {
                command.get_arguments().any(|argument| argument.get_long() == Some(option))
            });
            assert!(known || option == "help" || option == "version", "{place}: --{option}");
        } else if command.has_subcommands() && word.starts_with(|c: char| c.is_ascii_lowercase()) {
            let inner: Vec<_> = word.split('|').map(|name| command.find_subcommand(name)).collect();
            assert!(inner.iter().all(Option::is_some), "{place}: {word}");
            let one = inner.len() == 1;
            command = inner.into_iter().flatten().next().filter(|_| one).unwrap_or(tree);
        }
    }
}
