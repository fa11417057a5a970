//! Power loss: what was synced stays, what was not is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use skep_testkit::shim::{End, Shim};

use crate::shim::{Probe, home};

/// Power fails at the first counted operation after the given ones.
fn lose_after(shim: &Shim, root: &Path, operations: &[&str], seed: u64) {
    shim.prepare(End::PowerLoss { at: u64::MAX, seed }).unwrap();
    let mut probe = Probe::start(shim, root);
    probe.run(operations);
    shim.end_from_now(End::PowerLoss { at: 1, seed }).unwrap();
    probe.run(&["open @trip"]);
    assert_eq!(probe.ask("put @trip 0 x"), None);
    probe.killed();
    assert_eq!(shim.untracked().unwrap(), 0);
}

/// Every file below the folder with its content.
fn content(root: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(root).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn files(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn an_unsynced_write_is_lost_and_a_synced_one_is_kept() {
    let (_folder, root, shim) = home();
    let steps =
        ["open @kept", "put @kept 0 one", "sync @kept", "sync-folder @", "append @kept two"];
    lose_after(&shim, &root, &steps, 0);
    assert_eq!(content(&root), files(&[("kept", "one")]));
    assert_eq!(shim.dropped().unwrap(), 2, "the second write and the entry of `trip`");
}

#[test]
fn overwritten_cut_and_replaced_bytes_come_back() {
    let (_folder, root, shim) = home();
    fs::write(root.join("a"), "0123456789").unwrap();
    fs::write(root.join("b"), "before").unwrap();
    let steps = ["open @a", "put @a 2 XY", "put @a 3 Z", "truncate @a 1", "put @a 20 end"];
    lose_after(&shim, &root, &[&steps[..], &["replace @b other"]].concat(), 0);
    assert_eq!(content(&root), files(&[("a", "0123456789"), ("b", "before")]));
}

#[test]
fn a_sync_covers_one_file_only() {
    let (_folder, root, shim) = home();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(root.join("b"), "b").unwrap();
    let steps = ["open @a", "append @a 1", "append @b 2", "sync @a"];
    lose_after(&shim, &root, &steps, 0);
    assert_eq!(content(&root), files(&[("a", "a1"), ("b", "b")]));
}

#[test]
fn a_new_file_needs_its_folder_synced() {
    let (_folder, root, shim) = home();
    let steps = ["open @a", "put @a 0 one", "sync @a"];
    lose_after(&shim, &root, &steps, 0);
    assert_eq!(content(&root), files(&[]), "content synced, entry not");
    lose_after(&shim, &root, &["open @a", "put @a 0 one", "sync-folder @"], 0);
    assert_eq!(content(&root), files(&[("a", "")]), "entry synced, content not");
    lose_after(&shim, &root, &["folder @f", "open @f/a"], 0);
    assert!(!root.join("f").exists());
}

#[test]
fn renames_and_removals_need_the_folder_synced() {
    let (folder, root, shim) = home();
    fs::write(root.join("old"), "old").unwrap();
    let write = ["open @new", "put @new 0 new", "sync @new", "rename @new @old"];
    lose_after(&shim, &root, &write, 0);
    assert_eq!(content(&root), files(&[("old", "old")]), "a rename without its sync");
    lose_after(&shim, &root, &[&write[..], &["sync-folder @"]].concat(), 0);
    assert_eq!(content(&root), files(&[("old", "new")]));
    lose_after(&shim, &root, &["remove @old"], 0);
    assert_eq!(content(&root), files(&[("old", "new")]), "a removal without its sync");
    lose_after(&shim, &root, &["remove @old", "sync-folder @"], 0);
    assert_eq!(content(&root), files(&[]));
    drop(shim);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside the home");
}

#[test]
fn with_a_seed_a_part_of_the_unsynced_reaches_the_disk() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 1..=16 {
        let (_folder, root, shim) = home();
        fs::write(root.join("a"), "").unwrap();
        let steps = ["append @a 1", "append @a 2", "append @a 3"];
        lose_after(&shim, &root, &steps, seed);
        let text = fs::read_to_string(root.join("a")).unwrap();
        assert!("123".starts_with(&text), "a prefix survives, not {text}");
        seen.insert(text);
    }
    assert!(seen.len() >= 3, "{seen:?}");
}

/// The real use: many threads, a loss at any operation, every acknowledged line there.
#[test]
fn nothing_acknowledged_is_lost_among_many_threads() {
    let points = if skep_testkit::all() { 100 } else { 12 };
    for point in 1..=points {
        let (_folder, root, shim) = home();
        shim.prepare(End::PowerLoss { at: point * 7, seed: 0 }).unwrap();
        let mut probe = Probe::start(&shim, &root);
        probe.tell("storm @ 8 200");
        let mut acked: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(line) = probe.next_line() {
            let words: Vec<&str> = line.split(' ').collect();
            let ["acked", file, round] = words[..] else { panic!("{line}") };
            acked.insert(file.to_owned(), round.parse().unwrap());
        }
        probe.killed();
        for (file, round) in acked {
            let text = fs::read_to_string(root.join(file)).unwrap();
            let last: usize = text.lines().last().unwrap().parse().unwrap();
            assert!(last >= round, "line {round} was acknowledged, {last} is the last there");
        }
        assert_eq!(shim.untracked().unwrap(), 0);
    }
}
