use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;

use crate::lab::{call, context, reach, tool, tools, use_tool};

#[tokio::test]
async fn write_makes_folders_and_shows_what_changed() {
    let home = tempfile::tempdir().unwrap();
    let arguments = json!({"file_path": "a/b/c.txt", "content": "one\ntwo\n"});
    let made = use_tool("write", home.path(), arguments).await;
    assert_eq!((made.text.as_str(), made.is_error), ("created a/b/c.txt: 8 bytes", false));
    assert_eq!(made.diff(), "--- a/b/c.txt\n+++ a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    let path = home.path().join("a/b/c.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let arguments = json!({"file_path": path.to_str().unwrap(), "content": "one\n2\n"});
    let replaced = use_tool("write", home.path(), arguments).await;
    assert!(replaced.text.starts_with("replaced "), "{replaced:?}");
    assert!(replaced.diff().ends_with("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{}", replaced.diff());
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n2\n");
    assert_eq!(after.mode() & 0o7777, 0o750, "permissions stay, set-uid does not");
    assert_ne!(after.ino(), before.ino(), "a new file took the old one's place");
    assert_eq!(fs::read_dir(home.path().join("a/b")).unwrap().count(), 1, "nothing is left over");
}

#[tokio::test]
async fn write_leaves_no_half_file_behind_when_it_fails() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "old").unwrap();
    symlink("file", home.path().join("link")).unwrap();
    let long = "n".repeat(300);
    let table = [
        ("file/x", "bad_path"),
        (".", "is_directory"),
        ("sub/", "is_directory"),
        ("sub/.", "is_directory"),
        ("..", "outside_workspace"),
        ("link", "is_link"),
        ("missing/../x", "not_found"),
        (long.as_str(), "bad_path"),
        ("", "bad_path"),
    ];
    for (path, class) in table {
        let arguments = json!({"file_path": path, "content": "x"});
        let answer = use_tool("write", home.path(), arguments).await;
        assert_eq!(answer.class(), class, "{path:?}: {answer:?}");
    }
    let mut names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "link"]);
    assert_eq!(fs::read_to_string(home.path().join("file")).unwrap(), "old");
}

#[tokio::test]
async fn a_cancelled_write_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let context = context(home.path());
    context.cancel.cancel();
    let arguments = json!({"file_path": "x", "content": "x"});
    let answer = call(tool("write").as_ref(), arguments, context).await;
    assert_eq!((answer.text.as_str(), answer.is_error), ("cancelled", true));
    assert!(!home.path().join("x").exists());
}

#[tokio::test]
async fn edit_replaces_what_is_unique_and_refuses_what_is_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("f");
    let edit = |old: &str, new: &str, all: bool| {
        let arguments =
            json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": all});
        let workspace = home.path().to_path_buf();
        async move { use_tool("edit", &workspace, arguments).await }
    };
    fs::write(&path, "a = 1\nb = 1\nc = 2\nb = 1\n").unwrap();
    let answer = edit("c = 2", "c = 3", false).await;
    assert_eq!((answer.text.as_str(), answer.is_error), ("edited f: 1 place", false));
    let expected = "--- f\n+++ f\n@@ -1,4 +1,4 @@\n a = 1\n b = 1\n-c = 2\n+c = 3\n b = 1\n";
    assert_eq!(answer.diff(), expected);

    let content = fs::read(&path).unwrap();
    let answer = edit("b = 1", "b = 9", false).await;
    let expected = "ambiguous: old_string occurs 2 times in f, in lines 2, 4; give more of the \
                    text around it, or set replace_all";
    assert_eq!((answer.text.as_str(), answer.is_error), (expected, true));
    assert_eq!(edit("= 7", "= 8", false).await.class(), "no_match");
    assert_eq!(fs::read(&path).unwrap(), content, "a refused edit changes nothing");

    let answer = edit("b = 1", "b = 9", true).await;
    assert_eq!(answer.text, "edited f: 2 places");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a = 1\nb = 9\nc = 3\nb = 9\n");
}

