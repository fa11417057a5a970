//! The process table, as `/proc` shows it.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use anyhow::Result;

use crate::wait;

/// Children and grandchildren of a process, dead ones that nobody collected left out.
pub fn children_of(process: u32) -> Vec<u32> {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for child in all() {
        if let Some((state, parent)) = state_and_parent(child)
            && state != 'Z'
        {
            below.entry(parent).or_default().push(child);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![process];
    while let Some(process) = next.pop() {
        let children = below.remove(&process).unwrap_or_default();
        next.extend(&children);
        found.extend(children);
    }
    found.sort_unstable();
    found
}

/// Processes that carry this mark in their command line or environment, this one left out.
pub fn alive(mark: &str) -> Vec<u32> {
    let carries = |process: &u32| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(mark)
        })
    };
    let others = all().into_iter().filter(|process| *process != std::process::id());
    others.filter(exists).filter(carries).collect()
}

/// Whether the process runs; a dead one that nobody collected does not.
pub fn exists(process: &u32) -> bool {
    state_and_parent(*process).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

pub async fn wait_gone(processes: &[u32], patience: Duration) -> Result<()> {
    let what = format!("the end of processes {processes:?}");
    wait::until_true(&what, patience, || !processes.iter().any(exists)).await
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn state_and_parent(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may contain spaces and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}
