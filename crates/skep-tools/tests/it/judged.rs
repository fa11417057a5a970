//! What rules were asked about is what a tool opens, or nothing is.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::lab::{call, context, tool};

#[tokio::test]
async fn attack_a_path_that_leads_elsewhere_than_judged_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path();
    for folder in ["open", "secrets"] {
        fs::create_dir(work.join(folder)).unwrap();
        fs::write(work.join(folder).join("key"), format!("of {folder}\n")).unwrap();
    }
    // The link led to `open` when the call was judged.
    symlink("secrets", work.join("door")).unwrap();
    let new = json!({"file_path": "door/new", "content": "x"});
    let calls = [
        ("read", "door/key", json!({"file_path": "door/key"})),
        ("write", "door/key", json!({"file_path": "door/key", "content": "x"})),
        ("write", "door/new", new),
        (
            "edit",
            "door/key",
            json!({"file_path": "door/key", "old_string": "of", "new_string": "x"}),
        ),
        ("glob", "door", json!({"pattern": "*", "path": "door"})),
        ("grep", "door", json!({"pattern": "of", "path": "door"})),
    ];
    for (name, path, arguments) in &calls {
        let run = async |leads: String| {
            let mut context = context(work);
            context.judged = vec![("other".to_owned(), "x".to_owned()), ((*path).into(), leads)];
            call(tool(name).as_ref(), arguments.clone(), context).await
        };
        let refused = run(path.replace("door", "open")).await;
        assert_eq!(refused.class(), "moved", "{name}: {}", refused.text);
        assert!(!refused.text.contains("of secrets"), "{name}: {}", refused.text);
        assert_eq!(fs::read_to_string(work.join("secrets/key")).unwrap(), "of secrets\n", "{name}");
        assert_eq!(fs::read_dir(work.join("secrets")).unwrap().count(), 1, "{name}");
    }
    for (name, path, arguments) in calls {
        let mut context = context(work);
        context.judged = vec![(path.to_owned(), path.replace("door", "secrets"))];
        let answer = call(tool(name).as_ref(), arguments, context).await;
        assert!(!answer.text.contains("moved"), "{name}: {}", answer.text);
    }
}
