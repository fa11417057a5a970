use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use skep_guard::workspace::Workspace;

fn read(workspace: &Workspace, path: &str) -> Result<String, String> {
    let mut file = workspace.open_file(path).map_err(|refusal| refusal.to_string())?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn class(workspace: &Workspace, path: &str) -> String {
    let refusal = read(workspace, path).unwrap_err();
    refusal.split(':').next().unwrap().to_owned()
}

fn home() -> (tempfile::TempDir, Workspace) {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir_all(work.join("sub")).unwrap();
    fs::write(work.join("sub/note.md"), "inside").unwrap();
    fs::write(home.path().join("secret"), "outside").unwrap();
    let workspace = Workspace::open(&work).unwrap();
    (home, workspace)
}

#[test]
fn paths_inside_are_opened_however_they_are_written() {
    let (home, workspace) = home();
    let work = home.path().join("work");
    symlink("sub/note.md", work.join("relative_link")).unwrap();
    symlink(work.join("sub/note.md"), work.join("absolute_link")).unwrap();
    let absolute = work.join("sub/note.md");
    for path in [
        "sub/note.md",
        "./sub/../sub/note.md",
        "relative_link",
        "absolute_link",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(read(&workspace, path).as_deref(), Ok("inside"), "{path}");
    }
}

#[test]
fn every_way_out_is_refused_by_its_class() {
    let (home, workspace) = home();
    let work = home.path().join("work");
    symlink("../secret", work.join("up")).unwrap();
    symlink(home.path().join("secret"), work.join("away")).unwrap();
    symlink("/proc/self/environ", work.join("proc")).unwrap();
    symlink("/proc/self/root", work.join("magic")).unwrap();
    symlink("circle", work.join("circle")).unwrap();
    let beside = format!("{}-evil/x", work.display());
    let table = [
        ("../secret", "outside_workspace"),
        ("sub/../../secret", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        (beside.as_str(), "outside_workspace"),
        ("/proc/self/environ", "outside_workspace"),
        ("up", "outside_workspace"),
        ("away", "outside_workspace"),
        ("proc", "outside_workspace"),
        ("magic/etc/passwd", "outside_workspace"),
        ("circle", "bad_path"),
        ("missing", "not_found"),
        ("sub/note.md/x", "not_found"),
        ("sub", "is_directory"),
        (work.to_str().unwrap(), "is_directory"),
        ("", "bad_path"),
        ("a\0b", "bad_path"),
    ];
    for (path, expected) in table {
        assert_eq!(class(&workspace, path), expected, "{path:?}");
    }
}

#[test]
fn pipes_sockets_and_devices_are_refused_at_once() {
    let (home, workspace) = home();
    let work = home.path().join("work");
    let mode = Mode::RUSR | Mode::WUSR;
    let make = |name: &str, kind: FileType| {
        rustix::fs::mknodat(rustix::fs::CWD, work.join(name), kind, mode, 0)
    };
    make("pipe", FileType::Fifo).unwrap();
    make("socket", FileType::Socket).unwrap();
    assert_eq!(class(&workspace, "pipe"), "not_a_regular_file");
    assert_eq!(class(&workspace, "socket"), "not_a_regular_file");
}

#[test]
fn a_workspace_renamed_away_is_still_the_one_that_was_opened() {
    let (home, workspace) = home();
    fs::rename(home.path().join("work"), home.path().join("moved")).unwrap();
    symlink(Path::new("/etc"), home.path().join("work")).unwrap();
    assert_eq!(read(&workspace, "sub/note.md").as_deref(), Ok("inside"));
    assert_eq!(class(&workspace, "passwd"), "not_found");
}