/// Else a secret would be found by what is changed, or stand in the file without being known.
#[tokio::test]
async fn edit_matches_nothing_inside_a_secret() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("f");
    let secret = "Wv7xkR2mwZ9stJ4npL6yYb3c";
    skep_scrub::known().add([skep_scrub::Secret::new("vault.EDITED", secret)]);
    let edit = |old: &str, all: bool| {
        let arguments =
            json!({"file_path": "f", "old_string": old, "new_string": "-", "replace_all": all});
        let workspace = home.path().to_path_buf();
        async move { use_tool("edit", &workspace, arguments).await }
    };
    fs::write(&path, [b"m\xff m T=", secret.as_bytes(), b"\nm"].concat()).unwrap();
    for old in ["Wv7xkR2m", "T=W", "c\nm", "Wv7xkR2n"] {
        let answer = edit(old, false).await;
        assert_eq!(answer.class(), "no_match", "{old}: {answer:?}");
    }
    let answer = edit("m", true).await;
    assert_eq!(answer.text, "edited f: 3 places");
    let expected = [b"-\xff - T=", secret.as_bytes(), b"\n-"].concat();
    assert_eq!(fs::read(&path).unwrap(), expected);
}

#[tokio::test]
async fn edit_sees_overlapping_places_and_keeps_carriage_returns() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("f");
    let edit = |old: &str, new: &str, all: bool| {
        let arguments =
            json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": all});
        let workspace = home.path().to_path_buf();
        async move { use_tool("edit", &workspace, arguments).await }
    };
    fs::write(&path, "xaaay").unwrap();
    let answer = edit("aa", "b", false).await;
    assert!(answer.text.starts_with("ambiguous: old_string occurs 2 times"), "{answer:?}");
    assert_eq!(edit("aa", "b", true).await.text, "edited f: 1 place");
    assert_eq!(fs::read_to_string(&path).unwrap(), "xbay");

    fs::write(&path, "one\r\ntwo\r\nthree\r\n").unwrap();
    assert!(!edit("one\ntwo\n", "1\n2\n", false).await.is_error);
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\r\n2\r\nthree\r\n");

    let many = "same\n".repeat(30);
    fs::write(&path, &many).unwrap();
    let answer = edit("same", "other", false).await;
    assert!(answer.text.contains("30 times") && answer.text.contains("20 and more"), "{answer:?}");
    fs::write(&path, b"a\0b").unwrap();
    assert_eq!(edit("a", "b", false).await.class(), "not_text");
}

