//! What the command line says to do next works as it is printed, for the hive that was named. Ids
//! may be shortened; times are in the reader's zone.

use std::path::PathBuf;

use serde_json::Value;
use skep_testkit::hive::Finished;
use skep_testkit::locate;
use tempfile::TempDir;

use crate::docs_blocks::{free_port, wrappers};

/// A person at a shell. Their own home is elsewhere: a command without `--home` would miss the
/// hive, whose folder has a blank in its name.
struct Person {
    folder: TempDir,
    home: PathBuf,
    port: u16,
}

impl Person {
    fn new(place: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("the hive");
        let port = free_port(place);
        wrappers(folder.path(), &locate::skep().unwrap(), port);
        Self { folder, home, port }
    }

    async fn shell(&self, line: &str) -> Finished {
        let user = self.folder.path();
        let path = format!("{}:{}", user.join("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(user).env_clear().env("PATH", path);
        shell.env("HOME", user).env("SKEP_LOCAL_SERVERS", "none").env("TZ", "FAR-3:30");
        let token = std::fs::read_to_string(user.join("token")).unwrap_or_default();
        let output = shell.env("SKEP_TOKEN", token.trim()).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Finished { code: output.status.code(), stdout, stderr }
    }

    /// With `--home` as a person types it.
    async fn skep(&self, words: &str) -> Finished {
        self.shell(&format!("skep --home '{}' {words}", self.home.display())).await
    }

    /// Runs a command that fails and the command it says to try next, which must work.
    async fn follow(&self, words: &str, next: &str) {
        let failed = self.skep(words).await;
        assert!(matches!(failed.code, Some(1..=3)), "{words}: {failed:?}");
        self.check_next(words, &failed.stderr, next).await;
    }

    async fn check_next(&self, words: &str, said: &str, next: &str) {
        let line = said.lines().find_map(|line| line.trim_start().strip_prefix("next: "));
        let line = line.unwrap_or_else(|| panic!("{words} says no next: {said}"));
        let expected = format!("skep --home '{}' {next}", self.home.display());
        assert!(line.starts_with(&expected), "{words}: {line}");
        assert!(!said.contains("/api/"), "{words} cites a route: {said}");
        let done = self.shell(line).await;
        assert_eq!(done.code, Some(0), "{words}: {line}: {done:?}");
    }

    async fn value(&self, words: &str, key: &str) -> String {
        let done = self.skep(&format!("{words} --json")).await;
        let value: Value = serde_json::from_str(&done.stdout).unwrap();
        value.pointer(key).and_then(Value::as_str).unwrap().to_owned()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let skep = locate::skep().unwrap();
        let mut down = std::process::Command::new(skep);
        let _not_running = down.arg("--home").arg(&self.home).arg("down").output();
    }
}

#[tokio::test]
async fn fault_next_commands_work_as_they_are_printed() {
    let person = Person::new(91);
    person.follow("status", "up").await;
    for (words, next) in [
        ("up", "status"),
        ("send nobody hello", "agent list"),
        ("task show nothing", "inbox"),
        ("task show ''", "inbox"),
        ("session show ''", "session list main"),
        ("grant revoke nothing", "grant list"),
        ("task retry nothing", "inbox"),
        ("token revoke nothing", "token list"),
        ("agent show nobody", "agent list"),
        ("agent new main", "agent show main"),
        ("provider test nothing", "provider list"),
        ("calls resolve nothing call happened", "calls list"),
        ("approve nothing", "approve"),
        ("history export main --session nothing", "session list main"),
        ("send main \"$(printf '#rehearsal\\nfail auth')\" --wait --session other", "history show"),
    ] {
        person.follow(words, next).await;
    }
    let failed = person.value("task list --state failed", "/items/0/item_id").await;
    let shown = person.skep(&format!("task show {failed}")).await;
    person.check_next("task show", &shown.stdout, "task retry").await;
    let doctor = person.skep("doctor").await;
    assert!(!doctor.stdout.contains("skep up creates"), "{}", doctor.stdout);
}

#[tokio::test]
async fn fault_next_a_hive_elsewhere_is_named_again_and_tls_where_there_is_none_is_explained() {
    let person = Person::new(92);
    assert_eq!(person.skep("up").await.code, Some(0));
    let nameless = person.skep("token new").await;
    assert_eq!(nameless.code, Some(2), "{nameless:?}");
    let made = person.skep("token new laptop > token").await;
    assert!(made.stderr.contains("role operator: may do everything"), "{}", made.stderr);
    let url = format!("http://127.0.0.1:{}", person.port);
    let failed = person.shell(&format!("skep --url {url} task show nothing")).await;
    let next = format!("next: skep --url {url} inbox");
    assert!(failed.stderr.contains(&next), "{}", failed.stderr);
    assert_eq!(person.shell(&next["next: ".len()..]).await.code, Some(0));
    let bare = person.shell(&format!("skep --url 127.0.0.1:{} status", person.port)).await;
    let next = format!("next: skep --url {url} status");
    assert!(bare.stderr.contains(&next), "{}", bare.stderr);
    let wrong = person.shell(&format!("SKEP_TOKEN=x skep --url {url} status")).await;
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    // A command with the same token would fail the same way.
    assert!(!wrong.stderr.contains("skep --url"), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("next: on the hive's machine: skep token new"), "{wrong:?}");
    let path = person.shell(&format!("skep --url {url}/wrong status")).await;
    assert!(path.stderr.contains("the address has a path"), "{}", path.stderr);
    let plain = person.shell(&format!("skep --url https://127.0.0.1:{} status", person.port)).await;
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.stderr.contains("write http:// instead of https://"), "{}", plain.stderr);
}

#[tokio::test]
async fn fault_next_ids_may_be_shortened_and_times_are_local() {
    let person = Person::new(93);
    assert_eq!(person.skep("up").await.code, Some(0));
    let first = person.value("send main hello", "/item_id").await;
    let second = person.value("send main again", "/item_id").await;
    let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let shown = person.skep(&format!("task show {}", &first[..=same])).await;
    assert!(shown.stdout.contains(&first), "{shown:?}");
    let sent = shown.stdout.lines().find(|line| line.starts_with("sent ")).unwrap();
    assert!(sent.ends_with("+03:30"), "{sent}");
    let both = person.skep(&format!("task show {}", &first[..same])).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    assert!(both.stderr.contains("2 ids begin with") && both.stderr.contains(&second), "{both:?}");
    assert_eq!(person.skep("send main third --wait").await.code, Some(0));
    let session = person.value("session list main", "/sessions/0/id").await;
    let forked = person.skep(&format!("session fork {} --key try", &session[..20])).await;
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let listed = person.skep("usage").await;
    assert!(listed.stdout.contains("total"), "{listed:?}");
}
