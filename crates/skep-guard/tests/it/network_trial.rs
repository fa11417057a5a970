//! The trial of the walls, with a bubblewrap that forgets something.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use skep_guard::sandbox::{Level, Sandbox, Settings};

pub fn shim(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// How many words follow an option of bubblewrap.
fn values(option: &str) -> usize {
    match option {
        "--unshare-all" | "--unshare-user" | "--disable-userns" | "--die-with-parent"
        | "--share-net" | "--new-session" | "--clearenv" => 0,
        "--ro-bind" | "--bind" | "--symlink" | "--setenv" | "--ro-bind-data" => 2,
        _ => 1,
    }
}

/// Every option is left out once; each time the trial says that a wall is down.
#[tokio::test]
async fn network_trial_names_each_argument_that_is_dropped() {
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let kept = programs.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o777)).unwrap();
    let probe = async |script: &str| {
        let mut settings = Settings::new(Level::Confined, Vec::new());
        settings.limits.disk_floor_bytes = 0;
        settings.bubblewrap = shim(programs.path(), "shim", script);
        Sandbox::new(settings).probe().await
    };
    let all = kept.join("arguments").display().to_string();
    let keep = format!("printf '%s\\0' \"$@\" > {all}; exec bwrap \"$@\"");
    let report = probe(&keep).await;
    assert!(report.holds(), "{report:#?}");
    let words = fs::read_to_string(&all).unwrap();
    let words: Vec<&str> = words.split('\0').take_while(|word| *word != "--").collect();
    let (mut at, mut tried) = (0, 0);
    while at < words.len() {
        let (option, next) = (words[at], at + 1 + values(words[at]));
        assert!(option.starts_with("--"), "{option}");
        let from = next + 1;
        let report = probe(&format!("exec bwrap \"${{@:1:{at}}}\" \"${{@:{from}}}\"")).await;
        let down: Vec<_> = report.checks.iter().filter(|check| !check.holds).collect();
        assert!(!down.is_empty(), "{option} {:?} was not missed", &words[at + 1..next]);
        tried += 1;
        at = next;
    }
    assert!(tried > 15, "{tried}");
}