#[test]
fn every_tool_has_its_names_and_takes_nothing_it_does_not_know() {
    let table = [
        ("read", "Read", true, json!({"file_path": "a"})),
        ("write", "Write", false, json!({"file_path": "a", "content": ""})),
        ("edit", "Edit", false, json!({"file_path": "a", "old_string": "a", "new_string": "b"})),
        ("glob", "Glob", true, json!({"pattern": "*"})),
        ("grep", "Grep", true, json!({"pattern": "a"})),
        ("bash", "Bash", false, json!({"command": "true"})),
    ];
    assert_eq!(tools(Vec::new()).len(), table.len());
    for (name, alias, retry_safe, arguments) in table {
        let tool = tool(name);
        let manner = tool.manner(&arguments, reach());
        assert_eq!((tool.aliases(), manner.retry_safe), ([alias].as_slice(), retry_safe));
        assert!(tool.prepare(arguments.clone()).is_ok(), "{name}");
        let schema = &tool.spec().input_schema;
        assert_eq!(schema["additionalProperties"], json!(false));
        // All of these are needed; `bash` alone can do without, and then wants something else.
        for required in arguments.as_object().unwrap().keys() {
            let said =
                schema["required"].as_array().is_some_and(|all| all.contains(&json!(required)));
            assert_eq!(said, name != "bash", "{name} {required}");
            let mut less = arguments.clone();
            less.as_object_mut().unwrap().remove(required);
            assert!(tool.prepare(less).is_err(), "{name} without {required}");
        }
        for unknown in ["directory", "env", "cwd", "flags", "-f", "__proto__"] {
            let mut more = arguments.clone();
            more[unknown] = json!(true);
            assert!(tool.prepare(more).is_err(), "{name} with {unknown}");
        }
        for other in [json!([]), json!("a"), json!(null), json!(1)] {
            assert!(tool.prepare(other.clone()).is_err(), "{name} with {other}");
        }
    }
    let wrong = [
        ("edit", json!({"file_path": "a", "old_string": "", "new_string": "b"}), "use write"),
        ("edit", json!({"file_path": "a", "old_string": "b", "new_string": "b"}), "the same"),
        ("glob", json!({"pattern": "a["}), "bad_glob"),
        ("grep", json!({"pattern": "a("}), "bad_pattern"),
        ("grep", json!({"pattern": "a{1000}{1000}{1000}"}), "bad_pattern"),
        ("grep", json!({"pattern": "a\nb"}), "bad_pattern"),
        ("grep", json!({"pattern": "a", "type": "nonsense"}), "unknown_type"),
        ("grep", json!({"pattern": "a", "max": 0}), "max is between"),
        ("grep", json!({"pattern": "a", "context": 101}), "context is at most"),
        ("bash", json!({"command": " "}), "empty"),
        ("bash", json!({"command": "a", "timeout_ms": 600_001}), "between 1 and 600000"),
        ("bash", json!({"command": "a", "timeout_ms": 0}), "between 1 and 600000"),
    ];
    for (name, arguments, expected) in wrong {
        let text = tool(name).prepare(arguments).err().unwrap();
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[tokio::test]
async fn edit_computes_the_size_before_it_builds_the_text() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("f");
    // (bytes in the file, every one of them `a`; what each becomes; refused)
    let table = [
        (1 << 16, 1 << 8, false),
        (1 << 16, (1 << 8) + 1, true),
        (1 << 16, 1 << 20, true),
        (1 << 16, 0, false),
    ];
    for (bytes, long, refused) in table {
        fs::write(&path, "a".repeat(bytes)).unwrap();
        let new = "b".repeat(long);
        let arguments = json!(
            {"file_path": "f", "old_string": "a", "new_string": new, "replace_all": true});
        let answer = use_tool("edit", home.path(), arguments).await;
        let left = fs::metadata(&path).unwrap().len();
        if refused {
            assert_eq!(answer.class(), "too_large", "{bytes} x {long}: {answer:?}");
            let wanted = format!("would have {} bytes", bytes * long);
            assert!(answer.text.contains(&wanted), "{answer:?}");
            assert_eq!(left, bytes as u64, "a refused edit changes nothing");
        } else {
            assert!(!answer.is_error, "{bytes} x {long}: {answer:?}");
            assert_eq!(left, (bytes * long) as u64);
        }
    }
}

#[tokio::test]
async fn edit_of_a_text_that_repeats_itself_takes_no_time() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("f"), "a".repeat(2 << 20)).unwrap();
    // Half of the file's bytes begin such a place; to find all of them would take hours.
    let old = "a".repeat(1 << 20);
    let arguments = json!({"file_path": "f", "old_string": old, "new_string": ""});
    let begun = std::time::Instant::now();
    let answer = use_tool("edit", home.path(), arguments).await;
    assert!(answer.text.contains("occurs more than 100 times in f"), "{}", answer.text);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn nothing_is_written_or_run_when_the_disk_is_nearly_full() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("f"), "old\n").unwrap();
    let table = [
        ("write", json!({"file_path": "new", "content": "x"}), "disk_floor"),
        ("write", json!({"file_path": "f", "content": "x"}), "disk_floor"),
        ("edit", json!({"file_path": "f", "old_string": "old", "new_string": "new"}), "disk_floor"),
        ("bash", json!({"command": "touch ran"}), "disk_floor"),
        ("read", json!({"file_path": "f"}), ""),
        ("grep", json!({"pattern": "old"}), ""),
    ];
    for (name, arguments, class) in table {
        let mut context = context(home.path());
        context.sandbox.limits.disk_floor_bytes = Some(1 << 60);
        let answer = call(tool(name).as_ref(), arguments, context).await;
        assert_eq!(answer.class(), class, "{name}: {answer:?}");
    }
    let mut names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["f"]);
    assert_eq!(fs::read_to_string(home.path().join("f")).unwrap(), "old\n");
}

/// Signs of the diff stand between the lines of a key, and only those near the change are shown.
#[tokio::test]
async fn attack_a_diff_beside_a_private_key_shows_none_of_its_lines() {
    let home = tempfile::tempdir().unwrap();
    let digits = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let body = format!("{digits}\n").repeat(20);
    let key = format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n");
    fs::write(home.path().join("a.txt"), format!("{key}one\n")).unwrap();
    let arguments = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let edited = use_tool("edit", home.path(), arguments).await;
    assert!(!edited.diff().contains("MIIE"), "{}", edited.diff());
    let mark = "[secret:format.private-key]";
    assert!(edited.diff().ends_with(&format!(" {mark}\n {mark}\n-one\n+two\n")), "{edited:?}");
    assert_eq!(fs::read_to_string(home.path().join("a.txt")).unwrap(), format!("{key}two\n"));
}
