use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use skep_guard::workspace::{EntryKind, Folders, Opened, Workspace};

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

fn write(workspace: &Workspace, path: &str, folders: Folders) -> Result<(), String> {
    let target = workspace.target(path, folders).map_err(|refusal| refusal.to_string())?;
    target.replace(b"written").map_err(|refusal| refusal.to_string())
}

#[test]
fn settings_can_be_read_by_their_path_and_never_written() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(home.path().join("config.yaml"), "settings").unwrap();
    let config = home.path().join("config.yaml").display().to_string();
    let plain = Workspace::open(&work).unwrap();
    assert_eq!(class(&plain, &config), "outside_workspace");
    let workspace = plain.with_read_only(home.path()).unwrap();
    assert_eq!(read(&workspace, &config).as_deref(), Ok("settings"));
    assert_eq!(class(&workspace, "../config.yaml"), "outside_workspace");
    for path in [config, home.path().join("new").display().to_string()] {
        let refusal = write(&workspace, &path, Folders::Create).unwrap_err();
        assert!(refusal.starts_with("settings_read_only: "), "{refusal}");
    }
    // The workspace lies inside the settings and is still the workspace.
    let own = work.join("new").display().to_string();
    write(&workspace, &own, Folders::MustExist).unwrap();
    assert_eq!(read(&workspace, "new").as_deref(), Ok("written"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
}

#[test]
fn writing_follows_folder_links_inside_and_replaces_hard_links() {
    let (home, workspace) = home();
    let work = home.path().join("work");
    symlink("sub", work.join("relative")).unwrap();
    symlink(work.join("sub"), work.join("absolute")).unwrap();
    symlink("../new-folder", work.join("dangling")).unwrap();
    fs::hard_link(home.path().join("secret"), work.join("second-name")).unwrap();
    for (path, made) in [
        ("relative/one", "sub/one"),
        ("absolute/two", "sub/two"),
        ("relative/new/three", "sub/new/three"),
        ("second-name", "second-name"),
    ] {
        write(&workspace, path, Folders::Create).unwrap();
        assert_eq!(fs::read_to_string(work.join(made)).unwrap(), "written", "{path}");
    }
    assert_eq!(fs::read_to_string(home.path().join("secret")).unwrap(), "outside");
    let refusal = write(&workspace, "dangling/x", Folders::Create).unwrap_err();
    assert!(!home.path().join("new-folder").exists(), "{refusal}");
    let refusal = write(&workspace, "no/such/x", Folders::MustExist).unwrap_err();
    assert!(refusal.starts_with("not_found: "), "{refusal}");
}

#[test]
fn a_folder_lists_links_as_links_and_opens_none() {
    let (home, workspace) = home();
    let work = home.path().join("work");
    symlink("../secret", work.join("link")).unwrap();
    let Opened::Folder(folder) = workspace.open_any(".").unwrap() else { panic!("no folder") };
    let entries = folder.entries(100).unwrap();
    let kinds: Vec<_> =
        entries.iter().map(|entry| (entry.name.to_str().unwrap(), entry.kind)).collect();
    assert_eq!(kinds, [("link", EntryKind::Link), ("sub", EntryKind::Folder)]);
    for name in ["link", "..", "../secret", "sub/note.md"] {
        assert!(folder.open_file(name.as_ref()).is_err(), "{name}");
        assert!(folder.open_folder(name.as_ref()).is_err(), "{name}");
    }
    let inner = folder.open_folder("sub".as_ref()).unwrap();
    assert_eq!(inner.path(), Path::new("sub"));
    assert!(inner.open_file("note.md".as_ref()).is_ok());
}

#[test]
fn tools_where_paths_lead() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir_all(work.join("src/deep")).unwrap();
    std::fs::write(work.join("src/a.rs"), "a").unwrap();
    std::os::unix::fs::symlink("src", work.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", work.join("out")).unwrap();
    std::os::unix::fs::symlink("nowhere", work.join("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", work.join("loop")).unwrap();
    let workspace = Workspace::open(&work).unwrap();
    let real = work.canonicalize().unwrap();
    let absolute = real.join("src/a.rs");
    let cases = [
        ("src/a.rs", Some("src/a.rs")),
        ("./src//a.rs", Some("src/a.rs")),
        (".", Some(".")),
        ("src/deep/../a.rs", Some("src/a.rs")),
        ("link/a.rs", Some("src/a.rs")),
        ("link/../src/a.rs", Some("src/a.rs")),
        ("new/file.txt", Some("new/file.txt")),
        ("new/../other", Some("other")),
        ("link/new", Some("src/new")),
        ("out/passwd", Some("/etc/passwd")),
        ("/etc/hosts", Some("/etc/hosts")),
        (absolute.to_str().unwrap(), Some("src/a.rs")),
        ("dangling", None),
        ("loop/x", None),
        ("", None),
        ("a\0b", None),
    ];
    for (path, expected) in cases {
        assert_eq!(workspace.leads_to(path).as_deref(), expected, "{path:?}");
    }
}
